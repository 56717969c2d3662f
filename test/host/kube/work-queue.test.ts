import { afterEach, describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { type RateLimit, RetryAfterError, type WorkQueue } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { createWorkQueue } from "../../../host/kube/work-queue.ts";
import { systemClock } from "../../../host/process/clock.ts";
import { MetricsRegistry } from "../../../host/process/metrics.ts";
import { capturedLog } from "./captured-log.ts";

const fast: readonly RateLimit[] = [{ type: "exponential", baseMs: 1, maxMs: 1000 }];
const queues: WorkQueue[] = [];
afterEach(() => {
  for (const queue of queues.splice(0)) queue.shutDown();
});

function setUp(limits: readonly RateLimit[] = fast) {
  const clock = manualClock();
  const registry = new MetricsRegistry();
  const { log, lines } = capturedLog();
  const queue = createWorkQueue("test", { clock, log, limits, metrics: registry.root });
  queues.push(queue);
  return { clock, registry, lines, queue };
}

/** Takes what the queue holds now, without waiting for more. */
async function drain(queue: WorkQueue): Promise<string[]> {
  const keys: string[] = [];
  while (queue.length > 0) {
    const key = await queue.get();
    if (key === undefined) break;
    keys.push(key);
    queue.done(key);
  }
  return keys;
}

/** A key's work that takes a while and never waits. */
const busy = async (): Promise<void> => {
  const until = performance.now() + 0.05;
  while (performance.now() < until);
};

describe("the queue", () => {
  test("hands keys out in the order in which they were first added, each once", async () => {
    const { queue } = setUp();
    for (const key of ["a", "b", "a", "c", "b"]) queue.add(key);
    expect(queue.length).toBe(3);
    expect(await drain(queue)).toEqual(["a", "b", "c"]);
  });

  test("does not hand out a key that is in hand, and hands it out again once it is done", async () => {
    const { queue } = setUp();
    queue.add("a");
    expect(await queue.get()).toBe("a");
    queue.add("a");
    queue.add("b");
    expect(queue.length).toBe(1);
    expect(await queue.get()).toBe("b");
    queue.done("a");
    expect(await queue.get()).toBe("a");
  });

  test("does not bring a key back that was not added while it was in hand", async () => {
    const { queue } = setUp();
    queue.add("a");
    await queue.get();
    queue.done("a");
    expect(queue.length).toBe(0);
    queue.done("a");
    queue.done("never added");
    expect(queue.length).toBe(0);
  });

  test("wakes those who wait in the order in which they came", async () => {
    const { queue } = setUp();
    const first = queue.get();
    const second = queue.get();
    queue.add("a");
    queue.add("b");
    expect(await Promise.all([first, second])).toEqual(["a", "b"]);
  });

  test("after shutdown takes no keys, hands out what it holds, and then nothing", async () => {
    const { queue } = setUp();
    queue.add("held");
    queue.shutDown();
    queue.add("late");
    queue.addAfter("late", 1);
    expect(await queue.get()).toBe("held");
    expect(await queue.get()).toBeUndefined();
  });

  test("at shutdown sends those home who wait", async () => {
    const { queue } = setUp();
    const waiting = [queue.get(), queue.get()];
    queue.shutDown();
    expect(await Promise.all(waiting)).toEqual([undefined, undefined]);
  });

  test("after shutdown still hands out a key that was added again while it was in hand", async () => {
    const { queue } = setUp();
    queue.add("a");
    await queue.get();
    queue.add("a");
    queue.shutDown();
    expect(queue.length).toBe(0);
    queue.done("a");
    expect(await queue.get()).toBe("a");
    queue.done("a");
    expect(await queue.get()).toBeUndefined();
  });

  test("keeps its order over many keys", async () => {
    const { queue } = setUp();
    const keys = Array.from({ length: 5000 }, (_, index) => `node-${index}`);
    for (const key of keys) queue.add(key);
    expect(await drain(queue)).toEqual(keys);
  });
});

describe("a delayed add", () => {
  test("comes when its time has come, not before", async () => {
    const { queue, clock } = setUp();
    queue.addAfter("a", 50);
    await clock.advance(49);
    expect(queue.length).toBe(0);
    await clock.advance(1);
    expect(queue.length).toBe(1);
    await clock.advance(10_000);
    expect(await drain(queue)).toEqual(["a"]);
  });

  test("of a key that waits already keeps the earlier time, whichever came first", async () => {
    const { queue, clock } = setUp();
    queue.addAfter("soon then late", 50);
    queue.addAfter("soon then late", 70);
    queue.addAfter("late then soon", 70);
    queue.addAfter("late then soon", 50);
    await clock.advance(50);
    expect((await drain(queue)).toSorted()).toEqual(["late then soon", "soon then late"]);
    await clock.advance(1000);
    expect(queue.length).toBe(0);
  });

  test("of nothing or less is an add at once", () => {
    const { queue } = setUp();
    queue.addAfter("a", 0);
    queue.addAfter("b", -5);
    expect(queue.length).toBe(2);
  });

  test("is not cancelled by a plain add: the key comes twice", async () => {
    const { queue, clock } = setUp();
    queue.addAfter("a", 50);
    queue.add("a");
    expect(await drain(queue)).toEqual(["a"]);
    await clock.advance(50);
    expect(await drain(queue)).toEqual(["a"]);
  });

  test("fires in order of time, whatever the order of adding", async () => {
    const { queue, clock } = setUp();
    for (const [key, delay] of [
      ["c", 30],
      ["a", 10],
      ["d", 40],
      ["b", 20],
    ] as const)
      queue.addAfter(key, delay);
    await clock.advance(40);
    expect(await drain(queue)).toEqual(["a", "b", "c", "d"]);
  });

  test("uses one timer for all keys and leaves none behind after shutdown", async () => {
    const { queue, clock } = setUp();
    for (let index = 0; index < 100; index++) queue.addAfter(`key-${index}`, 1000 - index);
    await setImmediate();
    expect(clock.sleepers).toBe(1);
    queue.shutDown();
    expect(clock.sleepers).toBe(0);
  });

  test("works on the real clock", async () => {
    const queue = createWorkQueue("real", {
      clock: systemClock,
      metrics: new MetricsRegistry().root,
      log: capturedLog().log,
    });
    queues.push(queue);
    queue.addAfter("later", 20);
    queue.addAfter("sooner", 0.001);
    expect(await queue.get()).toBe("sooner");
    expect(await queue.get()).toBe("later");
    queue.addAfter("again", 1);
    expect(await queue.get()).toBe("again");
  });
});

describe("working the queue", () => {
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

  test("waits exactly as long as a RetryAfterError says, and counts no failure", async () => {
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
        if (tries.length === 1) throw new RetryAfterError(7000, "the cloud is busy");
      },
      failed: (key, error) => failures.push([key, error]),
    });
    queue.add("a");
    await setImmediate();
    await clock.advance(6999);
    expect(tries).toEqual([0]);
    expect(queue.requeues("a")).toBe(0);
    await clock.advance(1);
    expect(tries).toEqual([0, 7000]);
    expect(failures).toEqual([["a", expect.any(RetryAfterError)]]);
    stop.abort();
    await work;
  });

  test("on abort finishes the keys in hand, takes no other, and leaves those for the next worker", async () => {
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

  test("puts a key back that was handed over in the very moment of the abort", async () => {
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

  test("goes on when the failure handler itself throws", async () => {
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
    expect(lines()[0]).toMatchObject({ msg: "the failure handler of queue test threw", err: "handler" });
    stop.abort();
    await work;
  });

  test("lets the event loop turn while thousands of keys need no waiting", async () => {
    const { queue } = setUp();
    const stop = new AbortController();
    let turns = 0;
    const turning = (async () => {
      for (; !stop.signal.aborted; turns++) await setImmediate();
    })();
    for (let index = 0; index < 1000; index++) queue.add(String(index));
    const work = queue.process({ workers: 1, signal: stop.signal, sync: busy });
    queue.shutDown();
    await work;
    stop.abort();
    await turning;
    expect(turns).toBeGreaterThan(3);
  });
});

describe("the queue's metrics", () => {
  test("carry client-go's names, labels and buckets", async () => {
    const { queue, clock, registry } = setUp();
    queue.add("a");
    queue.add("a");
    queue.addAfter("b", 5);
    await clock.advance(5);
    expect(await queue.get()).toBe("a");
    await clock.advance(500);
    const during = (await registry.render()).body;
    expect(during).toContain('workqueue_adds_total{name="test"} 2\n');
    expect(during).toContain('workqueue_retries_total{name="test"} 1\n');
    expect(during).toContain('workqueue_depth{name="test"} 1\n');
    expect(during).toContain('workqueue_unfinished_work_seconds{name="test"} 0.5\n');
    expect(during).toContain('workqueue_longest_running_processor_seconds{name="test"} 0.5\n');
    expect(during).toContain('workqueue_queue_duration_seconds_bucket{le="1e-8",name="test"} 0\n');
    expect(during).toContain('workqueue_queue_duration_seconds_bucket{le="0.01",name="test"} 1\n');
    queue.done("a");
    await clock.advance(500);
    const after = (await registry.render()).body;
    expect(after).toContain('workqueue_work_duration_seconds_count{name="test"} 1\n');
    expect(after).toContain('workqueue_unfinished_work_seconds{name="test"} 0\n');
    expect(clock.sleepers).toBe(0);
  });
});
