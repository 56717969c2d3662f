import { describe, expect, test } from "bun:test";

import type { PlanDocument } from "../../../host/changes/plan-schema.ts";
import { printPlan } from "../../../host/plan/print.ts";

const empty: PlanDocument = {
  version: 1,
  cloud: "azure",
  complete: true,
  changes: [],
  held: [],
  refused: [],
  failures: [],
  inFlight: [],
  skippedControllers: [],
};

describe("a printed plan", () => {
  test("is one line when a complete plan has nothing to change", () => {
    expect(printPlan(empty, { color: false })).toBe("No changes.\n");
  });

  test("names what is refused, and counts it beside the changes", () => {
    const refused = [{ resource: "Service default/web", reason: "the idle timeout is\ninvalid" }];
    expect(printPlan({ ...empty, refused }, { color: false })).toBe(
      "Refused; see explain:\n  Service default/web: the idle timeout is\\ninvalid\n\nNo changes; 1 refused.\n",
    );
    const held = [{ resource: "/lb", title: "load balancer lb", removals: ["rules: r"], reason: "why" }];
    expect(printPlan({ ...empty, refused, held }, { color: false })).toEndWith(
      "in Kubernetes; 1 removal held; 1 refused\n",
    );
  });

  test("names the first 20 removals that are held, and counts the others", () => {
    const removals = Array.from({ length: 23 }, (_, index) => `rules: r${index}`);
    const held = [{ resource: "/lb", title: "load balancer lb", removals, reason: "why" }];
    const lines = printPlan({ ...empty, held }, { color: false }).split("\n");
    expect(lines.filter((line) => line.includes("! would remove"))).toHaveLength(20);
    expect(lines).toContain("    ! and 3 more");
    expect(lines.at(-2)).toEndWith("; 23 removals held");
  });

  test("never ends with No changes when something could not be planned", () => {
    const failures = ["service default/web: 403"];
    const text = printPlan({ ...empty, complete: false, failures }, { color: false });
    expect(text).toBe(
      "Not planned:\n  service default/web: 403\n\n" +
        "Incomplete plan: 0 to create, 0 to change, 0 to delete in Azure; 0 to create, 0 to change, 0 to delete in Kubernetes; " +
        "what is not planned is listed above\n",
    );
  });
});
