import { type Fence, FencedError } from "cloud-controller-host/sdk";

import { LinkedSignal } from "../../async/linked-signal.ts";

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

/** The part of a fence that one controller has: closes with it, or alone and for good once the controller has failed. */
export class ControllerFence implements Fence {
  readonly #outer: Fence;
  readonly #link: LinkedSignal;
  readonly #cloudWrites = new Set<Promise<unknown>>();
  #failed = false;

  constructor(outer: Fence) {
    this.#outer = outer;
    this.#link = new LinkedSignal(outer.signal);
  }

  get signal(): AbortSignal {
    return this.#link.signal;
  }

  get closed(): boolean {
    return this.#failed || this.#outer.closed;
  }

  check(what: string): void {
    if (this.#failed) throw new FencedError(what, failed);
    this.#outer.check(what);
  }

  /** Lets a cloud call begin. A cloud cannot tell whose request it sends, so the call is not cut off but waited for. */
  async cloudWrite<T>(what: string, call: () => Promise<T>): Promise<T> {
    this.check(what);
    const work = call();
    this.#cloudWrites.add(work);
    try {
      return await work;
    } finally {
      this.#cloudWrites.delete(work);
    }
  }

  close(): void {
    this.#failed = true;
    this.#link.abort(new FencedError("the write in flight", failed));
    this.#link.release();
  }

  /** Resolves when none of its cloud calls is in flight. */
  async quiet(): Promise<void> {
    await Promise.allSettled(this.#cloudWrites);
  }
}

const failed = "its controller has failed";
