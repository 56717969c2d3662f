import { CodedError } from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import { LinkedSignal } from "../../async/linked-signal.ts";
import type { WorkKind } from "../../async/outstanding-work.ts";
import type { GenerationInformers } from "../../kube/informers/share.ts";
import type { ProcessScope } from "../scope/scope.ts";
import type { PluginResources } from "./contexts.ts";

export interface OwnParts {
  readonly resources: PluginResources;
  /** Ends what was made for this plugin alone. */
  abort(): void;
}

/** A share of the informers and a signal for each plugin, so that one can be left out and a failure names its plugin. */
export class PluginParts {
  readonly #scope: ProcessScope;
  readonly #signal: AbortSignal;
  readonly #open = new Map<GenerationInformers, OwnParts>();

  constructor(scope: ProcessScope, signal: AbortSignal, undo: AsyncDisposableStack) {
    this.#scope = scope;
    this.#signal = signal;
    undo.defer(() => {
      for (const parts of this.#open.values()) parts.abort();
    });
  }

  /** The informers of the plugins, as they are now. */
  shares(): readonly GenerationInformers[] {
    return [...this.#open.keys()];
  }

  open(fence: PluginResources["fence"]): OwnParts {
    const link = new LinkedSignal(this.#signal);
    const informers = this.#scope.informers.share();
    const abort = (): void => {
      this.#open.delete(informers);
      link.abort(new CodedError("LeftOut", "the plugin is left out"));
      link.release();
      informers.release();
    };
    const parts = { resources: { informers, fence, signal: link.signal }, abort };
    this.#open.set(informers, parts);
    return parts;
  }

  /** Resolves when every informer that the plugin asked for has synced; rejects with the kinds that have not. */
  async synced(owner: string, { resources: { informers, signal } }: OwnParts): Promise<void> {
    const late = new AbortController();
    using link = new LinkedSignal(signal, late.signal);
    try {
      const name = `informer sync of ${owner}`;
      await bounded(limits(this.#scope, "sync", name, signal), () => informers.synced(link.signal));
    } catch (error) {
      const kinds = informers.unsynced.join(", ");
      late.abort(error);
      signal.throwIfAborted();
      const isTimeout = error instanceof CodedError && error.code === "WorkTimeout";
      throw new CodedError(
        "SyncFailed",
        `${owner}: ${kinds} did not sync within ${this.#scope.settings.initTimeout / 1000} s (--plugin-init-timeout); check that the API server serves these kinds and that RBAC allows list and watch`,
        isTimeout ? {} : { cause: error },
      );
    }
  }
}

export const limits = (scope: ProcessScope, kind: WorkKind, name: string, signal: AbortSignal) => ({
  kind,
  name,
  clock: scope.clock,
  outstanding: scope.outstanding,
  limitMs: scope.settings.initTimeout,
  hint: "--plugin-init-timeout; long work belongs into run()",
  signal,
});
