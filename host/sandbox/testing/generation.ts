import type { Controller, ControllerContext } from "cloud-controller-host/sdk";

import { GenerationFence } from "../../generation/scope/fence.ts";

export interface GenerationParts {
  readonly stack: AsyncDisposableStack;
  readonly fence: GenerationFence;
  readonly signal: AbortSignal;
}

type MakeContext = (parts: GenerationParts) => {
  readonly context: ControllerContext;
  readonly synced: () => Promise<void>;
};

/** One generation with one controller context. Its disposal aborts the signal and closes the fence. */
export class TestGeneration implements AsyncDisposable {
  readonly context: ControllerContext;
  readonly synced: () => Promise<void>;
  /** Once closed, it rejects every further write of this generation. */
  readonly fence = new GenerationFence(() => true);
  /** The signal passed to `run`. */
  readonly signal: AbortSignal;
  readonly #aborter = new AbortController();
  readonly #stack = new AsyncDisposableStack();

  constructor(make: MakeContext) {
    this.signal = this.#aborter.signal;
    this.fence.open();
    const { context, synced } = make({ stack: this.#stack, fence: this.fence, signal: this.signal });
    this.context = context;
    this.synced = synced;
  }

  abort(): void {
    this.#aborter.abort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.abort();
    this.fence.close();
    await this.#stack.disposeAsync();
  }
}

/** A running controller. Its disposal stops it, and rejects when `run` has failed. */
export class RunningController implements AsyncDisposable {
  readonly controller: Controller;
  readonly generation: TestGeneration;
  /** Settles when `run` does. */
  readonly ended: Promise<void>;

  constructor(controller: Controller, generation: TestGeneration) {
    this.controller = controller;
    this.generation = generation;
    this.ended = controller.run(generation.signal);
    // A failure is reported by `ended` and `stop`; it must not end the test process as an unhandled rejection.
    this.ended.catch(() => undefined);
  }

  /** Aborts the signal and resolves when `run` has. */
  async stop(): Promise<void> {
    this.generation.abort();
    await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.stop();
    } finally {
      await this.generation[Symbol.asyncDispose]();
    }
  }
}
