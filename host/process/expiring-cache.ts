import type { Clock } from "cloud-controller-host/sdk";

import { LeastRecentlyUsed } from "../kube/lru.ts";

/** Remembers up to `size` values, each for as long as it is told to. */
export class ExpiringCache<T> {
  readonly #clock: Clock;
  readonly #entries: LeastRecentlyUsed<{ readonly value: T; readonly untilMs: number }>;

  constructor(clock: Clock, size: number) {
    this.#clock = clock;
    this.#entries = new LeastRecentlyUsed(size);
  }

  get(key: string): T | undefined {
    const entry = this.#entries.get(key);
    return entry === undefined || entry.untilMs <= this.#clock.monotonic() ? undefined : entry.value;
  }

  /** 0 or less: not at all. */
  set(key: string, value: T, ttlMs: number): void {
    if (ttlMs > 0) this.#entries.set(key, { value, untilMs: this.#clock.monotonic() + ttlMs });
  }
}
