import {
  type Clock,
  createCooperativeYield,
  isAborted,
  type Logger,
  messageOf,
  type Metrics,
  type ProcessOptions,
  retryAfterOf,
  type WorkQueue,
  type WorkQueueOptions,
} from "cloud-controller-host/sdk";

import { Fifo } from "../../async/fifo.ts";
import type { BusyItems } from "./busy-items.ts";
import { DelayedAdds } from "./delayed-adds.ts";
import { WorkQueueMetrics } from "./metrics.ts";
import { createRateLimiter, type RateLimiter } from "./rate-limit.ts";

/**
 * Creates a work queue with client-go's semantics. Shut it down when no worker is left: that releases its timer and
 * drops the keys that still wait for their delay.
 */
export function createWorkQueue(
  name: string,
  options: WorkQueueOptions & {
    readonly clock: Clock;
    readonly metrics: Metrics;
    readonly log: Logger;
    readonly busy?: BusyItems;
  },
): WorkQueue {
  return new KeyQueue(name, {
    limiter: createRateLimiter(options.clock, options.limits),
    metrics: new WorkQueueMetrics(name, options.metrics, options.clock, options.busy),
    clock: options.clock,
    log: options.log,
  });
}

type Taker = (key: string | undefined) => void;

/** upstream: client-go `util/workqueue`: `Type`, `delayingType` and `rateLimitingType` in one. */
class KeyQueue implements WorkQueue {
  readonly name: string;
  readonly #limiter: RateLimiter;
  readonly #metrics: WorkQueueMetrics;
  readonly #log: Logger;
  readonly #delayed: DelayedAdds;
  /** Keys ready to be handed out, oldest first. Always dirty, never processing. */
  readonly #ready = new Fifo<string>();
  /** Keys that need work: those in `#ready`, and those processing that were added again meanwhile. */
  readonly #dirty = new Set<string>();
  /** Keys that are processing. */
  readonly #processing = new Set<string>();
  /** Pending get() calls in order of arrival. Empty unless `#ready` is. */
  readonly #takers = new Set<Taker>();
  #shuttingDown = false;

  constructor(
    name: string,
    parts: {
      readonly limiter: RateLimiter;
      readonly metrics: WorkQueueMetrics;
      readonly clock: Clock;
      readonly log: Logger;
    },
  ) {
    this.name = name;
    this.#limiter = parts.limiter;
    this.#metrics = parts.metrics;
    this.#log = parts.log;
    this.#delayed = new DelayedAdds(parts.clock, (key) => this.add(key));
  }

  get length(): number {
    return this.#ready.size;
  }

  add(key: string): void {
    if (this.#shuttingDown || this.#dirty.has(key)) return;
    this.#dirty.add(key);
    this.#metrics.added(key, this.#dirty.size);
    if (!this.#processing.has(key)) this.#offer(key);
  }

  addAfter(key: string, delayMs: number): void {
    if (this.#shuttingDown) return;
    this.#metrics.retried();
    if (delayMs <= 0) this.add(key);
    else this.#delayed.add(key, delayMs);
  }

  addRateLimited(key: string): void {
    this.addAfter(key, this.#limiter.next(key));
  }

  forget(key: string): void {
    this.#limiter.forget(key);
  }

  requeues(key: string): number {
    return this.#limiter.failures(key);
  }

  get(): Promise<string | undefined> {
    return this.#take(undefined);
  }

  done(key: string): void {
    if (!this.#processing.delete(key)) return;
    this.#metrics.done(key);
    if (this.#dirty.has(key)) this.#offer(key);
  }

  shutDown(): void {
    this.#shuttingDown = true;
    this.#delayed.stop();
    this.#metrics.close();
    for (const taker of this.#takers) taker(undefined);
    this.#takers.clear();
  }

  async process(options: ProcessOptions): Promise<void> {
    const workers = Math.max(1, options.workers);
    // Of a plugin that is not type-checked: no worker would start, and its run() would return at once.
    if (Number.isNaN(workers))
      throw new TypeError(`process() of the queue ${this.name}: workers must be a number, got ${options.workers}`);
    const pause = createCooperativeYield();
    await Promise.all(Array.from({ length: workers }, () => this.#work(options, pause)));
  }

  async #work(options: ProcessOptions, pause: () => Promise<void> | undefined): Promise<void> {
    for (;;) {
      // A stop does not wait for the turns of others.
      for (let turn = pause(); turn !== undefined && !options.signal.aborted; turn = pause()) await turn;
      // Not awaited where one is ready: all workers would pass the check above before one of them works.
      const key = this.#takeReady(options.signal) ?? (await this.#take(options.signal));
      if (key === undefined) return;
      if (options.signal.aborted) this.#putBack(key);
      else await this.#workOn(key, options);
    }
  }

  async #workOn(key: string, options: ProcessOptions): Promise<void> {
    try {
      await options.sync(key);
      this.forget(key);
    } catch (error) {
      this.#report(key, error, options);
      const delayMs = retryAfterOf(error);
      if (delayMs === undefined) this.addRateLimited(key);
      else this.addAfter(key, delayMs);
    } finally {
      this.done(key);
    }
  }

  #report(key: string, error: unknown, options: ProcessOptions): void {
    // Work aborted by a stop has not failed: the next generation starts it again.
    if (options.signal.aborted && isAborted(error)) return;
    if (options.failed === undefined) {
      this.#log.error(`error syncing '${key}': ${messageOf(error)}, requeuing`, { queue: this.name, error });
      return;
    }
    try {
      options.failed(key, error);
    } catch (thrown) {
      this.#log.error("Failure handler of the queue threw", { queue: this.name, key, error: thrown });
    }
  }

  #takeReady(signal: AbortSignal | undefined): string | undefined {
    const key = signal?.aborted ? undefined : this.#ready.shift();
    if (key !== undefined) this.#hand(key);
    return key;
  }

  #take(signal: AbortSignal | undefined): Promise<string | undefined> {
    const key = this.#takeReady(signal);
    if (key !== undefined || this.#shuttingDown || signal?.aborted) return Promise.resolve(key);
    return new Promise((resolve) => {
      const leave = (): void => {
        this.#takers.delete(taker);
        resolve(undefined);
      };
      const taker: Taker = (taken) => {
        signal?.removeEventListener("abort", leave);
        resolve(taken);
      };
      this.#takers.add(taker);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  /** Hands a dirty key to the longest waiting get(), or appends it to the queue. */
  #offer(key: string): void {
    for (const taker of this.#takers) {
      this.#takers.delete(taker);
      this.#hand(key);
      taker(key);
      return;
    }
    this.#ready.push(key);
  }

  /** From this moment the key is processing: it is no longer dirty, and no other worker can get it. */
  #hand(key: string): void {
    this.#dirty.delete(key);
    this.#processing.add(key);
    this.#metrics.taken(key, this.#dirty.size);
  }

  /** A key handed over at the moment of the abort is left for the next worker. */
  #putBack(key: string): void {
    this.#dirty.add(key);
    this.done(key);
  }
}
