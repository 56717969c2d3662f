import { type Node, readyStatus } from "cloud-controller-host/sdk";

import { vmIdOf } from "../../../instances/provider-id.ts";
import type { UnendedOperationsOptions } from "./unended-operations.ts";

/** Pauses between looks at the nodes, and between attempts to let the same instances join. */
const firstPauseMs = 30_000;
const longestPauseMs = 300_000;

export interface SkippedInstancesOptions extends Pick<UnendedOperationsOptions, "context" | "refresh"> {
  readonly nodes: () => readonly Node[];
}

/**
 * Instances that were left out of a pool, or in one: they were stopped, or a write has not repaired their network
 * interface. No Service is synced when that ends: all are planned once the node is ready, and again until it has ended.
 */
export class SkippedInstances {
  readonly #options: SkippedInstancesOptions;
  /** Lower-case ids. */
  readonly #ids = new Set<string>();
  #isWaiting = false;

  constructor(options: SkippedInstancesOptions) {
    this.#options = options;
  }

  add(id: string): void {
    if (this.#options.context.planning !== undefined) return;
    this.#ids.add(id.toLowerCase());
    if (!this.#isWaiting) void this.#wait();
  }

  async #wait(): Promise<void> {
    const { context, refresh } = this.#options;
    const { clock, signal, log } = context;
    this.#isWaiting = true;
    for (let pauseMs = firstPauseMs; this.#ids.size > 0;) {
      await clock.sleep(pauseMs, signal);
      if (signal.aborted) return;
      const ready = this.#takeReady();
      pauseMs = ready.length === 0 ? firstPauseMs : Math.min(longestPauseMs, pauseMs * 2);
      if (ready.length === 0) continue;
      const error = await refresh();
      if (error === undefined || signal.aborted) continue;
      for (const id of ready) this.#ids.add(id);
      log.warn("Failed to update backend pools for instances that were skipped; trying again", {
        delayMs: pauseMs,
        error,
      });
    }
    this.#isWaiting = false;
  }

  /** Forgets those without a node as well: their Services are synced when it is registered again. */
  #takeReady(): readonly string[] {
    const nodes = new Map(this.#options.nodes().map((node) => [vmIdOf(node)?.toLowerCase(), node]));
    const taken = [...this.#ids].filter((id) => {
      const node = nodes.get(id);
      return node === undefined || readyStatus(node) === "True";
    });
    for (const id of taken) this.#ids.delete(id);
    return taken.filter((id) => nodes.has(id));
  }
}
