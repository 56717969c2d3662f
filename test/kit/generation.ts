import type { Controller, ControllerContext } from "cloud-controller-host/sdk";

import { GenerationFence } from "../../host/generation/fence.ts";

export interface GenerationParts {
  readonly stack: AsyncDisposableStack;
  readonly fence: GenerationFence;
  readonly signal: AbortSignal;
}

type MakeContext = (parts: GenerationParts) => {
  readonly context: ControllerContext;
  readonly synced: () => Promise<void>;
};

/** What a generation lends to one controller. Disposed of, it is fenced off and lets go of everything. */
export class TestGeneration implements AsyncDisposable {
  readonly context: ControllerContext;
  readonly synced: () => Promise<void>;
  /** Closing it refuses every further write of this generation. */
  readonly fence = new GenerationFence(() => true);
  /** The run's signal. */
  readonly signal: AbortSignal;
  readonly #aborter = new AbortController();
  readonly #stack = new AsyncDisposableStack();

  constructor(make: MakeContext) {
    this.signal = this.#aborter.signal;
    this.fence.open();
    const made = make({ stack: this.#stack, fence: this.fence, signal: this.signal });
    this.context = made.context;
    this.synced = made.synced;
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

/** A controller at work. Disposed of, it is stopped; a `run` that failed fails the test then. */
export class RunningController implements AsyncDisposable {
  readonly controller: Controller;
  readonly generation: TestGeneration;
  /** Settles when `run` does. */
  readonly ended: Promise<void>;

  constructor(controller: Controller, generation: TestGeneration) {
    this.controller = controller;
    this.generation = generation;
    this.ended = controller.run(generation.signal);
    // Whoever awaits `ended` is told of a failure; until then it must not end the test run.
    this.ended.catch(() => undefined);
  }

  /** Asks it to stop, and resolves when it has. */
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
