/** The two loops that call the cloud for a Service. */
export type Loop = "service" | "node";

/**
 * One key is in one hand at a time. A loop that finds it taken does not wait (its worker has other Services to look
 * after); the key is offered to it again as soon as the other loop lets go.
 */
export class KeyHolds {
  readonly #waiting = new Map<string, Set<Loop>>();
  readonly #offer: (loop: Loop, key: string) => void;

  constructor(offer: (loop: Loop, key: string) => void) {
    this.#offer = offer;
  }

  has(key: string): boolean {
    return this.#waiting.has(key);
  }

  /** Works with the key in hand; returns false at once when it is in another. Rejects as `work` does. */
  async hold(key: string, loop: Loop, work: () => Promise<void>): Promise<boolean> {
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
