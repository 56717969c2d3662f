import { describe, expect, test } from "bun:test";

import type { PlanDocument } from "../../../host/changes/plan-schema.ts";
import { type Compared, Differences } from "../../../host/shadow/comparison.ts";

type Planned = PlanDocument["changes"][number];

const change = (resource: string, reasons: readonly string[], more: Partial<Planned> = {}): Planned => ({
  system: "cloud",
  action: "change",
  resource,
  title: resource,
  reasons: [...reasons],
  interruptions: [],
  fields: [],
  ...more,
});

const compared = (
  changes: readonly Planned[],
  {
    settled = [],
    unsettled = [],
    failures = [],
    at = "now",
  }: Partial<Record<"settled" | "unsettled" | "failures", readonly string[]>> & { readonly at?: string } = {},
): Compared => ({
  plan: {
    version: 1,
    cloud: "azure",
    complete: failures.length === 0,
    changes: [...changes],
    held: [],
    refused: [],
    failures: [...failures],
    inFlight: [],
    skippedControllers: [],
  },
  settled: new Set(settled),
  unsettled: new Set(unsettled),
  at,
});

const web = "Service default/web";
const balancer = change("lb", [web]);

describe("the comparison with another manager", () => {
  test("counts a settled change as agreed when nothing is left to do about it, else as differed", () => {
    const verdict = new Differences().compare(compared([balancer], { settled: [web, "Node n"] }));
    expect(verdict).toMatchObject({ agreed: ["Node n"], differed: [web] });
  });

  test("finds a difference once for as long as it lasts, and again when it comes back", () => {
    const differences = new Differences();
    expect(differences.compare(compared([balancer], { at: "1" })).found).toHaveLength(1);
    const later = change("LB", [web], { fields: [{ path: "x", after: 1 }] });
    expect(differences.compare(compared([later], { at: "2" })).found).toEqual([]);
    expect(differences.list).toEqual([{ ...later, since: "1" }]);
    expect(differences.isOpen).toBe(true);
    expect(differences.compare(compared([])).gone).toHaveLength(1);
    expect([differences.list, differences.isOpen]).toEqual([[], false]);
    expect(differences.compare(compared([balancer])).found).toHaveLength(1);
  });

  test("does not judge what a change behind it has not settled yet, and decides no other change of it", () => {
    const differences = new Differences();
    const shared = change("lb", [web, "Service default/api"]);
    const verdict = differences.compare(compared([shared], { settled: [web], unsettled: ["Service default/api"] }));
    expect(verdict).toEqual({ agreed: [], differed: [], found: [], gone: [] });
    expect(differences.list).toEqual([]);
    expect(differences.isOpen).toBe(false);
  });

  test("takes a change of an object of Kubernetes for a change about that object", () => {
    const status = change(web, [], { system: "kubernetes" });
    expect(new Differences().compare(compared([status], { unsettled: [web] })).found).toEqual([]);
    expect(new Differences().compare(compared([status], { settled: [web] })).differed).toEqual([web]);
  });

  test("takes a change without an object behind it for a difference when it is planned twice", () => {
    const differences = new Differences();
    const tags = change("nsg", []);
    expect(differences.compare(compared([tags])).found).toEqual([]);
    expect(differences.isOpen).toBe(true);
    expect(differences.compare(compared([tags])).found).toHaveLength(1);
    expect(differences.compare(compared([tags])).found).toEqual([]);
  });

  test("judges nothing by a plan that failed as a whole, and nothing about an object that failed", () => {
    const differences = new Differences();
    differences.compare(compared([balancer]));
    const whole = { settled: ["Node n"], failures: ["plan: the time was over"] };
    expect(differences.compare(compared([], whole))).toEqual({ agreed: [], differed: [], found: [], gone: [] });
    const one = { settled: [web, "Node n"], failures: ["service default/web: 403"] };
    const failed = change(web, [], { system: "kubernetes" });
    expect(differences.compare(compared([failed], one))).toEqual({
      agreed: ["Node n"],
      differed: [],
      found: [],
      gone: [],
    });
    expect(differences.list).toHaveLength(1);
  });
});
