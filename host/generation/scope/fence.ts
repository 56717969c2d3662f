import { type Fence, FencedError } from "cloud-controller-host/sdk";

/**
 * A generation's permission to write. It opens once, when the generation begins to run, and closes once, for good,
 * after its drain. Between the two it is also shut at any moment when the lease is not safely held by the local clock.
 */
export class GenerationFence implements Fence {
  readonly #safelyHeld: () => boolean;
  readonly #aborter = new AbortController();
  #opened = false;

  constructor(safelyHeld: () => boolean) {
    this.#safelyHeld = safelyHeld;
  }

  get signal(): AbortSignal {
    return this.#aborter.signal;
  }

  get closed(): boolean {
    return this.#reason() !== undefined;
  }

  check(what: string): void {
    const reason = this.#reason();
    if (reason !== undefined) throw new FencedError(what, reason);
  }

  open(): void {
    this.#opened = true;
  }

  /** Closes for good and cuts off writes in flight. */
  close(): void {
    this.#aborter.abort(new FencedError("the write in flight", "its generation has ended"));
  }

  #reason(): string | undefined {
    if (this.signal.aborted) return "its generation has ended";
    if (!this.#opened) return "its generation is being prepared and does not run yet";
    return this.#safelyHeld() ? undefined : "the leader election lease is not safely held";
  }
}
