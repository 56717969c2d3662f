import { afterEach, describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import type { RateLimit, WorkQueue } from "cloud-controller-host/sdk";

import { systemClock } from "../../../../host/async/clock.ts";
import { createWorkQueue } from "../../../../host/kube/queue/work-queue.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { capturedLog } from "../captured-log.ts";
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

describe("the queue", () => {
  test("hands keys out in the order in which they were first added, each once", async () => {
    const { queue } = setUp();
    for (const key of ["a", "b", "a", "c", "b"]) queue.add(key);
    expect(queue.length).toBe(3);
    expect(await drain(queue)).toEqual(["a", "b", "c"]);
  });

  test("does not hand out a key that is processing, and hands it out again once it is done", async () => {
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

  test("does not requeue a key that was not added while it was processing", async () => {
    const { queue } = setUp();
    queue.add("a");
    await queue.get();
    queue.done("a");
    expect(queue.length).toBe(0);
    queue.done("a");
    queue.done("never added");
    expect(queue.length).toBe(0);
  });

  test("wakes waiters in order of arrival", async () => {
    const { queue } = setUp();
    const first = queue.get();
    const second = queue.get();
    queue.add("a");
    queue.add("b");
    expect(await Promise.all([first, second])).toEqual(["a", "b"]);
  });

  test("the queue after shutdown accepts no keys, and returns the queued ones first", async () => {
    const { queue, registry } = setUp();
    queue.add("held");
    queue.shutDown();
    queue.add("late");
    queue.addAfter("late", 1);
    expect(await queue.get()).toBe("held");
    expect(await queue.get()).toBeUndefined();
    expect((await registry.render()).body).not.toMatch(/^workqueue_retries_total\{.*\} [1-9]/mu);
  });

  test("shutDown() unblocks pending get() calls", async () => {
    const { queue } = setUp();
    const waiting = [queue.get(), queue.get()];
    queue.shutDown();
    expect(await Promise.all(waiting)).toEqual([undefined, undefined]);
  });

  test("the queue after shutdown still hands out a key that was added again while it was processing", async () => {
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

  test("a delayed add of a key that waits already keeps the earlier time, whichever came first", async () => {
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

  test("a delayed add of nothing or less is an add at once", () => {
    const { queue } = setUp();
    queue.addAfter("a", 0);
    queue.addAfter("b", -5);
    expect(queue.length).toBe(2);
  });

  test("is not canceled by a plain add: the key comes twice", async () => {
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

describe("the queue's metrics", () => {
  test("follow its depth with each key, and the work in progress of each key", async () => {
    const { queue, clock, registry } = setUp();
    const valueOf = async (name: string): Promise<number> =>
      Number(new RegExp(`^workqueue_${name}\\{.*\\} (.*)$`, "mu").exec((await registry.render()).body)?.[1]);
    expect(await valueOf("depth")).toBe(0);
    for (const key of ["a", "b"]) queue.add(key);
    expect(await valueOf("depth")).toBe(2);
    for (const key of ["a", "b"]) {
      expect(await queue.get()).toBe(key);
      expect(clock.sleepers).toBe(1);
      await clock.advance(3000);
      expect(await valueOf("longest_running_processor_seconds")).toBeGreaterThanOrEqual(2);
      queue.done(key);
      await clock.advance(3000);
      expect(await valueOf("longest_running_processor_seconds")).toBe(0);
    }
    expect(await valueOf("depth")).toBe(0);
  });

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
