import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { createRateLimiter, TokenBucket } from "../../../../host/kube/queue/rate-limit.ts";
import { rejection } from "../../../kit/rejection.ts";

const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make);

const limiter = () => createRateLimiter(manualClock(), [{ type: "exponential", baseMs: 1, maxMs: 1000 }]);

describe("the exponential limiter", () => {
  test("doubles each key's delay on its own, and starts over once the key is forgotten", () => {
    const limit = limiter();
    expect(times(5, () => limit.next("one"))).toEqual([1, 2, 4, 8, 16]);
    expect(times(2, () => limit.next("two"))).toEqual([1, 2]);
    expect(limit.failures("one")).toBe(5);
    limit.forget("one");
    expect(limit.failures("one")).toBe(0);
    expect(limit.next("one")).toBe(1);
    expect(limit.failures("two")).toBe(2);
  });

  test("stays at its maximum, however often the key fails", () => {
    const limit = limiter();
    const delays = times(2000, () => limit.next("one"));
    expect(delays[9]).toBe(512);
    expect(new Set(delays.slice(10))).toEqual(new Set([1000]));
  });

  test("the exponential limiter of the service controller waits 5, 10, 20 … 300 s", () => {
    const limit = createRateLimiter(manualClock(), [{ type: "exponential", baseMs: 5000, maxMs: 300_000 }]);
    expect(times(8, () => limit.next("s") / 1000)).toEqual([5, 10, 20, 40, 80, 160, 300, 300]);
  });
});

describe("the bucket limiter", () => {
  test("lets the burst through and then spaces all keys by its rate", async () => {
    const clock = manualClock();
    const limit = createRateLimiter(clock, [{ type: "bucket", perSecond: 10, burst: 2 }]);
    expect(["a", "b", "a", "c"].map((key) => limit.next(key))).toEqual([0, 0, 100, 200]);
    expect(limit.failures("a")).toBe(0);
    await clock.advance(1000);
    expect(limit.next("a")).toBe(0);
  });

  test("never asks for more than its longest delay", () => {
    const routes = createRateLimiter(manualClock(), [{ type: "bucket", perSecond: 0.1, burst: 1, maxDelayMs: 10_000 }]);
    expect(times(4, () => routes.next("k"))).toEqual([0, 10_000, 10_000, 10_000]);
  });
});

test("the longest delay of several limits applies, and client-go's default has both kinds", () => {
  const limit = createRateLimiter(manualClock());
  const delays = times(110, () => limit.next("k"));
  expect(delays.slice(0, 4)).toEqual([5, 10, 20, 40]);
  expect(delays[109]).toBe(1_000_000);
  expect(times(3, () => limit.next("other"))).toEqual([1100, 1200, 1300]);
  expect(limit.failures("k")).toBe(110);
});

describe("the token bucket", () => {
  test("never exceeds its burst", async () => {
    const clock = manualClock();
    const bucket = new TokenBucket({ perSecond: 1, burst: 3, clock });
    await clock.advance(60_000);
    expect(times(5, () => bucket.tryTake())).toEqual([true, true, true, false, false]);
    await clock.advance(1000);
    expect(bucket.tryTake()).toBeTrue();
  });

  test("serves waiters in order, and reclaims the token of one that gives up", async () => {
    const clock = manualClock();
    const bucket = new TokenBucket({ perSecond: 1, burst: 1, clock });
    const served: string[] = [];
    const take = async (name: string, signal?: AbortSignal): Promise<void> => {
      await bucket.take(signal);
      served.push(name);
    };
    const leaver = new AbortController();
    const first = take("first");
    const second = take("second");
    const gone = rejection(take("gone", leaver.signal));
    leaver.abort(new Error("no more patience"));
    expect(await gone).toBe("no more patience");
    const third = take("third");
    await clock.advance(1000);
    expect(served).toEqual(["first", "second"]);
    await clock.advance(1000);
    expect(served).toEqual(["first", "second", "third"]);
    await Promise.all([first, second, third]);
    expect(clock.sleepers).toBe(0);
  });
});
