import { expect, test } from "bun:test";

import { keyOf } from "cloud-controller-host/sdk";

import type { PlanEvent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { Notices } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/notices.ts";
import { loggerInto, type LogLine } from "../../world.ts";
import { serviceOf } from "../cluster.ts";
import { world } from "../world.ts";

const service = serviceOf("web");
const key = keyOf(service);

function fixture() {
  const logged: LogLine[] = [];
  const recorded: string[] = [];
  const notices = new Notices({
    log: loggerInto(logged),
    events: { event: (subject, _type, reason) => void recorded.push(`${subject.metadata?.name} ${reason}`) },
  });
  return {
    notices,
    recorded,
    /** The settings logged so far. */
    settings: () => logged.map(({ fields }) => fields["setting"]),
    planned: (warnings: readonly string[], events: readonly PlanEvent[] = []): void => {
      const results = new Map([[key, { settled: true, events, warnings }]]);
      notices.report(
        { stages: [], results, nodeEvents: new Map() },
        [{ service, action: "ensure", nodes: [] }],
        world(),
      );
    },
  };
}

test("an invalid setting is logged once, however often its Service is retried, and again after it was corrected", () => {
  const { notices, planned, settings } = fixture();
  for (let attempt = 0; attempt < 3; attempt++) {
    planned(["one", "other"]);
    planned(["one", "other"]);
    notices.forget(key);
    notices.forget();
  }
  expect(settings()).toEqual(["one", "other"]);
  planned(["other", "third"]);
  expect(settings()).toEqual(["one", "other", "third"]);
  planned(["one", "other", "third"]);
  expect(settings().slice(3)).toEqual(["one"]);
  planned([]);
  planned(["one"]);
  expect(settings().slice(4)).toEqual(["one"]);
});

test("an event of a plan is recorded once until its Service is done", () => {
  const { notices, planned, recorded } = fixture();
  const event = { type: "Warning", reason: "Odd", message: "odd" } as const;
  planned([], [event]);
  planned([], [event]);
  expect(recorded).toEqual(["web Odd"]);
  notices.forget(key);
  planned([], [event]);
  expect(recorded).toEqual(["web Odd", "web Odd"]);
});
