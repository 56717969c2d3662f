import { Fifo } from "../../async/fifo.ts";

/** One request costs about 0.2 ms. */
const defaultPerTurn = 16;

/**
 * Starts requests: at once while there are few, and otherwise a few per turn of the event loop, those of authenticated
 * clients first. So a burst delays a second client and the lease by milliseconds, and what the burst's client has
 * canceled by its turn costs almost nothing.
 */
export class Turns {
  readonly #authenticated = new Fifo<() => void>();
  readonly #others = new Fifo<() => void>();
  readonly #perTurn: number;
  #left: number;

  constructor(perTurn = defaultPerTurn) {
    this.#perTurn = perTurn;
    this.#left = perTurn;
  }

  start(isAuthenticated: boolean, begin: () => void): void {
    if (this.#left === this.#perTurn) setImmediate(() => this.#next());
    if (this.#left > 0) {
      this.#left--;
      begin();
    } else (isAuthenticated ? this.#authenticated : this.#others).push(begin);
  }

  #next(): void {
    this.#left = this.#perTurn;
    for (let i = 0; i < this.#perTurn; i++) {
      const begin = this.#authenticated.shift() ?? this.#others.shift();
      if (begin === undefined) return;
      this.start(false, begin);
    }
  }
}
