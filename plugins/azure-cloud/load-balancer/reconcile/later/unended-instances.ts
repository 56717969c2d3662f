import { ownerOf } from "../../../instances/provider-id.ts";
import type { Observed } from "../../model/model.ts";
import type { PoolReads } from "../../pools/pool-reads.ts";
import type { UnendedOperationsOptions } from "./unended-operations.ts";

/** Pauses between reads of instances: most operations take less than a minute. */
const firstPauseMs = 30_000;
const longestPauseMs = 300_000;

export interface UnendedInstancesOptions extends UnendedOperationsOptions {
  readonly reads: Pick<PoolReads, "unended">;
}

/**
 * Operations on instances and network interfaces in pools that began before this process did, and those that it does not
 * wait for any more. Until one ends, the pool has its member, which may be about to leave although its node has come back
 * since: no Service is synced because of that. All Services are planned again when such an operation has ended.
 */
export class UnendedInstances {
  readonly #options: UnendedInstancesOptions;
  /** Ids of those that this process has abandoned since the last observation, or while it followed them. */
  readonly #abandoned = new Set<string>();
  /** Ids of the abandoned ones that it follows. */
  readonly #followed = new Set<string>();
  /** Ids of those that were observed last; undefined before the first observation. */
  #loadBalancers: readonly string[] | undefined;

  constructor(options: UnendedInstancesOptions) {
    this.#options = options;
  }

  /** Called with each observation; the members of the first one are looked up, and what was abandoned since. */
  seen(observed: Observed): void {
    const isFirst = this.#loadBalancers === undefined;
    this.#loadBalancers = observed.loadBalancers.flatMap(({ id }) => id ?? []);
    if (this.#options.context.planning !== undefined) return;
    if (isFirst) void this.#follow(ownersIn(observed));
    const abandoned = [...this.#abandoned.difference(this.#followed)];
    if (abandoned.length > 0) void this.#followAbandoned(abandoned);
  }

  /** The operation on an instance or a network interface is not waited for any more. */
  abandon(id: string): void {
    this.#abandoned.add(id);
  }

  /** Each has one loop: one whose operations never end is written, and abandoned, again and again. */
  async #followAbandoned(instances: readonly string[]): Promise<void> {
    for (const id of instances) {
      this.#abandoned.delete(id);
      this.#followed.add(id);
    }
    // One that has ended meanwhile may have ended after the load balancers were read.
    await this.#follow(instances, instances);
    for (const id of instances) this.#followed.delete(id);
  }

  /** Never rejects. What cannot be read is read again later. */
  async #follow(instances: readonly string[], unended?: readonly string[]): Promise<void> {
    const { context, reads } = this.#options;
    const { clock, signal } = context;
    let left = unended;
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
    for (const id of this.#loadBalancers ?? []) outdate(id);
    const error = await refresh();
    if (error === undefined || context.signal.aborted) return unended;
    context.log.warn("Failed to bring Services to their desired state after an operation in Azure; trying again", {
      error,
    });
    return instances;
  }
}

/** Ids of the instances and interfaces that are in pools. The node of one that is about to leave may come back later. */
const ownersIn = ({ poolMembers }: Observed): readonly string[] => {
  const owners = [...poolMembers.values()].flat().map(({ ipConfigurationId }) => ownerOf(ipConfigurationId));
  return [...new Set(owners.flatMap((owner) => owner?.id ?? []))];
};
