import type { Clock } from "../context.ts";

/** A clock that only `advance` moves. */
export interface ManualClock extends Clock {
  /** Advances time. Sleeps end in order; their continuations run before time advances further. */
  advance(ms: number): Promise<void>;
  /** Number of pending sleeps. */
  readonly sleepers: number;
}

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

/** Creates a clock that stands still at `startMs`, in milliseconds since 1970; default: the beginning of 2026. */
export function manualClock(startMs: number = Date.UTC(2026, 0, 1)): ManualClock {
  const sleepers = new Set<Sleeper>();
  let elapsed = 0;

  const nextBefore = (limit: number): Sleeper | undefined =>
    [...sleepers].filter(({ until }) => until <= limit).toSorted((a, b) => a.until - b.until)[0];

  return {
    now: () => startMs + elapsed,
    monotonic: () => elapsed,
    sleep(ms, signal) {
      if (ms <= 0 || signal?.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const wake = (): void => {
          sleepers.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper: Sleeper = { until: elapsed + ms, wake };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
      });
    },
    async advance(ms) {
      const target = elapsed + ms;
      for (let due = nextBefore(target); due !== undefined; due = nextBefore(target)) {
        elapsed = due.until;
        due.wake();
        await turn();
      }
      elapsed = target;
      await turn();
    },
    get sleepers() {
      return sleepers.size;
    },
  };
}

/** Runs everything that is ready. */
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
