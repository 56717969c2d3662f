import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";

import { type Clock, kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import type { GenerationSettings } from "../../../../host/generation/scope/scope.ts";
import type { WorkEnd } from "../../../../host/generation/slot/slot.ts";
import { hurriedClock } from "../../../kit/clocks.ts";
import { main, side, SlotRig } from "../slot-rig.ts";

setDefaultTimeout(120_000);

let rig: SlotRig;
beforeEach(async () => void (rig = await SlotRig.start()));
afterEach(() => rig[Symbol.asyncDispose]());

async function restart(settings: Partial<GenerationSettings>, clock?: Clock): Promise<void> {
  await rig[Symbol.asyncDispose]();
  rig = await SlotRig.start(settings, clock);
}

/** Installs a controller for each name, under the lock, that watches nodes. */
async function standBy(locks: Readonly<Record<string, string>>): Promise<void> {
  rig.watchedKinds = [kinds.Node];
  await rig.install(...Object.entries(locks).map(([name, lock]) => rig.controller(name, lock)));
}

/** From now on requests for nodes fail, and watches deliver nothing. */
function failNodes(): void {
  for (const verb of ["list", "watch"] as const)
    rig.api.faults.add({ match: { verb, resource: "nodes" }, effect: { status: 503 }, times: 1_000_000 });
  rig.api.watches.drop("abort");
}

/** The lock is won now. */
const wonNow = (lock: string): void => {
  const now = systemClock.monotonic();
  rig.heldSince = (each) => (each === lock ? now : Number.NEGATIVE_INFINITY);
};

const running = (): readonly string[] => [...rig.running].toSorted();
const seenBy = (name: string): number | undefined => rig.made.get(name)?.context.informers.of(kinds.Node).store.size;

describe("controllers", () => {
  test("start only when their caches have been read after the lease was free", async () => {
    await standBy({ alpha: main });
    failNodes();
    rig.api.create(kinds.Node, { metadata: { name: "joined-meanwhile" } });
    wonNow(main);
    const led = rig.lead();
    await Bun.sleep(100);
    expect([running(), rig.slot.phase]).toEqual([[], "preparing"]);
    rig.api.faults.clear();
    await eventually("it runs", () => running().length === 1);
    expect(seenBy("alpha")).toBe(1);
    rig.stop();
    await led;
  });

  test("start on what was read while the lease was acquired, without another list", async () => {
    await standBy({ alpha: main });
    const requests = (): number => rig.api.requests.count({ resource: "nodes" });
    await eventually("it watches", () => requests() === 2);
    wonNow(main);
    rig.slot.active?.readAgain();
    await eventually("it has been read and is watched again", () => requests() === 4);
    const led = rig.lead();
    await eventually("it runs", () => running().length === 1);
    expect(requests()).toBe(4);
    rig.stop();
    await led;
  });

  test("start on a list that was sent after the lease was free, in place of one that was under way", async () => {
    rig.api.create(kinds.Node, { metadata: { name: "present" } });
    rig.watchedKinds = [kinds.Node];
    rig.api.faults.add({ match: { resource: "nodes" }, effect: "hang", times: 1 });
    const installing = rig.install(rig.controller("alpha", main));
    await eventually("the nodes are being listed", () => rig.api.requests.count({ resource: "nodes" }) === 1);
    wonNow(main);
    const led = rig.lead();
    await eventually("it runs", () => running().length === 1);
    await installing;
    expect(seenBy("alpha")).toBe(1);
    rig.stop();
    await led;
  });

  test("do not wait for kinds that no controller uses", async () => {
    await standBy({ alpha: main });
    const other = rig.scope.informers.share();
    other.of(kinds.Lease);
    rig.api.faults.add({ match: { resource: "leases" }, effect: { status: 403 }, times: 1_000_000 });
    wonNow(main);
    const led = rig.lead();
    await eventually("it runs", () => running().length === 1);
    other.release();
    rig.stop();
    await led;
  });

  test("never start where caches cannot be read within the limit: the work ends with the kinds, nothing is outstanding", async () => {
    await restart({ initTimeout: 300 });
    await standBy({ alpha: main });
    failNodes();
    wonNow(main);
    const { outstanding, failure } = await rig.lead();
    expect(failure?.message).toBe(
      `controllers cannot start: nodes could not be read within 0.3 s (--plugin-init-timeout) after the lock ${main} was acquired`,
    );
    expect([outstanding, rig.lines.filter((line) => line.includes("Generation started"))]).toEqual([[], []]);
    const waiting = rig.lines.filter((line) => line.includes("Waiting for caches to refresh"));
    expect(waiting).toEqual([expect.stringContaining('"kinds":["nodes"]')]);
  });

  test("controllers whose caches take longer than 5 s are reported, and start when those have been read within the limit", async () => {
    await restart({ initTimeout: 2_000_000 }, hurriedClock(100));
    await standBy({ alpha: main });
    failNodes();
    wonNow(main);
    const led = rig.lead();
    const isReported = (): boolean => rig.lines.some((line) => line.includes("Waiting for caches to refresh"));
    await eventually("it is reported", isReported);
    rig.api.faults.clear();
    await eventually("it runs", () => running().length === 1);
    rig.stop();
    expect(await led).toEqual({ outstanding: [], failure: undefined });
  });

  test("controllers that wait for their caches end with a stop at once", async () => {
    await standBy({ alpha: main });
    failNodes();
    wonNow(main);
    const led = rig.lead();
    await eventually("it waits", () => rig.slot.phase === "preparing");
    rig.stop();
    expect(await led).toEqual({ outstanding: [], failure: undefined });
  });
});

describe("controllers under a further lock", () => {
  let led: Promise<WorkEnd>;
  beforeEach(async () => {
    await standBy({ alpha: main, beta: side });
    led = rig.lead();
    await eventually("the first runs", () => running().length === 1);
    failNodes();
    wonNow(side);
  });

  test("start only when their caches have been read after that lock was free", async () => {
    rig.slot.lockWon(side);
    await Bun.sleep(100);
    expect(running()).toEqual(["1 alpha"]);
    rig.api.create(kinds.Node, { metadata: { name: "joined-meanwhile" } });
    rig.api.faults.clear();
    await eventually("both run", () => running().length === 2);
    expect(seenBy("beta")).toBe(1);
    rig.stop();
    await led;
  });

  test("wait as well where a reload comes in between", async () => {
    rig.slot.lockWon(side);
    await rig.install(rig.controller("alpha", main), rig.controller("beta", side));
    expect(running()).toEqual(["2 alpha"]);
    rig.api.faults.clear();
    await eventually("both run", () => Bun.deepEquals(running(), ["2 alpha", "2 beta"]));
    rig.stop();
    await led;
  });
});

test("the work under the lease is drained where the caches of a further lock cannot be read within the limit", async () => {
  await restart({ initTimeout: 300 });
  await standBy({ alpha: main, beta: side });
  const led = rig.lead();
  await eventually("the first runs", () => running().length === 1);
  failNodes();
  wonNow(side);
  rig.slot.lockWon(side);
  expect((await led).failure?.message).toContain(`after the lock ${side} was acquired`);
  expect(running()).toEqual([]);
});
