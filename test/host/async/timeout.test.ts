import { describe, expect, test } from "bun:test";
import { getEventListeners } from "node:events";
import { setImmediate } from "node:timers/promises";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { unlessAborted, within } from "../../../host/async/timeout.ts";
import { errorOf } from "../../kit/rejection.ts";

describe("work with a time limit", () => {
  test("results in its value or its error, and leaves no timer behind", async () => {
    const clock = manualClock();
    expect(await within(clock, 1_000, Promise.resolve("done"))).toEqual({ done: true, value: "done" });
    expect(await errorOf(within(clock, 1_000, Promise.reject(new Error("boom"))))).toEqual(new Error("boom"));
    expect(clock.sleepers).toBe(0);
  });

  test("is given up at the limit, not before, and at once when the signal is aborted, or was before", async () => {
    const clock = manualClock();
    const stop = new AbortController();
    const never = new Promise<never>(() => undefined);
    let ended = 0;
    const both = [within(clock, 1_000, never), within(clock, 60_000, never, stop.signal)].map(async (waiting) => {
      expect(await waiting).toEqual({ done: false });
      ended += 1;
    });
    await clock.advance(999);
    expect(ended).toBe(0);
    await clock.advance(1);
    expect(ended).toBe(1);
    stop.abort();
    await Promise.all(both);
    expect(await within(clock, 1_000, never, stop.signal)).toEqual({ done: false });
    expect(clock.sleepers).toBe(0);
  });

  test("rejects later without a handler of its own, and ends no process", async () => {
    const clock = manualClock();
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", note);
    try {
      const work = Promise.withResolvers<never>();
      const waiting = within(clock, 1_000, work.promise);
      await clock.advance(1_000);
      expect(await waiting).toEqual({ done: false });
      work.reject(new Error("late"));
      for (const _ of [1, 2, 3]) await setImmediate();
      expect(unhandled).toEqual([]);
    } finally {
      process.off("unhandledRejection", note);
    }
  });
});

test("work that a signal may end settles as itself or with the signal's reason, and leaves no listener behind", async () => {
  const stop = new AbortController();
  const work = Promise.withResolvers<string>();
  expect(await unlessAborted(Promise.resolve("done"), stop.signal)).toBe("done");
  expect(await errorOf(unlessAborted(Promise.reject(new Error("boom")), stop.signal))).toEqual(new Error("boom"));
  const waiting = errorOf(unlessAborted(work.promise, stop.signal));
  stop.abort(new Error("over"));
  expect(await waiting).toEqual(new Error("over"));
  expect(await errorOf(unlessAborted(work.promise, stop.signal))).toEqual(new Error("over"));
  expect(getEventListeners(stop.signal, "abort")).toEqual([]);
});
