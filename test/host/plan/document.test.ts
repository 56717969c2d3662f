import { expect, test } from "bun:test";

import { planDocument } from "../../../host/plan/document.ts";
import type { Plan } from "../../../host/plan/plan.ts";

const empty: Plan = {
  cloud: "azure",
  changes: [],
  held: [],
  inFlight: [],
  refused: [],
  failures: [],
  skipped: [],
  overlaps: [],
  placeholders: new Set(),
  read: { cloudConfig: {}, kinds: [], resources: [] },
};

test("a value that the cloud will choose is shown as a whole, also where another one is its beginning", () => {
  const change = {
    system: "kubernetes",
    action: "change",
    resource: "Service default/web",
    title: "Service default/web",
    reasons: [],
    interruptions: [],
    fields: [{ path: "status.ip", before: "192.0.2.1", after: "192.0.2.12" }],
  } as const;
  const { changes } = planDocument({ ...empty, changes: [change], placeholders: new Set(["192.0.2.1", "192.0.2.12"]) });
  expect(changes[0]?.fields).toEqual([{ path: "status.ip", before: "192.0.2.1", after: "(known after apply)" }]);
});

test("the reason of a refusal contains no secret, and names the object of a Service's key", () => {
  const refused = [["service default/web", "client_secret=c4n4ry"]] as const;
  expect(planDocument({ ...empty, refused }).refused).toEqual([
    { resource: "Service default/web", reason: "client_secret=[redacted]" },
  ]);
});
