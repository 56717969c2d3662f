import { describe, expect, test } from "bun:test";

import { Value } from "@sinclair/typebox/value";

import { type PlanDocument, planSchema } from "../../../host/changes/plan-schema.ts";
import { shownPlan } from "../../../host/cli/shown-plan.ts";

type Change = PlanDocument["changes"][number];

const planOf = (changes: readonly Change[], lines = 0): PlanDocument => ({
  version: 1,
  cloud: "test",
  complete: false,
  changes: [...changes],
  held: Array.from({ length: lines }, () => ({ resource: "", title: "", removals: [], reason: "" })),
  refused: [],
  failures: Array(lines).fill("failed"),
  inFlight: [],
  skippedControllers: [],
});

const change = (fields: Change["fields"], reasons = ["Service default/web"]): Change => ({
  system: "cloud",
  action: "change",
  resource: "/lb",
  title: "load balancer lb",
  reasons,
  interruptions: [],
  fields,
});

describe("the plan that the console shows", () => {
  test("is the whole of a small one", () => {
    const plan = planOf([change([{ path: "a", before: { b: [1, "two", null] }, after: "x".repeat(1_000) }])], 3);
    expect(shownPlan(plan)).toEqual({ plan, changesLeftOut: 0, fieldsLeftOut: 0 });
  });

  test("is under a megabyte for any number of changes, fields, reasons and failures, and says what is left out", () => {
    const fields = Array.from({ length: 90 }, (_, index) => ({ path: `${index}`, after: ["y".repeat(100_000)] }));
    const changes = Array.from({ length: 400 }, () => change(fields, Array(9_000).fill("Service default/web")));
    const shown = shownPlan(planOf(changes, 5_000));
    expect(Value.Errors(planSchema, shown.plan).First()).toBeUndefined();
    expect(JSON.stringify(shown).length).toBeLessThan(1_000_000);
    const { length } = shown.plan.changes;
    expect(length).toBeGreaterThan(5);
    expect([shown.changesLeftOut, shown.fieldsLeftOut]).toEqual([400 - length, length * 50]);
    expect(shown.plan.changes[0]?.fields[0]?.after).toBe(`["${"y".repeat(998)}… (99004 more characters)`);
    expect(shown.plan.changes[0]?.reasons).toHaveLength(40);
  });

  test("is under a megabyte for any removals that are held, writes in flight, refusals and Services that are not served", () => {
    const text = "z".repeat(10_000);
    const lines = Array<string>(5_000).fill(text);
    const names = Array<string>(5_000).fill("z".repeat(300));
    const shown = shownPlan({
      ...planOf([]),
      held: lines.map((reason) => ({ resource: "/lb", title: "load balancer", removals: names, reason })),
      refused: lines.map((reason) => ({ resource: "Service default/web", reason })),
      inFlight: names.map((title) => ({ resource: "/lb", title, state: "Updating" })),
      failures: lines,
      skippedControllers: lines,
      unservedServices: names,
    });
    expect(Value.Errors(planSchema, shown.plan).First()).toBeUndefined();
    expect(JSON.stringify(shown).length).toBeLessThan(1_000_000);
    const { held, refused, failures, unservedServices } = shown.plan;
    expect(held.length).toBeGreaterThan(1);
    for (const some of [held[0]?.removals, refused, failures, unservedServices])
      expect(some?.length).toBeGreaterThan(20);
  });
});
