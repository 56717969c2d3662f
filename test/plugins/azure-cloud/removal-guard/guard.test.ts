import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { type Causes, RemovalGuard, type ResourceChange } from "../../../../plugins/azure-cloud/removal-guard/guard.ts";
import { type Item, nameOf } from "../../../../plugins/azure-cloud/removal-guard/items.ts";
import { loggerInto, type LogLine } from "../world.ts";

const items = (from: number, to: number): readonly Item[] =>
  Array.from({ length: to - from }, (_, index) => ({
    kind: "rules",
    name: `r${from + index}`,
    owners: [],
    services: ["default/web"],
  }));

/** Items of 30 nodes, from the first on that is left. */
const owned = (from: number): readonly Item[] =>
  items(from, 30).map((item) => ({ ...item, owners: [{ kind: "Node", name: nameOf(item) }] }));

const change = (before: readonly Item[], after: readonly Item[]): ResourceChange => ({
  // Azure's ids come in any case.
  id: "/LB",
  title: "load balancer lb",
  before,
  after,
  writers: ["default/web"],
});

const without: Causes = { causeOf: () => "none", confirmGone: () => Promise.resolve(() => false) };

function guarded() {
  const clock = manualClock();
  const confirmed = new Set<string>();
  const gauges: number[] = [];
  const logged: LogLine[] = [];
  const nothing = () => ({ inc: () => undefined, observe: () => undefined });
  const end = new AbortController();
  const guard = new RemovalGuard(
    {
      clock,
      signal: end.signal,
      log: loggerInto(logged),
      confirmations: { isConfirmed: async (hash) => confirmed.has(hash), command: (hash) => `confirm ${hash}` },
      metrics: { counter: nothing, histogram: nothing, gauge: () => ({ set: (value) => void gauges.push(value) }) },
    },
    { maxRemovals: 10, maxPercent: 20, windowMs: 600_000 },
  );
  const removes = async (before: readonly Item[], after: readonly Item[]): Promise<number> =>
    (await guard.review([change(before, after)], without)).flatMap((held) => held.items).length;
  const hash = (): string => /confirm (\S+)$/u.exec(guard.warnings[0]?.text ?? "")?.[1] ?? "";
  return { guard, clock, confirmed, gauges, logged, removes, hash, [Symbol.dispose]: () => end.abort() };
}

describe("the removal guard", () => {
  test("counts as unrequested what a plan removes without a cause, and neither what stays nor what has one", async () => {
    using lab = guarded();
    const causeOf: Causes["causeOf"] = (item) => (nameOf(item) === "r1" ? "known" : "none");
    const unrequested = (from: number) => lab.guard.unrequested([change(items(1, 5), items(from, 5))], causeOf);
    expect(await unrequested(1)).toBeUndefined();
    expect(await unrequested(2)).toBeUndefined();
    expect((await unrequested(4))?.removals).toEqual(["rules r2 of load balancer lb", "rules r3 of load balancer lb"]);
  });

  test("counts removals of ten minutes, and forgets older ones", async () => {
    using lab = guarded();
    const take = async (from: number): Promise<number> => {
      const held = await lab.removes(items(from, 30), items(from + 6, 30));
      if (held === 0) lab.guard.written("/lb", items(from + 6, 30));
      return held;
    };
    expect(await take(0)).toBe(0);
    expect(await take(6)).toBe(6);
    await lab.clock.advance(601_000);
    expect(await take(6)).toBe(0);
  });

  test("releases exactly the removals that are confirmed", async () => {
    using lab = guarded();
    expect(await lab.removes(items(0, 30), items(12, 30))).toBe(12);
    lab.confirmed.add(lab.hash());
    await lab.clock.advance(2_000);
    expect(await lab.removes(items(0, 30), items(12, 30))).toBe(0);
    expect(lab.guard.warnings).toEqual([]);
    expect(await lab.removes(items(0, 30), [])).toBe(18);
  });

  test("holds nothing that was confirmed before this process planned it, as with a restart", async () => {
    using before = guarded();
    await before.removes(items(0, 30), items(12, 30));
    using lab = guarded();
    lab.confirmed.add(before.hash());
    expect(await lab.removes(items(0, 30), items(13, 30))).toBe(13);
    using other = guarded();
    other.confirmed.add(before.hash());
    expect(await other.removes(items(0, 30), items(12, 30))).toBe(0);
    expect(other.guard.warnings).toEqual([]);
  });

  test("logs a hold once while the same removals are planned again, and with its new hash once there are more", async () => {
    using lab = guarded();
    for (const from of [20, 20, 25, 25]) expect(await lab.removes(items(0, 30), items(from, 30))).toBe(from);
    const held = lab.logged.filter(({ message }) => message === "Removals are held");
    expect(held.map(({ fields }) => fields["removals"])).toEqual([20, 25]);
    expect(held.at(-1)?.fields["confirmation"]).toBe(lab.hash());
  });

  test("dissolves a hold that is not planned any more, and sets the metric to zero", async () => {
    using lab = guarded();
    await lab.removes(items(0, 30), []);
    expect(lab.guard.warnings).toEqual([
      {
        kind: "RemovalsHeld",
        text: expect.stringContaining("30 of 30 rules of load balancer lb"),
        since: "2026-01-01T00:00:00.000Z",
      },
    ]);
    expect(lab.gauges).toEqual([30]);
    await lab.clock.advance(91_000);
    expect(lab.guard.warnings).toEqual([]);
    expect(lab.gauges).toEqual([30, 0]);
  });

  test("takes what a read lacks for removed until a write without it is carried out", async () => {
    using lab = guarded();
    lab.guard.seen("/lb", items(0, 30));
    expect(await lab.removes([], items(30, 31))).toBe(30);
    lab.guard.written("/lb", items(30, 31));
    expect(await lab.removes(items(30, 31), items(30, 32))).toBe(0);
  });

  test("asks for its holds to be planned again", async () => {
    using lab = guarded();
    const asked: string[] = [];
    lab.guard.onRecheck = (services) => void asked.push(...services);
    await lab.removes(items(0, 30), []);
    await lab.clock.advance(31_000);
    expect(asked).toEqual(["default/web"]);
  });

  test("asks no more for a hold that no plan has had since, and sets the metric to zero", async () => {
    using lab = guarded();
    const askedAt: number[] = [];
    lab.guard.onRecheck = () => void askedAt.push(lab.clock.monotonic() / 1000);
    await lab.removes(items(0, 30), []);
    await lab.clock.advance(600_000);
    expect(askedAt).toEqual([30, 60, 90]);
    expect(lab.gauges).toEqual([30, 0]);
  });

  test("does not count an earlier removal any more once its owner is found to be gone", async () => {
    using lab = guarded();
    let isAnswering = false;
    const causes: Causes = {
      causeOf: (item) => (Number(nameOf(item).slice(1)) < 10 ? "unconfirmed" : "none"),
      confirmGone: () => Promise.resolve(() => isAnswering),
    };
    const removes = async (from: number, to: number): Promise<number> => {
      const found = await lab.guard.review([change(owned(from), owned(to))], causes);
      if (found.length === 0) lab.guard.written("/lb", owned(to));
      return found.length;
    };
    expect(await removes(0, 10)).toBe(0);
    expect(await removes(10, 11)).toBe(1);
    isAnswering = true;
    expect(await removes(10, 11)).toBe(0);
    isAnswering = false;
    expect(await removes(11, 12)).toBe(0);
  });

  test("lets an item go only when every one of its owners is gone", async () => {
    using lab = guarded();
    const shared = owned(0).map((item) => ({
      ...item,
      owners: [...item.owners, { kind: "Node" as const, name: "other" }],
    }));
    const causes: Causes = {
      causeOf: () => "unconfirmed",
      confirmGone: () => Promise.resolve((owner) => "name" in owner && owner.name !== "other"),
    };
    expect(await lab.guard.review([change(shared, [])], causes)).toHaveLength(1);
    expect(await lab.guard.review([{ ...change(owned(0), []), id: "/lb2" }], causes)).toEqual([]);
  });

  test("keeps nothing of a resource whose lists are never whole", async () => {
    using lab = guarded();
    const volatile = { ...change(items(0, 30), items(0, 30)), isVolatile: true };
    await lab.guard.review([volatile], without);
    expect(await lab.removes([], items(30, 31))).toBe(0);
  });
});
