import { afterEach, describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { CodedError, type RateLimit, RetryAfterError, type WorkQueue } from "cloud-controller-host/sdk";

import { drain, queueUnderTest } from "./queue-under-test.ts";

const queues: WorkQueue[] = [];
afterEach(() => {
  for (const queue of queues.splice(0)) queue.shutDown();
});

function setUp(limits?: readonly RateLimit[]) {
  const parts = queueUnderTest(limits);
  queues.push(parts.queue);
  return parts;
}

/** A key's work that takes a while and never waits. */
const busy = async (): Promise<void> => {
  const until = performance.now() + 1;
  while (performance.now() < until);
};

describe("working the queue", () => {
  test("rejects workers that are not a number, in place of returning without work", async () => {
    const { queue } = setUp();
    const { signal } = new AbortController();
    const work = queue.process({ workers: Number("many"), signal, sync: busy });
    await expect(work).rejects.toThrow("workers must be a number, got NaN");
  });

  test("a key is tried again although its error throws when its cause is read", async () => {
    const { queue, clock } = setUp();
    const stop = new AbortController();
    let attempts = 0;
    const sync = (): Promise<void> => {
      attempts += 1;
      const cause = (): never => {
        throw new Error("boom");
      };
      return attempts > 2
        ? Promise.resolve()
        : Promise.reject(Object.defineProperty(new Error("no luck"), "cause", { get: cause }));
    };
    const work = queue.process({ workers: 1, signal: stop.signal, sync });
    queue.add("a");
    await setImmediate();
    await clock.advance(1_000);
    expect(attempts).toBe(3);
    stop.abort();
    await work;
  });

  test("retries a failing key with growing delays until it succeeds, and then forgets its failures", async () => {
    const { queue, clock, lines } = setUp([{ type: "exponential", baseMs: 1000, maxMs: 3000 }]);
    const stop = new AbortController();
    const began = clock.now();
    const tries: number[] = [];
    const work = queue.process({
      workers: 2,
      signal: stop.signal,
      sync: async (key) => {
        tries.push(clock.now() - began);
        if (tries.length < 5) throw new Error(`no luck with ${key}`);
      },
    });
    queue.add("a");
    await setImmediate();
    await clock.advance(20_000);
    expect(tries).toEqual([0, 1000, 3000, 6000, 9000]);
    expect(queue.requeues("a")).toBe(0);
    expect(lines().map((line) => line.msg)).toEqual(
      Array.from({ length: 4 }, () => "error syncing 'a': no luck with a, requeuing"),
    );
    stop.abort();
    await work;
  });

  test("does not report work that a stop has aborted, and reports what fails otherwise meanwhile", async () => {
    const { queue, lines } = setUp();
    const stop = new AbortController();
    const work = queue.process({
      workers: 2,
      signal: stop.signal,
      sync: async (key) => {
        await new Promise((resolve) => stop.signal.addEventListener("abort", resolve, { once: true }));
        throw key === "aborted" ? stop.signal.reason : new Error("odd");
      },
    });
    for (const key of ["aborted", "failed"]) queue.add(key);
    await setImmediate();
    stop.abort();
    await work;
    expect(lines().map((line) => line.msg)).toEqual(["error syncing 'failed': odd, requeuing"]);
  });

  const throttled = new RetryAfterError(7000, "the cloud is busy");
  const inner = new CodedError("Inner", "failed to list", { cause: throttled });
  test.each([
    ["itself", throttled],
    ["anywhere in the chain of causes", new CodedError("Outer", "failed to sync", { cause: inner })],
  ])("waits for the exact delay of a RetryAfterError, %s, and records no failure", async (_where, error) => {
    const { queue, clock } = setUp();
    const stop = new AbortController();
    const began = clock.now();
    const tries: number[] = [];
    const failures: unknown[] = [];
    const work = queue.process({
      workers: 1,
      signal: stop.signal,
      sync: async () => {
        tries.push(clock.now() - began);
        if (tries.length === 1) throw error;
      },
      failed: (key, failure) => failures.push([key, failure]),
    });
    queue.add("a");
    await setImmediate();
    await clock.advance(6999);
    expect(tries).toEqual([0]);
    expect(queue.requeues("a")).toBe(0);
    await clock.advance(1);
    expect(tries).toEqual([0, 7000]);
    expect(failures).toEqual([["a", error]]);
    stop.abort();
    await work;
  });

  test("an abort finishes the processing keys, takes no other, and leaves those for the next worker", async () => {
    const { queue } = setUp();
    const stop = new AbortController();
    const gates = new Map<string, PromiseWithResolvers<void>>();
    const work = queue.process({
      workers: 2,
      signal: stop.signal,
      sync: (key) => {
        const gate = Promise.withResolvers<void>();
        gates.set(key, gate);
        return gate.promise;
      },
    });
    for (const key of ["a", "b", "c"]) queue.add(key);
    await setImmediate();
    expect([...gates.keys()]).toEqual(["a", "b"]);
    stop.abort();
    let ended = false;
    const end = work.then(() => (ended = true));
    gates.get("a")?.resolve();
    await setImmediate();
    expect(ended).toBeFalse();
    gates.get("b")?.resolve();
    await end;
    expect([...gates.keys()]).toEqual(["a", "b"]);
    expect(await drain(queue)).toEqual(["c"]);
  });

  test("puts a key back that was handed over at the moment of the abort", async () => {
    const { queue } = setUp();
    const stop = new AbortController();
    let begun = 0;
    const work = queue.process({ workers: 1, signal: stop.signal, sync: async () => void begun++ });
    await setImmediate();
    queue.add("a");
    stop.abort();
    await work;
    expect(begun).toBe(0);
    expect(await drain(queue)).toEqual(["a"]);
  });

  test("ends when the queue is shut down and empty", async () => {
    const { queue } = setUp();
    const seen: string[] = [];
    const work = queue.process({
      workers: 3,
      signal: new AbortController().signal,
      sync: async (key) => void seen.push(key),
    });
    queue.add("a");
    queue.add("b");
    queue.shutDown();
    await work;
    expect(seen.toSorted()).toEqual(["a", "b"]);
  });

  test("continues when the failure handler itself throws", async () => {
    const { queue, lines } = setUp();
    const stop = new AbortController();
    const work = queue.process({
      workers: 1,
      signal: stop.signal,
      sync: () => Promise.reject(new Error("sync")),
      failed: () => {
        throw new Error("handler");
      },
    });
    queue.add("a");
    await setImmediate();
    expect(queue.requeues("a")).toBe(1);
    expect(lines()[0]).toMatchObject({ msg: "Failure handler of the queue threw", queue: "test", err: "handler" });
    stop.abort();
    await work;
  });

  test.each([1, 64])(
    "lets the event loop turn while hundreds of keys need no waiting, with %d workers",
    async (workers) => {
      const { queue } = setUp();
      const stop = new AbortController();
      let turns = 0;
      const turning = (async () => {
        for (; !stop.signal.aborted; turns++) await setImmediate();
      })();
      for (let index = 0; index < 200; index++) queue.add(String(index));
      const work = queue.process({ workers, signal: stop.signal, sync: busy });
      queue.shutDown();
      await work;
      stop.abort();
      await turning;
      expect(turns).toBeGreaterThan(20);
    },
  );

  test("ends with the work that it has begun when the signal aborts, without a turn of the event loop", async () => {
    const { queue } = setUp();
    const stop = new AbortController();
    let turned = false;
    for (const key of ["a", "b"]) queue.add(key);
    const work = queue.process({
      workers: 1,
      signal: stop.signal,
      async sync() {
        for (const until = performance.now() + 10; performance.now() < until;);
        await Promise.resolve();
        stop.abort();
      },
    });
    void setImmediate().then(() => (turned = true));
    await work;
    expect(turned).toBe(false);
    queue.shutDown();
  });
});
