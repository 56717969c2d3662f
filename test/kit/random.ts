/** Reproducible random numbers: the same seed gives the same sequence. Source: Tommy Ettinger's mulberry32. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** At least 0, below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  between(least: number, max: number): number {
    return least + Math.floor(this.next() * (max - least + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  /** Undefined when there is nothing to choose from. */
  pick<T>(items: readonly T[]): T | undefined {
    return items[this.between(0, items.length - 1)];
  }
}
