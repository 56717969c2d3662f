import { Fifo } from "./fifo.ts";

/**
 * Starts work: at once while there is little, and otherwise a few pieces per turn of the event loop, the urgent ones
 * first. So a burst of requests or replies delays everything else, above all the lease, by milliseconds.
 */
export class Turns {
  readonly #urgent = new Fifo<() => void>();
  readonly #others = new Fifo<() => void>();
  readonly #perTurn: number;
  #left: number;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#left = perTurn;
  }

  start(isUrgent: boolean, begin: () => void): void {
    if (this.#left === this.#perTurn) setImmediate(() => this.#next());
    if (this.#left > 0) {
      this.#left--;
      begin();
    } else (isUrgent ? this.#urgent : this.#others).push(begin);
  }

  #next(): void {
    this.#left = this.#perTurn;
    for (let i = 0; i < this.#perTurn; i++) {
      const begin = this.#urgent.shift() ?? this.#others.shift();
      if (begin === undefined) return;
      this.start(false, begin);
    }
  }
}
