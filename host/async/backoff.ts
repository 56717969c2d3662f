/** Exponential backoff with jitter: the delay doubles with each failure, plus a random part so that clients spread out. */
export class Backoff {
  readonly #baseMs: number;
  readonly #maxMs: number;
  #failures = 0;

  constructor(options: { readonly baseMs: number; readonly maxMs: number }) {
    this.#baseMs = options.baseMs;
    this.#maxMs = options.maxMs;
  }

  next(): number {
    const pause = Math.min(this.#maxMs, this.#baseMs * 2 ** this.#failures);
    this.#failures += 1;
    return pause * (1 + Math.random());
  }

  reset(): void {
    this.#failures = 0;
  }
}
