import type { CloudContext } from "cloud-controller-host/sdk";

import { ownerOf } from "../../instances/provider-id.ts";
import type { Observed } from "../model/model.ts";
import type { PoolReads } from "../pools/pool-reads.ts";

/** Pauses between reads of instances: most operations take less than a minute. */
const firstPauseMs = 30_000;
const longestPauseMs = 300_000;

export interface UnendedInstancesOptions {
  readonly context: Pick<CloudContext, "clock" | "signal" | "log" | "planning">;
  readonly reads: Pick<PoolReads, "unended">;
  /** Makes the next plan read the resource again. */
  readonly outdate: (id: string) => void;
  /** Plans all Services; resolves with the error of one that fails for a reason other than its own settings. */
  readonly refresh: () => Promise<unknown>;
}

/**
 * Operations on instances in pools that began before this process did. Until one ends, the pool has its instance, which
 * may be about to leave although its node has come back since: no Service is synced because of that. All Services are
 * planned again when such an operation has ended.
 */
export class UnendedInstances {
  readonly #options: UnendedInstancesOptions;
  #observed: Observed | undefined;

  constructor(options: UnendedInstancesOptions) {
    this.#options = options;
  }

  /** Called with each observation; the members of the first one are looked up. */
  seen(observed: Observed): void {
    const isFirst = this.#observed === undefined;
    this.#observed = observed;
    if (isFirst && this.#options.context.planning === undefined) void this.#follow(instancesIn(observed));
  }

  /** Never rejects. What cannot be read is read again later. */
  async #follow(instances: readonly string[]): Promise<void> {
    const { context, reads } = this.#options;
    const { clock, signal } = context;
    let left: readonly string[] | undefined;
    for (let pauseMs = firstPauseMs; !signal.aborted; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      left = await (left === undefined ? reads.unended(instances, "cached") : this.#unendedOf(left)).catch(() => left);
      if (left?.length === 0) return;
      await clock.sleep(pauseMs, signal);
    }
  }

  /** Those whose operation has not ended, and all while the Services cannot be planned. */
  async #unendedOf(instances: readonly string[]): Promise<readonly string[]> {
    const { context, reads, outdate, refresh } = this.#options;
    const unended = await reads.unended(instances, "fresh");
    if (unended.length === instances.length) return unended;
    for (const { id = "" } of this.#observed?.loadBalancers ?? []) outdate(id);
    const error = await refresh();
    if (error === undefined || context.signal.aborted) return unended;
    context.log.warn("Failed to bring Services to their desired state after an operation in Azure; trying again", {
      error,
    });
    return instances;
  }
}

/** Ids of the instances of nodes that are in pools. */
const instancesIn = ({ poolMembers }: Observed): readonly string[] => {
  const members = [...poolMembers.values()].flat().filter(({ node }) => node !== undefined);
  const owners = members.map(({ ipConfigurationId }) => ownerOf(ipConfigurationId));
  return [...new Set(owners.flatMap((owner) => (owner?.kind === "instance" ? [owner.id] : [])))];
};
