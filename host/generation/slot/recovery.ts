import { CodedError } from "cloud-controller-host/sdk";

import type { Generation, GenerationSpec, RunFailure } from "./generation.ts";

/** A generation that fails sooner than this after its start gives way to the one before it. */
const probationMs = 60_000;

export type Prepare = (spec: GenerationSpec, signal: AbortSignal) => Promise<Generation>;

/** A spec whose plugin files are kept, since any of them may yet be imported. */
interface RetainedSpec {
  readonly spec: GenerationSpec;
  readonly release: () => void;
}

const retain = (spec: GenerationSpec): RetainedSpec => ({ spec, release: spec.plugins.retain() });

/**
 * What runs after a generation has failed: in its probation the one before it, later the same plugins and config again.
 * Where neither is possible, the lease is better passed on.
 */
export class Recovery {
  readonly #prepare: Prepare;
  /** What ran before what runs now. */
  #previous: RetainedSpec | undefined;
  #next: RetainedSpec | undefined;
  #failure: RunFailure | undefined;
  #aborter = new AbortController();

  constructor(prepare: Prepare) {
    this.#prepare = prepare;
  }

  /** Notes what runs as what to return to. */
  remember(generation: Generation | undefined): void {
    this.#previous?.release();
    this.#previous = generation && retain(generation.spec);
  }

  /** Chooses what runs next, and returns that in words. */
  choose(failed: Generation, failure: RunFailure): string {
    const isNew = failed.age < probationMs;
    this.#failure = failure;
    this.#next = isNew ? this.#previous : retain(failed.spec);
    if (isNew) this.#previous = undefined;
    if (this.#next === undefined) return "the process ends";
    return isNew ? "the previous generation runs again" : "its generation is started again";
  }

  /** Prepares what was chosen. Undefined when it was abandoned meanwhile. */
  async prepare(): Promise<Generation | undefined> {
    const { signal } = (this.#aborter = new AbortController());
    const next = this.#next;
    this.#next = undefined;
    try {
      if (next !== undefined) return await this.#prepare(next.spec, signal);
      const { name, reason } = this.#failure ?? { name: "", reason: "" };
      throw new CodedError("RunFailed", `controller "${name}" failed: ${reason}`);
    } catch (error) {
      if (signal.aborted) return undefined;
      throw error;
    } finally {
      next?.release();
    }
  }

  abandon(): void {
    this.#aborter.abort(new CodedError("Superseded", "the recovery is no longer needed"));
  }

  /** Gives up what is kept. */
  release(): void {
    this.#previous?.release();
    this.#next?.release();
  }
}
