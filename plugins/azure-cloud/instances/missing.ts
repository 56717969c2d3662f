import type { Clock } from "cloud-controller-host/sdk";

/** How long a look-up that found nothing is not repeated for the same node. */
const rememberedMs = 10_000;

/**
 * Nodes whose machine was just looked for in vain. It keeps a node that belongs to no machine from having the lists
 * read again and again; nothing is ever deleted on its word.
 */
export class Missing {
  readonly #clock: Clock;
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  has(key: string): boolean {
    this.#forgetOld();
    return this.#until.has(key);
  }

  add(key: string): void {
    this.#forgetOld();
    this.#until.delete(key);
    this.#until.set(key, this.#clock.monotonic() + rememberedMs);
  }

  /** Entries stand in the order of their times. */
  #forgetOld(): void {
    const now = this.#clock.monotonic();
    for (const [key, until] of this.#until) {
      if (until > now) return;
      this.#until.delete(key);
    }
  }
}
