import type { Node } from "cloud-controller-host/sdk";

import type { Observed } from "../../model/model.ts";
import { isShard, type PlannerConfig } from "../../model/planner-config.ts";
import type { PoolReads } from "../../pools/pool-reads.ts";
import type { Flight } from "../in-flight.ts";
import { GoneBalancers, type GoneBalancersOptions } from "./gone-balancers.ts";
import { MemberLooks } from "./member-looks.ts";
import { ModelLooks } from "./model-looks.ts";
import { SkippedInstances } from "./skipped-instances.ts";
import { UnendedInstances } from "./unended-instances.ts";
import { UnendedOperations, type UnendedOperationsOptions } from "./unended-operations.ts";

export interface LaterPlansOptions extends UnendedOperationsOptions, Omit<GoneBalancersOptions, "loadBalancers"> {
  readonly config: Pick<PlannerConfig, "loadBalancers" | "shardSuffix">;
  /** Makes the next plan read everything again. */
  readonly forget: () => void;
  readonly pools: Pick<PoolReads, "unended" | "haveModelsChanged">;
  readonly nodes: () => readonly Node[];
  readonly isShared: () => boolean;
}

/** Plans that follow no change of a Service or node: the end of an operation, or a look at what earlier reads may lack. */
export class LaterPlans {
  readonly #operations: UnendedOperations;
  readonly #instances: UnendedInstances;
  readonly #skipped: SkippedInstances;
  readonly #models: ModelLooks;
  readonly #members: MemberLooks;
  readonly #gone: GoneBalancers;

  constructor({ pools, nodes, isShared, forget, config, ...shared }: LaterPlansOptions) {
    const loadBalancers = config.loadBalancers.map(({ name }) => name.toLowerCase());
    this.#operations = new UnendedOperations(shared);
    this.#instances = new UnendedInstances({ ...shared, reads: pools });
    this.#skipped = new SkippedInstances({ ...shared, nodes });
    this.#members = new MemberLooks(shared);
    this.#gone = new GoneBalancers({ ...shared, loadBalancers });
    // Of load balancers that deployments share, each may have moved nodes by what it had read before the other did.
    const haveChanged = async (): Promise<boolean> => {
      if (loadBalancers.length === 0 || isShard(config) || !isShared()) return pools.haveModelsChanged();
      forget();
      return true;
    };
    this.#models = new ModelLooks({ ...shared, isShared, haveChanged });
  }

  /** Called with each observation. `flights`: the writes of this process since it began. */
  seen(observed: Observed, flights: readonly Flight[]): void {
    this.#operations.seen(observed, flights);
    this.#instances.seen(observed);
    this.#gone.seen(observed);
  }

  /** A write of a resource had no reply. */
  lost(id: string): void {
    this.#operations.lost(id);
  }

  /** A Service is to be ensured or deleted. */
  submitted(): void {
    this.#models.changed();
  }

  /** Members of a pool were written. */
  moved(poolId: string): void {
    this.#members.written(poolId);
  }

  /** The operation on an instance or a network interface is not waited for any more. */
  abandoned(id: string): void {
    this.#instances.abandon(id);
  }

  /** The instance is left out: it is stopped, or its network interface is not to be repaired. */
  skipped(id: string): void {
    this.#skipped.add(id);
  }

  /** The model of a scale set was written, or an instance had to join although its model seemed to name the pool. */
  lookAtModels(): void {
    this.#models.doubted();
  }
}
