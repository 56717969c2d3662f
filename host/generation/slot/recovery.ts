import { CodedError } from "cloud-controller-host/sdk";

import type { NextRun, RunFailure } from "../report/reload-status.ts";
import type { Generation, GenerationSpec } from "./generation.ts";

/** Time for which a generation is on probation. */
export const probationMs = 60_000;

export type Prepare = (spec: GenerationSpec, signal: AbortSignal) => Promise<Generation>;

/** A spec whose plugin files are kept, since any of them may yet be imported. */
interface RetainedSpec {
  readonly spec: GenerationSpec;
  /** The generation that ran it. */
  readonly generation: number;
  readonly release: () => void;
}

/**
 * A generation that fails within a minute of its start gives way to the one that it replaced, one that fails later is
 * started again, a reload that arrives meanwhile runs in their place with the same way back, and the lease is passed on
 * when no earlier one can run: when the first generation fails within its first minute, or the restored one within its own.
 */
export class Recovery {
  readonly #prepare: Prepare;
  /** The one way back. Kept until what runs has passed its probation, or until the way back itself runs. */
  #wayBack: RetainedSpec | undefined;
  #failure: RunFailure | undefined;
  #aborter = new AbortController();

  constructor(prepare: Prepare) {
    this.#prepare = prepare;
  }

  /** The generation whose plugins and config would run again. */
  get wayBack(): number | undefined {
    return this.#wayBack?.generation;
  }

  /** Notes what runs, and is about to be replaced, as what to return to. */
  remember(generation: Generation | undefined): void {
    const kept = generation && {
      spec: generation.spec,
      generation: generation.number,
      release: generation.spec.plugins.retain(),
    };
    this.forget();
    this.#wayBack = kept;
  }

  forget(): void {
    this.#wayBack?.release();
    this.#wayBack = undefined;
  }

  /** Chooses what runs next. */
  choose(failed: Generation, failure: RunFailure): NextRun {
    this.#failure = failure;
    const isRestart = failed.age >= probationMs;
    if (isRestart) this.remember(failed);
    if (this.#wayBack === undefined) return { outcome: "the process ends", isRestart };
    const outcome = isRestart ? "its generation is started again" : "the previous generation runs again";
    return { outcome, isRestart };
  }

  /** Prepares what was chosen. Undefined when it was abandoned meanwhile. */
  async prepare(): Promise<Generation | undefined> {
    const { signal } = (this.#aborter = new AbortController());
    try {
      if (this.#wayBack !== undefined) return await this.#prepare(this.#wayBack.spec, signal);
      const { name, reason } = this.#failure ?? { name: "", reason: "" };
      throw new CodedError("RunFailed", `controller "${name}" failed: ${reason}`);
    } catch (error) {
      if (signal.aborted) return undefined;
      throw error;
    }
  }

  abandon(): void {
    this.#aborter.abort(new CodedError("Superseded", "the recovery is no longer needed"));
  }
}
