import { type Clock, CodedError } from "cloud-controller-host/sdk";

import { isRejected, retryConflicts } from "./write-errors.ts";

/** Result of one of several changes that were applied together. */
export type Outcome<Result> =
  { readonly ok: true; readonly value: Result } | { readonly ok: false; readonly error: unknown };

export interface BatcherOptions<Change, Result> {
  readonly clock: Clock;
  /** When it aborts, waiting changes are rejected with its reason, and no further attempt begins. */
  readonly signal: AbortSignal;
  /**
   * Reads one resource, plans all changes and writes it once. Resolves with one outcome per change, in their order; a
   * change that cannot be planned is an outcome of its own. Rejects when the write failed, so that no change applies.
   * `fresh`: an earlier attempt failed, so the cache must be bypassed.
   */
  readonly apply: (key: string, changes: readonly Change[], fresh: boolean) => Promise<readonly Outcome<Result>[]>;
  /** Names the source of a change across calls, such as the Service. */
  readonly sourceOf: (change: Change) => string;
  /** A batch begins when no change has arrived for this long; default 5 ms. */
  readonly quietMs?: number;
  /** … and at the latest this long after its first change; default 50 ms. */
  readonly longestWaitMs?: number;
}

interface Pending<Change, Result> {
  readonly change: Change;
  readonly settle: (outcome: Outcome<Result>) => void;
}

/**
 * One writer per resource. Changes to the same key that arrive shortly after each other, or while a write is in flight,
 * are applied by one read, plan and write; different keys do not wait for each other. Each caller gets its own result:
 * a change that ARM rejects is found by halving the batch and is the only one to fail, and its source is applied
 * apart from the others until it succeeds.
 */
export class KeyedBatcher<Change, Result> {
  readonly #options: BatcherOptions<Change, Result>;
  readonly #queues = new Map<string, Pending<Change, Result>[]>();
  readonly #lastAtMs = new Map<string, number>();
  /** Sources whose last change was rejected, by key of the resource. */
  readonly #rejected = new Map<string, Set<string>>();

  constructor(options: BatcherOptions<Change, Result>) {
    this.#options = options;
  }

  /** Rejects with `signal`'s reason while the change still waits; a write that has begun is not interrupted by it. */
  submit(key: string, change: Change, signal?: AbortSignal): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const stop = this.#options.signal;
    if (stop.aborted || signal?.aborted) {
      reject(stop.aborted ? stop.reason : signal?.reason);
      return promise;
    }
    const queue = this.#queues.get(key);
    const entry: Pending<Change, Result> = {
      change,
      settle(outcome) {
        signal?.removeEventListener("abort", cancel);
        if (outcome.ok) resolve(outcome.value);
        else reject(outcome.error);
      },
    };
    const cancel = (): void => {
      const waiting = this.#queues.get(key);
      const index = waiting?.indexOf(entry) ?? -1;
      if (index < 0) return;
      waiting?.splice(index, 1);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", cancel, { once: true });
    this.#lastAtMs.set(key, this.#options.clock.monotonic());
    if (queue !== undefined) queue.push(entry);
    else {
      const started = [entry];
      this.#queues.set(key, started);
      void this.#work(key, started);
    }
    return promise;
  }

  /** Processes one key until no change waits. Never rejects. */
  async #work(key: string, queue: Pending<Change, Result>[]): Promise<void> {
    while (queue.length > 0) {
      await this.#waitForQuiet(key);
      const batch = queue.splice(0);
      // Every caller has given up.
      if (batch.length === 0) break;
      if (this.#options.signal.aborted) fail(batch, this.#options.signal.reason);
      else for (const part of this.#parts(key, batch)) await this.#settle(key, part);
    }
    this.#queues.delete(key);
    this.#lastAtMs.delete(key);
  }

  async #waitForQuiet(key: string): Promise<void> {
    const { clock, signal, quietMs = 5, longestWaitMs = 50 } = this.#options;
    const until = clock.monotonic() + longestWaitMs;
    while (!signal.aborted) {
      const now = clock.monotonic();
      const waitMs = Math.min((this.#lastAtMs.get(key) ?? now) + quietMs, until) - now;
      if (waitMs <= 0) return;
      await clock.sleep(waitMs, signal);
    }
  }

  /** The changes of sources without a rejected one together, then each of the others alone. */
  #parts(key: string, batch: readonly Pending<Change, Result>[]): readonly (readonly Pending<Change, Result>[])[] {
    const rejected = this.#rejected.get(key);
    if (rejected === undefined) return [batch];
    const apart = batch.filter(({ change }) => rejected.has(this.#options.sourceOf(change)));
    const together = batch.filter((entry) => !apart.includes(entry));
    return [...(together.length > 0 ? [together] : []), ...apart.map((entry) => [entry])];
  }

  async #settle(key: string, batch: readonly Pending<Change, Result>[]): Promise<void> {
    // Each rejected change costs about two writes per halving; beyond that the rest waits for its caller's retry.
    let attempts = 8 + 2 * Math.ceil(Math.log2(batch.length));
    const parts = [batch];
    for (let fresh = false, part = parts.shift(); part !== undefined; fresh = true, part = parts.shift()) {
      try {
        settleAll(part, await this.#attempt(key, part, fresh));
        this.#markAll(key, part, false);
      } catch (error) {
        if (!isRejected(error) || part.length === 1 || --attempts <= 0) {
          fail(part, error);
          this.#markAll(key, part, part.length === 1 && isRejected(error));
        } else {
          const half = Math.ceil(part.length / 2);
          parts.unshift(part.slice(0, half), part.slice(half));
        }
      }
    }
  }

  #attempt(key: string, part: readonly Pending<Change, Result>[], fresh: boolean): Promise<readonly Outcome<Result>[]> {
    const changes = part.map(({ change }) => change);
    return retryConflicts(this.#options, (again) => this.#options.apply(key, changes, fresh || again));
  }

  #markAll(key: string, part: readonly Pending<Change, Result>[], rejected: boolean): void {
    const sources = this.#rejected.get(key) ?? new Set<string>();
    for (const { change } of part) {
      if (rejected) sources.add(this.#options.sourceOf(change));
      else sources.delete(this.#options.sourceOf(change));
    }
    // Keys come and go: what has no rejected source takes no memory.
    if (sources.size > 0) this.#rejected.set(key, sources);
    else this.#rejected.delete(key);
  }
}

function fail<Change, Result>(part: readonly Pending<Change, Result>[], error: unknown): void {
  for (const { settle } of part) settle({ ok: false, error });
}

function settleAll<Change, Result>(
  part: readonly Pending<Change, Result>[],
  outcomes: readonly Outcome<Result>[],
): void {
  const missing = {
    ok: false,
    error: new CodedError("Internal", "the batch has no outcome for this change"),
  } as const;
  for (const [index, { settle }] of part.entries()) settle(outcomes[index] ?? missing);
}
