import { CodedError } from "cloud-controller-host/sdk";

import { LinkedSignal } from "../async/linked-signal.ts";
import type { ProcessParts } from "../run/process-parts.ts";

/** A role that has just been granted, or a token that has just been renewed, needs a moment. */
const graceMs = 5_000;
const lookMs = 250;

type Parts = Pick<ProcessParts, "clock"> & { readonly informers: Pick<ProcessParts["informers"], "contents"> };

/** Aborts with the given signal, and when the API server does not let the plan read a kind: waiting would not help. */
export class ReadableSignal implements AsyncDisposable {
  readonly #refused = new AbortController();
  readonly #over = new AbortController();
  readonly #link: LinkedSignal;
  readonly #looking: Promise<void>;

  constructor(parts: Parts, signal: AbortSignal) {
    this.#link = new LinkedSignal(signal, this.#refused.signal);
    this.#looking = this.#look(parts);
  }

  get signal(): AbortSignal {
    return this.#link.signal;
  }

  /** From now on only the given signal counts. */
  stop(): void {
    this.#over.abort();
  }

  async #look({ informers, clock }: Parts): Promise<void> {
    let since = clock.monotonic();
    while (!this.#over.signal.aborted) {
      const refusals = informers
        .contents()
        .flatMap(({ kind, refusal }) =>
          refusal === undefined ? [] : `${kind.plural} cannot be read: ${refusal.message}`,
        );
      if (refusals.length === 0) since = clock.monotonic();
      else if (clock.monotonic() - since >= graceMs) {
        const text = `${refusals.join("; ")}; grant the role that "rbac --plan" prints`;
        return this.#refused.abort(new CodedError("SyncFailed", text));
      }
      await clock.sleep(lookMs, this.#over.signal);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.#looking;
    this.#link[Symbol.dispose]();
  }
}
