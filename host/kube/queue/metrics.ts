import type { Clock, Metrics } from "cloud-controller-host/sdk";

import type { BusyItems } from "./busy-items.ts";

const labels = ["name"] as const;
const secondsBuckets = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10];
const unfinishedPeriodMs = 500;

const families = (metrics: Metrics) => ({
  depth: metrics.gauge({ name: "workqueue_depth", help: "Current depth of workqueue", labels }),
  adds: metrics.counter({ name: "workqueue_adds_total", help: "Total number of adds handled by workqueue", labels }),
  retries: metrics.counter({
    name: "workqueue_retries_total",
    help: "Total number of retries handled by workqueue",
    labels,
  }),
  waited: metrics.histogram({
    name: "workqueue_queue_duration_seconds",
    help: "How long in seconds an item stays in workqueue before being requested.",
    labels,
    buckets: secondsBuckets,
  }),
  worked: metrics.histogram({
    name: "workqueue_work_duration_seconds",
    help: "How long in seconds processing an item from workqueue takes.",
    labels,
    buckets: secondsBuckets,
  }),
  unfinished: metrics.gauge({
    name: "workqueue_unfinished_work_seconds",
    help: "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
    labels,
  }),
  longest: metrics.gauge({
    name: "workqueue_longest_running_processor_seconds",
    help: "How many seconds has the longest running processor for workqueue been running.",
    labels,
  }),
});

/** The `workqueue_*` series of one queue. Names and buckets are client-go's. */
export class WorkQueueMetrics {
  readonly #families: ReturnType<typeof families>;
  readonly #label: { readonly name: string };
  readonly #clock: Clock;
  readonly #addedAt = new Map<string, number>();
  readonly #startedAt = new Map<string, number>();
  readonly #closed = new AbortController();
  #sampling = false;

  constructor(name: string, metrics: Metrics, clock: Clock, busy?: BusyItems) {
    this.#families = families(metrics);
    this.#label = { name };
    this.#clock = clock;
    this.#families.depth.set(0, this.#label);
    busy?.follow(name, this.#startedAt);
  }

  added(key: string, depth: number): void {
    this.#families.adds.inc(this.#label);
    this.#families.depth.set(depth, this.#label);
    if (!this.#addedAt.has(key)) this.#addedAt.set(key, this.#clock.monotonic());
  }

  taken(key: string, depth: number): void {
    const now = this.#clock.monotonic();
    this.#families.depth.set(depth, this.#label);
    const addedAt = this.#addedAt.get(key);
    if (addedAt !== undefined) this.#families.waited.observe((now - addedAt) / 1000, this.#label);
    this.#addedAt.delete(key);
    this.#startedAt.set(key, now);
    if (!this.#sampling) void this.#sample();
  }

  done(key: string): void {
    const startedAt = this.#startedAt.get(key);
    if (startedAt === undefined) return;
    this.#families.worked.observe((this.#clock.monotonic() - startedAt) / 1000, this.#label);
    this.#startedAt.delete(key);
  }

  retried(): void {
    this.#families.retries.inc(this.#label);
  }

  /** Ends the sampling of work in progress. */
  close(): void {
    this.#closed.abort();
  }

  /** Runs only while an item is processing, so that an idle queue costs no timer. */
  async #sample(): Promise<void> {
    this.#sampling = true;
    while (this.#startedAt.size > 0 && !this.#closed.signal.aborted) {
      await this.#clock.sleep(unfinishedPeriodMs, this.#closed.signal);
      const now = this.#clock.monotonic();
      let total = 0;
      let longest = 0;
      for (const startedAt of this.#startedAt.values()) {
        total += now - startedAt;
        longest = Math.max(longest, now - startedAt);
      }
      this.#families.unfinished.set(total / 1000, this.#label);
      this.#families.longest.set(longest / 1000, this.#label);
    }
    this.#sampling = false;
  }
}
