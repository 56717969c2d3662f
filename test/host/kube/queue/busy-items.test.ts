import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { BusyItems } from "../../../../host/kube/queue/busy-items.ts";
import { createWorkQueue } from "../../../../host/kube/queue/work-queue.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { capturedLog } from "../captured-log.ts";

test("the slowest item of a queue is the one whose work began first and has not ended, in the latest queue of a name", async () => {
  const clock = manualClock();
  const busy = new BusyItems(clock);
  const create = () =>
    createWorkQueue("test", { clock, busy, log: capturedLog().log, metrics: new MetricsRegistry().root });
  const queue = create();
  for (const key of ["one", "two"]) {
    queue.add(key);
    await queue.get();
    await clock.advance(1_500);
  }
  expect(busy.slowest("test")).toEqual({ key: "one", seconds: 3 });
  queue.done("one");
  expect(busy.slowest("test")).toEqual({ key: "two", seconds: 1.5 });
  expect(busy.slowest("another")).toBeUndefined();
  const next = create();
  expect(busy.slowest("test")).toBeUndefined();
  queue.shutDown();
  next.shutDown();
});
