/** A node's pauses between two attempts double. */
const pausesMs = { first: 1_000, longest: 300_000 };
/** Ten nodes per second, however many wait. */
const perNodeMs = 100;

/**
 * Nodes for which no CIDR is free. A block that becomes free wakes them; until then they are tried at ever longer
 * pauses, because each attempt writes an event.
 */
export class StarvedNodes {
  /** Nodes whose latest attempt found no room, oldest first. */
  readonly #waiting = new Set<string>();
  /** The latest pause of each node, in milliseconds. */
  readonly #pauses = new Map<string, number>();

  /** An attempt begins. */
  attempted(name: string): void {
    this.#waiting.delete(name);
  }

  /** The attempt found no room. Returns the milliseconds until the next one. */
  missed(name: string): number {
    const pauseMs = Math.min((this.#pauses.get(name) ?? pausesMs.first / 2) * 2, pausesMs.longest);
    this.#pauses.set(name, pauseMs);
    this.#waiting.add(name);
    return Math.max(pauseMs, this.#waiting.size * perNodeMs);
  }

  /** True until the next attempt: a change of the node alone makes no room. */
  waits(name: string): boolean {
    return this.#waiting.has(name);
  }

  /** Ends the pauses of as many nodes as blocks have become free, and returns their names. */
  wake(blocks: number): readonly string[] {
    const names = [...this.#waiting].slice(0, blocks);
    for (const name of names) this.attempted(name);
    return names;
  }

  /** The node is gone. */
  forget(name: string): void {
    this.attempted(name);
    this.#pauses.delete(name);
  }
}
