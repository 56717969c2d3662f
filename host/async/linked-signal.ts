/**
 * A signal that aborts with other signals and, optionally, at a deadline. `release` removes all listeners and timers,
 * which `AbortSignal.any` and `AbortSignal.timeout` cannot: thousands of short requests follow one long-lived signal.
 */
export class LinkedSignal implements Disposable {
  readonly #controller = new AbortController();
  readonly #sources: readonly AbortSignal[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(...sources: readonly (AbortSignal | undefined)[]) {
    this.#sources = sources.filter((source) => source !== undefined);
    for (const source of this.#sources) {
      if (source.aborted) this.abort(source.reason);
      else source.addEventListener("abort", this.#follow, { once: true });
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Aborts with the reason once `ms` have passed. */
  setDeadline(ms: number, reason: () => unknown): void {
    this.clearDeadline();
    this.#timer = setTimeout(() => this.abort(reason()), ms);
  }

  clearDeadline(): void {
    clearTimeout(this.#timer);
  }

  release(): void {
    this.clearDeadline();
    for (const source of this.#sources) source.removeEventListener("abort", this.#follow);
  }

  [Symbol.dispose](): void {
    this.release();
  }

  readonly #follow = (): void => {
    this.abort(this.#sources.find((source) => source.aborted)?.reason);
  };
}
