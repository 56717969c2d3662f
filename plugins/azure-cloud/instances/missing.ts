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
    const until = this.#until.get(key);
    if (until === undefined) return false;
    if (until > this.#clock.monotonic()) return true;
    this.#until.delete(key);
    return false;
  }

  add(key: string): void {
    this.#until.set(key, this.#clock.monotonic() + rememberedMs);
  }
}
