import { describe, expect, spyOn, test } from "bun:test";

import type { RouteTable } from "@azure/arm-network";
import { manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import type { ArmClients } from "../../../../../plugins/azure-cloud/arm/clients.ts";
import { ArmError } from "../../../../../plugins/azure-cloud/arm/errors.ts";
import {
  type BatcherOptions,
  KeyedBatcher,
  type Outcome,
} from "../../../../../plugins/azure-cloud/arm/writes/keyed-batcher.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { openWorld, type World } from "../../world.ts";

const realTime = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms: number) => Bun.sleep(Math.min(ms, 2)),
};

type Memory = BatcherOptions<string, string>;

/** A batcher over a list of applied changes instead of ARM. */
function memoryBatcher(options: Partial<Memory> & { readonly attempt?: (changes: readonly string[]) => void } = {}) {
  const attempts: string[][] = [];
  const applied: string[] = [];
  const batcher = new KeyedBatcher<string, string>({
    clock: realTime,
    signal: new AbortController().signal,
    sourceOf: (change) => change,
    async apply(_key, changes) {
      attempts.push([...changes]);
      await Bun.sleep(1);
      options.attempt?.(changes);
      applied.push(...changes);
      return changes.map((change) => ({ ok: true, value: `${change} applied` }));
    },
    ...options,
  });
  return { batcher, attempts, applied };
}

const rejection = (code = "InvalidRequestFormat"): ArmError => new ArmError(400, code, `400 ${code}`);
const rejecting = (bad: ReadonlySet<string>) => (changes: readonly string[]) => {
  if (changes.some((change) => bad.has(change))) throw rejection();
};

describe("merging", () => {
  test("applies simultaneous changes of one key together, and those of different keys concurrently", async () => {
    const { batcher, attempts } = memoryBatcher();
    const results = await Promise.all([
      ...["a", "b", "c"].map((change) => batcher.submit("one", change)),
      batcher.submit("two", "d"),
    ]);
    expect(results).toEqual(["a applied", "b applied", "c applied", "d applied"]);
    // The order between keys is not defined.
    expect(attempts.toSorted((one, other) => other.length - one.length)).toEqual([["a", "b", "c"], ["d"]]);
  });

  test("collects what comes during a write into the next one", async () => {
    const gate = Promise.withResolvers<undefined>();
    const batches: string[][] = [];
    const { batcher } = memoryBatcher({
      async apply(_key, changes) {
        batches.push([...changes]);
        if (batches.length === 1) await gate.promise;
        return changes.map((change) => ({ ok: true, value: change }));
      },
    });
    const first = batcher.submit("key", "a");
    while (batches.length === 0) await Bun.sleep(1);
    const later = ["b", "c", "d"].map((change) => batcher.submit("key", change));
    await Bun.sleep(10);
    expect(batches).toEqual([["a"]]);
    gate.resolve(undefined);
    await Promise.all([first, ...later]);
    expect(batches).toEqual([["a"], ["b", "c", "d"]]);
  });

  test("begins at the latest 50 ms after the first change, however many keep coming", async () => {
    const clock = manualClock();
    const { batcher, attempts } = memoryBatcher({ clock });
    const results: Promise<string>[] = [];
    for (let index = 0; index < 20; index++) {
      results.push(batcher.submit("key", String(index)));
      await clock.advance(4);
    }
    await clock.advance(50);
    await Promise.all(results);
    expect(attempts[0]?.length).toBeGreaterThan(10);
    expect(attempts[0]?.length).toBeLessThan(15);
  });

  test("gives each caller its own outcome, also when only one change cannot be planned", async () => {
    const { batcher } = memoryBatcher({
      apply: (_key, changes) =>
        Promise.resolve(
          changes.map((change): Outcome<string> => {
            return change === "b" ? { ok: false, error: new Error("b is wrong") } : { ok: true, value: change };
          }),
        ),
    });
    const results = await Promise.allSettled(["a", "b", "c"].map((change) => batcher.submit("key", change)));
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  });
});

describe("a change that ARM rejects", () => {
  test("is the only one to fail, at any position and in a batch of any size", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 40 }),
        fc.uniqueArray(fc.integer({ min: 0, max: 39 }), { maxLength: 3 }),
        async (count, positions) => {
          const changes = Array.from({ length: count }, (_, index) => `c${index}`);
          const bad = new Set(positions.filter((position) => position < count).map((position) => `c${position}`));
          const { batcher, attempts, applied } = memoryBatcher({ attempt: rejecting(bad) });
          const results = await Promise.allSettled(changes.map((change) => batcher.submit("key", change)));
          const failed = changes.filter((_, index) => results[index]?.status === "rejected");
          if (bad.size <= 1) expect(failed).toEqual([...bad]);
          else for (const change of bad) expect(failed).toContain(change);
          expect(new Set(applied).size).toBe(applied.length);
          expect(applied.toSorted()).toEqual(changes.filter((change) => !failed.includes(change)).toSorted());
          expect(attempts.length).toBeLessThanOrEqual(2 * (8 + 2 * Math.ceil(Math.log2(count))));
        },
      ),
      { seed: 13, numRuns: 40 },
    );
  });

  test("is found by attempts that read again: what the first one has read may be why it was rejected", async () => {
    const reads: string[] = [];
    const { batcher } = memoryBatcher({
      async apply(_key, changes, fresh) {
        reads.push(`${changes.join("")} ${fresh ? "fresh" : "cached"}`);
        rejecting(new Set(["b"]))(changes);
        return changes.map((change) => ({ ok: true, value: change }));
      },
    });
    await Promise.allSettled(["a", "b"].map((change) => batcher.submit("key", change)));
    expect(reads).toEqual(["ab cached", "a fresh", "b fresh"]);
  });

  test("delays no other when it is tried again: its source is applied apart until it succeeds", async () => {
    const bad = new Set(["b"]);
    const { batcher, attempts } = memoryBatcher({ attempt: rejecting(bad) });
    const all = (): Promise<unknown> =>
      Promise.allSettled(["a", "b", "c"].map((change) => batcher.submit("key", change)));
    await all();
    attempts.length = 0;
    await all();
    expect(attempts).toEqual([["a", "c"], ["b"]]);
    attempts.length = 0;
    await errorOf(batcher.submit("key", "b"));
    expect(attempts).toEqual([["b"]]);
    bad.clear();
    await all();
    attempts.length = 0;
    await all();
    expect(attempts).toEqual([["a", "b", "c"]]);
  });

  test("leaves a bounded number of writes when every change is rejected", async () => {
    const changes = Array.from({ length: 64 }, (_, index) => `c${index}`);
    const { batcher, attempts } = memoryBatcher({ attempt: rejecting(new Set(changes)) });
    const results = await Promise.allSettled(changes.map((change) => batcher.submit("key", change)));
    expect(results.every(({ status }) => status === "rejected")).toBe(true);
    expect(attempts.length).toBeLessThanOrEqual(2 * (8 + 2 * 6));
  });

  const notOurs = [
    { status: 429, code: "TooManyRequests" },
    { status: 403, code: "AuthorizationFailed" },
    { status: 401, code: "ExpiredAuthenticationToken" },
    { status: 503, code: "ServerBusy" },
  ];
  for (const { status, code } of notOurs)
    test(`is not looked for after a ${status} ${code}, which concerns all of them`, async () => {
      const { batcher, attempts } = memoryBatcher({
        attempt() {
          throw new ArmError(status, code, code);
        },
      });
      await Promise.allSettled(["a", "b"].map((change) => batcher.submit("key", change)));
      expect(attempts).toEqual([["a", "b"]]);
    });
});

describe("stopping", () => {
  test("a caller that gives up is not in the next batch, and one whose write has begun gets its result", async () => {
    const { batcher, attempts } = memoryBatcher();
    const [running, waiting] = [new AbortController(), new AbortController()];
    const first = batcher.submit("key", "a", running.signal);
    while (attempts.length === 0) await Bun.sleep(1);
    const second = errorOf(batcher.submit("key", "b", waiting.signal));
    waiting.abort(new Error("given up"));
    running.abort(new Error("too late"));
    expect(await second).toMatchObject({ message: "given up" });
    expect(await first).toBe("a applied");
    await batcher.submit("key", "c");
    expect(attempts).toEqual([["a"], ["c"]]);
  });

  test("a batch that every caller has given up is not read, planned or written", async () => {
    const { batcher, attempts } = memoryBatcher();
    const callers = ["a", "b"].map((change) => {
      const caller = new AbortController();
      const result = errorOf(batcher.submit("key", change, caller.signal));
      caller.abort(new Error("Given up."));
      return result;
    });
    expect((await Promise.all(callers)).map(String)).toEqual(["Error: Given up.", "Error: Given up."]);
    await Bun.sleep(20);
    expect(attempts).toEqual([]);
    expect(await batcher.submit("key", "c")).toBe("c applied");
    expect(attempts).toEqual([["c"]]);
  });

  test("a caller that has its result leaves nothing on its signal, which outlives thousands of changes", async () => {
    const { batcher } = memoryBatcher({ attempt: rejecting(new Set(["b"])) });
    const { signal } = new AbortController();
    const [added, removed] = [spyOn(signal, "addEventListener"), spyOn(signal, "removeEventListener")];
    await batcher.submit("key", "a", signal);
    await errorOf(batcher.submit("key", "b", signal));
    const listeners = (spy: typeof added | typeof removed): readonly unknown[] =>
      spy.mock.calls.map(([, what]) => what);
    expect(listeners(added)).toHaveLength(2);
    expect(listeners(removed)).toEqual(listeners(added));
  });

  test("rejects what still waits when the generation ends, and everything after that", async () => {
    const generation = new AbortController();
    const { batcher, attempts } = memoryBatcher({ signal: generation.signal });
    const first = batcher.submit("key", "a");
    while (attempts.length === 0) await Bun.sleep(1);
    const second = errorOf(batcher.submit("key", "b"));
    generation.abort(new Error("over"));
    expect(await first).toBe("a applied");
    expect(await second).toMatchObject({ message: "over" });
    expect(await errorOf(batcher.submit("key", "c"))).toMatchObject({ message: "over" });
    expect(attempts).toEqual([["a"]]);
  });
});

const routeTable = "/providers/Microsoft.Network/routeTables/rt0";

/** Adds one route per change to a route table, read and written by the SDK over the real pipeline. */
function routeBatcher({ network }: ArmClients, clock: BatcherOptions<string, number>["clock"] = realTime) {
  return new KeyedBatcher<string, number>({
    clock,
    signal: new AbortController().signal,
    sourceOf: (change) => change,
    async apply(key, changes) {
      const table: RouteTable = await network.routeTables.get("rg0", key);
      const there = new Set(table.routes?.map(({ name }) => name));
      const missing = changes.filter((name) => !there.has(name));
      const prefixOf = (name: string): string => `10.1.${Number(name.split("-")[1] ?? 99)}.0/24`;
      const added = missing.map((name) => ({ name, addressPrefix: prefixOf(name), nextHopType: "None" }));
      if (added.length > 0)
        await network.routeTables.createOrUpdate(
          "rg0",
          key,
          { ...table, routes: [...(table.routes ?? []), ...added] },
          { requestOptions: { headers: { "If-Match": table.etag ?? "" } } },
        );
      return changes.map(() => ({ ok: true, value: added.length }));
    },
  });
}

const names = Array.from({ length: 30 }, (_, index) => `route-${index}`);
const puts = (world: World): number => world.simulator.log.filter(({ method }) => method === "PUT").length;
const written = (world: World): readonly unknown[] => {
  const routes = world.simulator.get(routeTable)?.properties["routes"];
  return Array.isArray(routes) ? routes : [];
};

describe("a batcher over the Azure SDK", () => {
  test("thirty changes of a route table are one PUT", async () => {
    await using world = await openWorld();
    world.simulator.put(routeTable, { location: "eastus", properties: { routes: [] } });
    const batcher = routeBatcher(await world.clients());
    world.simulator.clearLog();
    await Promise.all(names.map((name) => batcher.submit("rt0", name)));
    expect(written(world)).toHaveLength(30);
    expect(puts(world)).toBe(1);
  });

  test("another writer's change in between is read and kept", async () => {
    await using world = await openWorld();
    world.simulator.put(routeTable, { location: "eastus", properties: { routes: [] } });
    const batcher = routeBatcher(await world.clients());
    let interrupted = false;
    const interrupt = (): void => {
      if (interrupted || world.simulator.log.filter(({ method }) => method === "GET").length === 0) return;
      interrupted = true;
      const others = { name: "of-another-writer", properties: { addressPrefix: "10.9.0.0/16", nextHopType: "None" } };
      world.simulator.put(routeTable, { location: "eastus", properties: { routes: [others] } });
    };
    world.simulator.setLatency(10);
    world.simulator.clearLog();
    const work = Promise.all(names.map((name) => batcher.submit("rt0", name)));
    const watch = setInterval(interrupt, 1);
    await work.finally(() => clearInterval(watch));
    expect(interrupted).toBe(true);
    expect(written(world)).toHaveLength(31);
    expect(puts(world)).toBeLessThanOrEqual(2);
  });

  test("a standing conflict is reported after five attempts", async () => {
    await using world = await openWorld();
    world.simulator.put(routeTable, { location: "eastus", properties: { routes: [] } });
    const batcher = routeBatcher(await world.clients());
    world.simulator.failNext({ method: "PUT" }, { status: 412, times: 50 });
    world.simulator.clearLog();
    expect(await errorOf(batcher.submit("rt0", "route"))).toMatchObject({ status: 412 });
    expect(puts(world)).toBe(5);
  });

  test("an operation that another one replaced is planned again", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    world.simulator.put(routeTable, { location: "eastus", properties: { routes: [] } });
    const batcher = routeBatcher(await world.clients());
    const code = "CanceledAndSupersededDueToAnotherOperation";
    world.simulator.failNext({ method: "PUT" }, { status: 409, code, stage: "operation" });
    world.simulator.clearLog();
    await batcher.submit("rt0", "route");
    expect(written(world)).toHaveLength(1);
    expect(puts(world)).toBe(2);
  });

  test("no write leaves once the fence is closed, and every caller gets the error", async () => {
    await using world = await openWorld();
    world.simulator.put(routeTable, { location: "eastus", properties: { routes: [] } });
    const batcher = routeBatcher(await world.clients());
    world.simulator.clearLog();
    world.closeFence();
    const errors = await Promise.all(names.map((name) => errorOf(batcher.submit("rt0", name))));
    expect(errors.every((error) => error instanceof Error && error.name === "FencedError")).toBe(true);
    expect(puts(world)).toBe(0);
  });
});
