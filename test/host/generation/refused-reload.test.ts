import { describe, expect, test } from "bun:test";

import { CodedError, ProblemsError } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { UnrequestedRemovalsError } from "../../../host/generation/prepare/check-removals.ts";
import { RefusedReload } from "../../../host/generation/refused-reload.ts";
import { SlotRig } from "./slot-rig.ts";

const timeout = new CodedError("WorkTimeout", 'cloud "azure": create did not return within 30 s');

/** A refused reload on a clock that only the test moves, with what it has requested so far. */
async function rigged() {
  const clock = manualClock();
  const rig = await SlotRig.start({}, clock);
  const requested: string[] = [];
  const refused = new RefusedReload(rig.scope, (trigger) => void requested.push(trigger));
  /** The next pause, after a reload with this trigger. */
  const pauseAfter = (trigger: string): number => {
    refused.began(trigger);
    return refused.refused(timeout) ?? Number.NaN;
  };
  return { rig, clock, requested, refused, pauseAfter, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() };
}

/** An expectation for a pause that is at least this long, and at most twice as long. */
function expectAbout(pauseMs: number, ms: number): void {
  expect(pauseMs).toBeGreaterThanOrEqual(ms);
  expect(pauseMs).toBeLessThan(2 * ms);
}

describe("a reload that was refused for a timeout", () => {
  test("is requested again at the end of a pause, not earlier, and only once", async () => {
    await using made = await rigged();
    const { refused, clock, requested } = made;
    const pauseMs = made.pauseAfter("a change");
    expectAbout(pauseMs, 5_000);
    expect(refused.waitMs).toBe(pauseMs);
    await clock.advance(pauseMs - 1);
    refused.proceed();
    expect(requested).toEqual([]);
    await clock.advance(1);
    expect(refused.waitMs).toBe(0);
    refused.proceed();
    expect(requested).toEqual(["retry of a refused reload"]);
    refused.began("retry of a refused reload");
    refused.proceed();
    expect(requested).toHaveLength(1);
    expect(refused.waitMs).toBe(3_600_000);
  });

  test("is tried again with pauses that double up to five minutes, and from the shortest again after any other reload", async () => {
    await using made = await rigged();
    expectAbout(made.pauseAfter("a change"), 5_000);
    for (const ms of [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000])
      expectAbout(made.pauseAfter("retry of a refused reload"), ms);
    expectAbout(made.pauseAfter("SIGHUP"), 5_000);
  });
});

test.each([
  ["for its config", new ProblemsError("the cloud config is refused", ["vmType: unknown"])],
  ["for a config that cannot be read", new CodedError("CloudConfigUnreadable", "no such file")],
])("a reload that was refused %s waits for the next change alone", async (_, error) => {
  await using made = await rigged();
  const { refused, clock, requested } = made;
  refused.began("a change");
  expect(refused.refused(error)).toBeUndefined();
  expect(refused.waitMs).toBe(3_600_000);
  await clock.advance(3_600_000);
  refused.proceed();
  expect(requested).toEqual([]);
});

test("a reload whose create has not returned is requested again only once it has, whatever hung before it", async () => {
  await using made = await rigged();
  const { rig, refused, clock, requested } = made;
  rig.outstanding.add("import", "import of odd", new Promise(() => undefined));
  refused.began("a change");
  const create = Promise.withResolvers<void>();
  rig.outstanding.add("create", "create", create.promise);
  rig.outstanding.add("run", "run of odd, again", new Promise(() => undefined));
  refused.refused(timeout);
  await clock.advance(600_000);
  refused.proceed();
  expect(requested).toEqual([]);
  expect(refused.waitMs).toBe(5_000);
  create.resolve();
  await clock.advance(5_000);
  refused.proceed();
  expect(requested).toEqual(["retry of a refused reload"]);
});

test("a reload that was refused for a value that cannot be inspected is tried again", async () => {
  await using made = await rigged();
  const refuse = (): never => {
    throw new Error("no");
  };
  made.refused.began("a change");
  expectAbout(made.refused.refused(new Proxy({}, { getPrototypeOf: refuse })) ?? Number.NaN, 5_000);
});

test("a reload that was refused for its removals is not tried again, and the confirmations are read every five seconds", async () => {
  await using made = await rigged();
  const { refused, clock, requested } = made;
  refused.began("a change");
  expect(refused.refused(new UnrequestedRemovalsError("abc", "would remove frontend 1"))).toBeUndefined();
  expect(refused.waitMs).toBe(5_000);
  await clock.advance(600_000);
  refused.proceed();
  expect(requested).toEqual([]);
});

test("a confirmation that is read only once another reload has begun requests no further one", async () => {
  const clock = manualClock();
  await using rig = await SlotRig.start({}, clock);
  const answer = Promise.withResolvers<boolean>();
  const confirmations = { isConfirmed: () => answer.promise, command: (hash: string) => hash };
  const requested: string[] = [];
  const refused = new RefusedReload({ ...rig.scope, confirmations }, (trigger) => void requested.push(trigger));
  refused.began("a change");
  refused.refused(new UnrequestedRemovalsError("abc", "would remove frontend 1"));
  refused.proceed();
  refused.began("another change");
  answer.resolve(true);
  await Bun.sleep(1);
  expect(requested).toEqual([]);
});
