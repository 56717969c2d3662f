import type { Clock } from "cloud-controller-host/sdk";

const sweepMs = 60_000;

/** Keys of which something was read, so that the read is not repeated at every pass of a controller. */
export class ExpiringSet {
  readonly #clock: Clock;
  readonly #expiry = new Map<string, number>();
  #nextSweepMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Number of entries, expired ones that were not swept yet included. */
  get size(): number {
    return this.#expiry.size;
  }

  has(key: string): boolean {
    return (this.#expiry.get(key) ?? Number.NEGATIVE_INFINITY) > this.#clock.monotonic();
  }

  add(key: string, ttlMs: number): void {
    this.#sweep();
    this.#expiry.set(key, this.#clock.monotonic() + ttlMs);
  }

  delete(key: string): void {
    this.#expiry.delete(key);
  }

  /** Drops expired entries now and then, so that the cache holds no more than the keys of one period. */
  #sweep(): void {
    const now = this.#clock.monotonic();
    if (now < this.#nextSweepMs) return;
    this.#nextSweepMs = now + sweepMs;
    for (const [key, expiry] of this.#expiry) if (expiry <= now) this.#expiry.delete(key);
  }
}
