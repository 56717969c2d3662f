import type { RateLimit, WorkQueue } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { createWorkQueue } from "../../../../host/kube/queue/work-queue.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { capturedLog } from "../captured-log.ts";

const fast: readonly RateLimit[] = [{ type: "exponential", baseMs: 1, maxMs: 1000 }];

/** A queue on a clock moved by hand, with the real metrics and log. Shut it down after the test. */
export function queueUnderTest(limits: readonly RateLimit[] = fast) {
  const clock = manualClock();
  const registry = new MetricsRegistry();
  const { log, lines } = capturedLog();
  const queue = createWorkQueue("test", { clock, log, limits, metrics: registry.root });
  return { clock, registry, lines, queue };
}

/** Takes what the queue holds now, without waiting for more. */
export async function drain(queue: WorkQueue): Promise<string[]> {
  const keys: string[] = [];
  while (queue.length > 0) {
    const key = await queue.get();
    if (key === undefined) break;
    keys.push(key);
    queue.done(key);
  }
  return keys;
}
