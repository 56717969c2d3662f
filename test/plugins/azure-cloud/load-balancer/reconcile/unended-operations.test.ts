import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import type { Observed } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { UnendedOperations } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/unended-operations.ts";
import { capturedLog } from "../../../../host/kube/captured-log.ts";
import { world } from "../world.ts";

const id = world().securityGroup?.id ?? "";

/** A cluster whose security group another process writes for as long as `isWritten` is true. */
function followed(outcome: () => Promise<unknown> = () => Promise.resolve(undefined)) {
  const clock = manualClock();
  const stop = new AbortController();
  const { log, lines } = capturedLog(4);
  const refreshedMs: number[] = [];
  const state = { isWritten: true, refreshedMs, outdated: 0 };
  const observed = (): Observed => {
    const { securityGroup } = world();
    return world({
      ...(securityGroup && {
        securityGroup: { ...securityGroup, provisioningState: state.isWritten ? "Updating" : "Succeeded" },
      }),
    });
  };
  const operations = new UnendedOperations({
    context: { clock, signal: stop.signal, log },
    outdate: () => void (state.outdated += 1),
    async refresh() {
      state.refreshedMs.push(clock.monotonic());
      operations.seen(observed(), []);
      return await outcome();
    },
  });
  return { clock, stop, lines, state, operations, seen: () => operations.seen(observed(), []) };
}

test("an operation of another process is followed at growing intervals until it has ended, however often it is seen", async () => {
  const { clock, state, seen } = followed();
  const startedMs = clock.monotonic();
  for (let times = 0; times < 3; times++) seen();
  await clock.advance(59_999);
  expect(state.refreshedMs).toEqual([]);
  await clock.advance(1);
  for (let minutes = 0; minutes < 20; minutes++) await clock.advance(60_000);
  expect(state.refreshedMs.map((ms) => (ms - startedMs) / 60_000)).toEqual([1, 3, 7, 12, 17]);
  expect(state.outdated).toBe(5);
  state.isWritten = false;
  for (let minutes = 0; minutes < 60; minutes++) await clock.advance(60_000);
  expect(state.refreshedMs).toHaveLength(6);
});

test("Services that fail after the operation of another process are planned again until they succeed", async () => {
  const failures = [new Error("no"), new Error("no"), undefined];
  const { clock, lines, state, seen } = followed(() => {
    state.isWritten = false;
    return Promise.resolve(failures.shift());
  });
  seen();
  for (let minutes = 0; minutes < 30; minutes++) await clock.advance(60_000);
  expect(state.refreshedMs).toHaveLength(3);
  expect(lines().filter(({ msg }) => msg.includes("trying again"))).toHaveLength(2);
});

test("a stop while Services are planned after the operation of another process announces no other attempt", async () => {
  const { clock, stop, lines, state, seen } = followed(() => {
    stop.abort();
    return Promise.resolve(stop.signal.reason);
  });
  seen();
  for (let minutes = 0; minutes < 30; minutes++) await clock.advance(60_000);
  expect(state.refreshedMs).toHaveLength(1);
  expect(lines()).toEqual([]);
});

test("the operation of a write of this process is not followed", async () => {
  const { clock, state, operations } = followed();
  operations.seen(world({ securityGroup: { id: id.toUpperCase(), provisioningState: "Updating" } }), [
    { services: [], holds: [id], startedMs: 0, wave: undefined },
  ]);
  await clock.advance(600_000);
  expect(state.refreshedMs).toEqual([]);
});
