/**
 * A signal of its own that follows other signals and, on request, a deadline. `release` takes every listener and timer
 * away again, which `AbortSignal.any` and `AbortSignal.timeout` cannot: a signal that lives for long is followed by
 * thousands of requests that do not.
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
