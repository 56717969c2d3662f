/** The two loops that call the cloud for a Service. */
export type Loop = "service" | "node";

/**
 * Mutual exclusion by key between two loops. A loop that finds a key locked does not wait, because its worker has other
 * Services to sync; the key is offered to it again as soon as the other loop releases it.
 */
export class KeyedMutex {
  readonly #waiting = new Map<string, Set<Loop>>();
  readonly #offer: (loop: Loop, key: string) => void;

  constructor(offer: (loop: Loop, key: string) => void) {
    this.#offer = offer;
  }

  has(key: string): boolean {
    return this.#waiting.has(key);
  }

  /** Runs `work` with the key locked; returns false at once when it is locked already. Rejects as `work` does. */
  async run(key: string, loop: Loop, work: () => Promise<void>): Promise<boolean> {
    const held = this.#waiting.get(key);
    if (held !== undefined) {
      held.add(loop);
      return false;
    }
    const waiting = new Set<Loop>();
    this.#waiting.set(key, waiting);
    try {
      await work();
      return true;
    } finally {
      this.#waiting.delete(key);
      for (const other of waiting) this.#offer(other, key);
    }
  }
}
