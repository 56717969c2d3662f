import { Fifo } from "../../async/fifo.ts";

/** Requests that start per turn of the event loop; one costs about 0.2 ms. */
const perTurn = 16;

/**
 * Starts requests: at once while there are few, and otherwise a few per turn of the event loop, those of authenticated
 * clients first. So a burst delays a second client and the lease by milliseconds, and what the burst's client has
 * canceled by its turn costs next to nothing.
 */
export class Turns {
  readonly #authenticated = new Fifo<() => void>();
  readonly #others = new Fifo<() => void>();
  #left = perTurn;

  start(isAuthenticated: boolean, begin: () => void): void {
    if (this.#left === perTurn) setImmediate(() => this.#next());
    if (this.#left > 0) {
      this.#left--;
      begin();
    } else (isAuthenticated ? this.#authenticated : this.#others).push(begin);
  }

  #next(): void {
    this.#left = perTurn;
    for (let i = 0; i < perTurn; i++) {
      const begin = this.#authenticated.shift() ?? this.#others.shift();
      if (begin === undefined) return;
      this.start(false, begin);
    }
  }
}
