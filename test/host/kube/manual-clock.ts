import { setImmediate } from "node:timers/promises";

import type { Clock } from "cloud-controller-host/sdk";

/** Time that stands still until the test moves it. */
export class ManualClock implements Clock {
  #time: number;
  readonly #sleepers = new Set<{ readonly at: number; readonly wake: () => void }>();

  constructor(startMs = 1_700_000_000_000) {
    this.#time = startMs;
  }

  /** How many sleeps have not ended. */
  get sleepers(): number {
    return this.#sleepers.size;
  }

  now(): number {
    return this.#time;
  }

  monotonic(): number {
    return this.#time;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted || ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      const sleeper = { at: this.#time + ms, wake };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", wake, { once: true });
    });
  }

  /** Moves time on, waking every sleeper at its own moment, and lets what they do settle before it goes on. */
  async advance(ms: number): Promise<void> {
    const until = this.#time + ms;
    for (;;) {
      await setImmediate();
      const due = [...this.#sleepers].filter((sleeper) => sleeper.at <= until);
      const next = due.toSorted((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#time = Math.max(this.#time, next.at);
      next.wake();
    }
    this.#time = until;
    await setImmediate();
  }
}
