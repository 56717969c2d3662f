import { describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { keyOf, type Service } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { MovedNodes } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/later/moved-nodes.ts";
import { loggerInto, type LogLine } from "../../../world.ts";
import { serviceOf } from "../../cluster.ts";
import { plannerConfigOf } from "../../fixtures.ts";

const named = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-disable-load-balancer-floating-ip": "true" } });
const balancer = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";

function fixture(...services: readonly Service[]) {
  const clock = manualClock();
  const stop = new AbortController();
  const logged: LogLine[] = [];
  const outdated: string[] = [];
  const planned: string[] = [];
  const results: unknown[] = [];
  const onPlan: (() => Promise<void> | void)[] = [];
  const nodes = new MovedNodes({
    context: { clock, signal: stop.signal, log: loggerInto(logged) },
    config: plannerConfigOf({}),
    services: () => services,
    outdate: (id) => void outdated.push(id),
    refresh: async (all) => {
      planned.push(all.map(keyOf).join());
      await setImmediate();
      for (const happens of onPlan) await happens();
      return results.shift();
    },
  });
  const moved = (...keys: readonly string[]): void =>
    nodes.moved({ id: `${balancer}/backendAddressPools/x`, services: keys });
  return { clock, stop, logged, outdated, planned, results, onPlan, moved };
}

test("Services without floating IP that were not planned with nodes that have moved are planned, with a new read", async () => {
  const { moved, outdated, planned, logged } = fixture(named("a"), named("b"), serviceOf("c"));
  moved("default/a");
  await setImmediate();
  expect([planned, outdated, logged]).toEqual([["default/b"], [balancer], []]);
});

test("nodes that move by a write whose reply comes after the generation has ended are left to the next one", async () => {
  const { stop, moved, outdated, planned } = fixture(named("a"), named("b"));
  stop.abort();
  moved("default/a");
  await setImmediate();
  expect([planned, outdated]).toEqual([[], []]);
});

test("nothing is read or planned again where every Service without floating IP was planned with the nodes", () => {
  const { moved, outdated, planned } = fixture(named("a"), serviceOf("c"));
  moved("default/a");
  expect([planned, outdated]).toEqual([[], []]);
});

test("nodes that move while Services are planned lead to one more plan, of those that need it", async () => {
  const { moved, planned } = fixture(named("a"), named("b"));
  moved("default/a");
  moved("default/b");
  moved("default/b");
  await setImmediate();
  await setImmediate();
  await setImmediate();
  expect(planned).toEqual(["default/b", "default/a"]);
  moved("default/a");
  expect(planned).toEqual(["default/b", "default/a", "default/b"]);
});

test("Services that cannot be planned are tried again after 5 s, doubling to 5 minutes, however often nodes move", async () => {
  const { moved, planned, results, clock, logged } = fixture(named("a"));
  results.push(...Array.from({ length: 9 }, () => new Error("No.")));
  for (const seconds of [5, 10, 20, 40, 80, 160, 300, 300]) {
    const before = planned.length;
    moved();
    await setImmediate();
    await setImmediate();
    await clock.advance(seconds * 1_000 - 1);
    expect(planned.length - before).toBe(before === 0 ? 1 : 0);
    await clock.advance(1);
  }
  expect(planned).toHaveLength(9);
  expect(logged[0]).toMatchObject({ message: expect.stringContaining("trying again"), fields: { delayMs: 5_000 } });
});

test("plans that move nodes again each time are made after ever longer pauses, and the next move is planned at once", async () => {
  const { moved, planned, onPlan, clock } = fixture(named("a"));
  onPlan.push(() => moved());
  moved();
  // Two at once, and then after 5, 10, 20, 40, 80, 160, 300, 300 … seconds.
  for (let seconds = 0; seconds < 1_240; seconds += 1) await clock.advance(1_000);
  expect(planned).toHaveLength(11);
  onPlan.length = 0;
  for (let seconds = 0; seconds < 600; seconds += 1) await clock.advance(1_000);
  expect(planned).toHaveLength(12);
  moved();
  expect(planned).toHaveLength(13);
});

describe("a plan in which a Service waits for a write of minutes", () => {
  function slowPlan() {
    const parts = fixture(named("a"), named("b"));
    const write = Promise.withResolvers<void>();
    parts.onPlan.push(() => write.promise);
    parts.moved("default/b");
    return { ...parts, write };
  }

  test("delays those of nodes that move afterwards by half a minute", async () => {
    const { planned, moved, clock, onPlan } = slowPlan();
    await clock.advance(29_999);
    moved("default/a");
    expect(planned).toEqual(["default/a"]);
    onPlan.length = 0;
    await clock.advance(1);
    expect(planned).toEqual(["default/a", "default/b"]);
    moved("default/a");
    await clock.advance(1);
    expect(planned).toEqual(["default/a", "default/b", "default/b"]);
  });

  test.each([
    ["is made again at once when that fails", new Error("No."), 2],
    ["is not made again when that succeeds", undefined, 1],
  ])("%s", async (_title, result, count) => {
    const { planned, results, clock, write, logged } = slowPlan();
    results.push(result);
    await clock.advance(600_000);
    expect(planned).toHaveLength(1);
    write.resolve();
    await clock.advance(1);
    expect([planned.length, logged]).toEqual([count, []]);
  });

  test("is not made again when the process has stopped", async () => {
    const { planned, results, clock, write, stop } = slowPlan();
    results.push(new Error("No."));
    await clock.advance(600_000);
    stop.abort();
    write.resolve();
    await clock.advance(1);
    expect(planned).toHaveLength(1);
  });
});

test("a pause between two plans ends with the process", async () => {
  const { moved, planned, results, stop, clock } = fixture(named("a"));
  results.push(new Error("No."));
  moved();
  await clock.advance(1_000);
  stop.abort();
  await clock.advance(600_000);
  expect(planned).toHaveLength(1);
});

test("nothing is planned again once the process stops", async () => {
  const { moved, planned, results, stop, logged, clock } = fixture(named("a"));
  results.push(new Error("It stops."));
  moved();
  stop.abort();
  await setImmediate();
  await setImmediate();
  await clock.advance(600_000);
  expect([planned, logged]).toEqual([["default/a"], []]);
});
