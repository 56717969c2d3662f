import { describe, expect, test } from "bun:test";

import { type Item, itemKey, nameOf } from "../../../../plugins/azure-cloud/removal-guard/items.ts";
import { heldRemovals } from "../../../../plugins/azure-cloud/removal-guard/rule.ts";

const limits = { maxRemovals: 10, maxPercent: 20 };
const items = (count: number, kind: "rules" | "frontends" | "probes" = "rules", from = 0): readonly Item[] =>
  Array.from({ length: count }, (_, index) => ({ kind, name: `r${index + from}`, owners: [], services: [] }));
const never = (): boolean => false;

/** How many are held when so many of so many go, and so many went before. */
const heldOf = (count: number, of: number, { recent = 0, explained = 0 } = {}): number =>
  heldRemovals(
    {
      before: items(of),
      after: new Set(items(of).slice(count).map(itemKey)),
      isExplained: (item) => Number(nameOf(item).slice(1)) < explained,
      recent: items(recent, "rules", 10_000),
    },
    limits,
  ).flatMap(({ removed }) => removed).length;

describe("the rule of the removal guard", () => {
  for (const [count, of, held] of [
    [10, 10, 0],
    [11, 11, 11],
    [11, 55, 0],
    [11, 54, 11],
    [100, 100, 100],
    [200, 1_000, 0],
    [201, 1_000, 201],
    [0, 100, 0],
  ] as const)
    test(`holds ${held} when ${count} of ${of} go: more than ten and more than a fifth`, () => {
      expect(heldOf(count, of)).toBe(held);
    });

  test("counts those that went within the window", () => {
    expect(heldOf(1, 30, { recent: 9 })).toBe(0);
    expect(heldOf(1, 30, { recent: 10 })).toBe(1);
    // Both are counted among all that there were.
    expect(heldOf(1, 50, { recent: 10 })).toBe(0);
    const none = { before: items(30), after: new Set(items(30).map(itemKey)), isExplained: never };
    expect(heldRemovals({ ...none, recent: items(30, "rules", 10_000) }, limits)).toEqual([]);
    expect(heldRemovals({ ...none, after: new Set(), recent: items(30, "probes") }, limits)[0]?.count).toBe(30);
  });

  test("holds those without a cause, however many others have one", () => {
    expect(heldOf(100, 100, { explained: 90 })).toBe(0);
    expect(heldOf(100, 100, { explained: 79 })).toBe(21);
  });

  test("counts those of the window that have no cause", () => {
    const recent = items(20, "rules", 0);
    const change = { before: items(1, "rules", 500), after: new Set<string>(), recent };
    expect(heldRemovals({ ...change, isExplained: never }, limits)).toHaveLength(1);
    expect(heldRemovals({ ...change, isExplained: (item) => nameOf(item) !== "r500" }, limits)).toEqual([]);
  });

  test("counts each kind by itself", () => {
    const before = [...items(8, "rules"), ...items(8, "frontends"), ...items(12, "probes")];
    const found = heldRemovals({ before, after: new Set(), isExplained: never, recent: [] }, limits);
    expect(found).toEqual([{ kind: "probes", removed: items(12, "probes"), count: 12, population: 12 }]);
  });

  test("compares names in any case", () => {
    const after = new Set(items(12).map((item) => itemKey({ kind: "rules", name: nameOf(item).toUpperCase() })));
    expect(heldRemovals({ before: items(12), after, isExplained: never, recent: [] }, limits)).toEqual([]);
  });

  test("holds nothing when the limit is 100 %", () => {
    const change = { before: items(500), after: new Set<string>(), isExplained: never, recent: [] };
    expect(heldRemovals(change, { maxRemovals: 0, maxPercent: 100 })).toEqual([]);
  });

  test("holds what only the config moves however little it is, unless the guard is off", () => {
    const change = {
      before: items(30),
      after: new Set(items(30).slice(3).map(itemKey)),
      isExplained: never,
      isPlaced: (item: Item) => nameOf(item) === "r1",
      recent: [],
    };
    expect(heldRemovals(change, limits)).toEqual([
      { kind: "rules", removed: items(30).slice(1, 2), count: 1, population: 30, isByPlace: true },
    ]);
    expect(heldRemovals(change, { maxRemovals: 0, maxPercent: 100 })).toEqual([]);
    expect(heldRemovals({ ...change, isExplained: () => true }, limits)).toEqual([]);
  });
});
