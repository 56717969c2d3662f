import type { Clock } from "cloud-controller-host/sdk";

/** A shorter sleep is a pause within one piece of work; a longer one waits for the next period of a loop. */
const periodMs = 1_000;

/** The system's clock, on which the periods of loops can be skipped: what is due later is planned now. */
export class PlanClock implements Clock {
  readonly #inner: Clock;
  readonly #sleepers = new Set<() => void>();

  constructor(inner: Clock) {
    this.#inner = inner;
  }

  now(): number {
    return this.#inner.now();
  }

  monotonic(): number {
    return this.#inner.monotonic();
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms < periodMs) return this.#inner.sleep(ms, signal);
    const skipped = new AbortController();
    const skip = (): void => skipped.abort();
    this.#sleepers.add(skip);
    try {
      await this.#inner.sleep(ms, signal === undefined ? skipped.signal : AbortSignal.any([signal, skipped.signal]));
    } finally {
      this.#sleepers.delete(skip);
    }
  }

  /** Ends every long sleep now. */
  skip(): void {
    for (const skip of this.#sleepers) skip();
  }
}
