import type { Clock } from "../context.ts";

/** Time that stands still until a test moves it. */
export interface ManualClock extends Clock {
  /** Moves time on. Sleeps end in the order of their times, and what they wake runs before time moves further. */
  advance(ms: number): Promise<void>;
  /** Sleeps that have not ended. */
  readonly sleepers: number;
}

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

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

/** Lets everything run that is ready to. */
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
