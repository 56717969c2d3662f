import {
  type CloudCall,
  type CloudContext,
  defaultLoadBalancerName,
  type Informer,
  keyOf,
  type LoadBalancers,
  type LoadBalancerStatus,
  messageOf,
  type Node,
  RetryAfterError,
  type Service,
  type ServiceWarning,
  type UnrequestedRemovals,
} from "cloud-controller-host/sdk";

import { abandonable } from "../arm/transport/signals.ts";
import { forgetAll, type NetworkResources, networkResources } from "../arm/writes/network-resources.ts";
import { type ObserveService, serviceOperations } from "../arm/writes/operation-metrics.ts";
import { isRejected } from "../arm/writes/write-errors.ts";
import type { AzureConfig } from "../config/decode.ts";
import type { VmReads } from "../instances/vm-types.ts";
import type { ResourceChange } from "../removal-guard/guard.ts";
import { recheckMs } from "../removal-guard/holds.ts";
import { RemovalHeldError } from "../removal-guard/rule.ts";
import type { Observed } from "./model/model.ts";
import { type PlannerConfig, plannerConfig } from "./model/planner-config.ts";
import { serviceWarnings } from "./plan/warnings.ts";
import { PoolMembers, type PoolMembersOptions } from "./pools/membership.ts";
import { PoolReads } from "./pools/pool-reads.ts";
import { Activity } from "./reconcile/activity.ts";
import { Applier } from "./reconcile/apply/apply.ts";
import { NewServices } from "./reconcile/apply/preconditions.ts";
import { Drains } from "./reconcile/drains.ts";
import { type LimitMetrics, limitMetrics } from "./reconcile/limit-metrics.ts";
import { LocalServices } from "./reconcile/local-services.ts";
import { Observer } from "./reconcile/observe/observe.ts";
import { Reconciler } from "./reconcile/reconciler.ts";
import { ResourceLock, ResourceLockError } from "./reconcile/resource-lock.ts";
import { stuckMembers } from "./reconcile/stuck-members.ts";
import type { Reconciled } from "./reconcile/wanted.ts";
import { GuardedRounds, type Removals } from "./removals/guarded-round.ts";
import { hasNeighbors } from "./service/identity.ts";

/** Pauses after a write that ARM rejected: it would reject the same write again. A change of the Service ends them. */
const firstPauseMs = 60_000;
const longestPauseMs = 15 * 60_000;

/** upstream: the operations of the `LoadBalancer` interface in metrics. */
const requests = {
  EnsureLoadBalancer: "ensure_loadbalancer",
  UpdateLoadBalancer: "update_loadbalancer",
  EnsureLoadBalancerDeleted: "ensure_loadbalancer_deleted",
} as const;

/** upstream: `source` of the operation that follows the endpoints of local Services. */
const localUpdater = "local_service_backend_pool_updater";

interface LoadBalancerParts {
  readonly reconciler: Reconciler;
  readonly observer: Observer;
  readonly network: NetworkResources;
  readonly activity: Activity;
  readonly locals: LocalServices | undefined;
  readonly drains: Drains | undefined;
  readonly measure: ObserveService;
  readonly config: PlannerConfig;
  readonly isPlanning: boolean;
  readonly newServices: NewServices;
  readonly limitUse: LimitMetrics;
}

/** upstream: the `LoadBalancer` interface of cloud-provider-azure, `azure_loadbalancer.go`. */
export class AzureLoadBalancers implements LoadBalancers {
  readonly #parts: LoadBalancerParts;
  /** Consecutive rejections by ARM, by key of the Service. */
  readonly #rejections = new Map<string, number>();

  constructor(parts: LoadBalancerParts) {
    this.#parts = parts;
  }

  /** To be called when leading begins. Follows endpoints of local Services with pools of their own, and nodes that leave. */
  async run(signal: AbortSignal): Promise<void> {
    this.#parts.newServices.begin();
    this.#parts.observer.contradictions.begin();
    // What was read for `unrequestedRemovals` may have been written since by the process or generation that led until now.
    forgetAll(this.#parts.network);
    await Promise.all([this.#parts.locals?.run(signal), this.#parts.drains?.run(signal)]);
  }

  /** Use of Azure's limits. */
  get status(): LimitMetrics["status"] {
    return this.#parts.limitUse.status;
  }

  watch(services: Informer<Service>): void {
    this.#parts.newServices.watch(services);
    services.handle(this.#parts.reconciler.takeovers.handler);
    services.handle(this.#parts.observer.opened.handler);
  }

  loadBalancerName(_clusterName: string, service: Service): string {
    return defaultLoadBalancerName(service);
  }

  getLoadBalancer(
    _clusterName: string,
    service: Service,
    { signal }: CloudCall = {},
  ): Promise<LoadBalancerStatus | undefined> {
    return abandonable(() => this.#parts.reconciler.lookups.look(service), signal);
  }

  async ensureLoadBalancer(
    _clusterName: string,
    service: Service,
    nodes: readonly Node[],
    call: CloudCall = {},
  ): Promise<LoadBalancerStatus> {
    const { status } = await this.#run("EnsureLoadBalancer", service, () =>
      this.#reconcile(service, "ensure", nodes, call),
    );
    return status ?? {};
  }

  async updateLoadBalancer(
    _clusterName: string,
    service: Service,
    nodes: readonly Node[],
    call: CloudCall = {},
  ): Promise<void> {
    await this.#run("UpdateLoadBalancer", service, async () => {
      // The caller's copy may be old; what is there now decides.
      const current = this.#parts.observer.service(service);
      if (current !== undefined) await this.#reconcile(current, "ensure", nodes, call);
    });
  }

  updateLoadBalancers(
    clusterName: string,
    services: readonly Service[],
    nodes: readonly Node[],
    call?: CloudCall,
  ): Promise<readonly PromiseSettledResult<void>[]> {
    return Promise.allSettled(services.map((service) => this.updateLoadBalancer(clusterName, service, nodes, call)));
  }

  async ensureLoadBalancerDeleted(_clusterName: string, service: Service, call: CloudCall = {}): Promise<void> {
    this.#parts.locals?.deleted(service);
    this.#parts.drains?.deleted(service);
    await this.#run("EnsureLoadBalancerDeleted", service, () => this.#reconcile(service, "delete", [], call));
    this.#rejections.delete(keyOf(service));
  }

  async leaveLoadBalancer(_clusterName: string, service: Service): Promise<void> {
    this.#rejections.delete(keyOf(service));
    this.#parts.drains?.deleted(service);
    await this.#parts.locals?.left(service);
    await this.#parts.reconciler.left(service);
  }

  /** Removals from the present Services that this config would cause, together with the caller's. */
  unrequestedRemovals(others: readonly ResourceChange[]): Promise<UnrequestedRemovals | undefined> {
    return this.#parts.reconciler.lookups.unrequestedRemovals(others);
  }

  warnings(service: Service): readonly ServiceWarning[] {
    return serviceWarnings(service, this.#parts.config);
  }

  /** Measures an operation, and puts its name before an unavailable lock's error, as upstream. */
  #run<Result>(operation: keyof typeof requests, service: Service, work: () => Promise<Result>): Promise<Result> {
    return this.#parts.measure(requests[operation], keyOf(service), async () => {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof ResourceLockError)) throw error;
        throw new ResourceLockError(error.code, `${operation} ${error.message}`, { cause: error });
      }
    });
  }

  async #reconcile(
    service: Service,
    action: "ensure" | "delete",
    nodes: readonly Node[],
    { signal }: CloudCall,
  ): Promise<Reconciled> {
    const key = keyOf(service);
    try {
      const { activity, reconciler } = this.#parts;
      const result = await activity.track(service, reconciler.reconcile({ service, action, nodes }, signal));
      this.#rejections.delete(key);
      if (action === "ensure") this.#parts.locals?.ensured(service);
      if (action === "ensure") this.#parts.drains?.ensured(service);
      return result;
    } catch (error) {
      // A plan shows what is held; it is not a failure of it.
      if (error instanceof RemovalHeldError && this.#parts.isPlanning && action === "ensure")
        return { status: service.status?.loadBalancer, writes: 0 };
      if (error instanceof RemovalHeldError) throw new RetryAfterError(recheckMs, error.message, { cause: error });
      if (!isRejected(error)) throw error;
      const count = (this.#rejections.get(key) ?? 0) + 1;
      this.#rejections.set(key, count);
      const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** (count - 1));
      throw new RetryAfterError(pauseMs, messageOf(error), { cause: error });
    }
  }
}

/** Creates the load balancer capability of one generation. */
export function azureLoadBalancers(
  config: AzureConfig,
  reads: VmReads,
  context: CloudContext,
  removals: Removals,
): AzureLoadBalancers {
  const [{ clock, signal }, { clients }] = [context, reads];
  const planner = plannerConfig(config, context);
  const network = networkResources(clients, config, { clock, signal });
  const abandoned = (id: string): void => reconciler.later.abandoned(id);
  const skipped = (id: string): void => reconciler.later.skipped(id);
  const lookAtModels = (): void => reconciler.later.lookAtModels();
  const members = poolMembers(config, planner, { ...reads, abandoned, skipped, lookAtModels }, context);
  const limitUse = limitMetrics(context.metrics, planner);
  const newServices = new NewServices((services) =>
    hasNeighbors({ config: planner, observed: { services } }, context.shards),
  );
  const drains =
    planner.pools === "interfaces" ? undefined : new Drains({ context, config: planner, services: () => reconciler });
  const shared = { context, config: planner, newServices, drains };
  const seen = (observed: Observed): void => limitUse.seen(observed);
  const observer = new Observer({ ...shared, clients, network, members: members.reads, seen });
  const forgetSubnet = (name: string): void => observer.forgetSubnet(name);
  const activity = new Activity(context);
  const reconciler = new Reconciler({
    ...shared,
    observer,
    pools: members.reads,
    applier: new Applier({ clients, config: planner, network, members, clock, signal, forgetSubnet, newServices }),
    activity,
    lock: new ResourceLock(context),
    rounds: new GuardedRounds(context, removals, planner),
  });
  const measure = serviceOperations(context.metrics, planner);
  return new AzureLoadBalancers({
    reconciler,
    observer,
    network,
    activity,
    locals:
      planner.loadBalancers.length === 0
        ? undefined
        : localServices(config, { context, observer, activity, measure, reconciler }),
    drains,
    measure,
    config: planner,
    newServices,
    limitUse,
    isPlanning: context.planning !== undefined,
  });
}

function poolMembers(
  config: AzureConfig,
  planner: PlannerConfig,
  parts: VmReads & Pick<PoolMembersOptions, "abandoned" | "skipped" | "lookAtModels">,
  context: CloudContext,
): PoolMembers {
  const { clock, signal } = context;
  const options = { ...parts, clock, signal, standard: planner.sku === "standard" };
  return new PoolMembers({
    ...options,
    reads: new PoolReads(options),
    withInstanceView: !config.listVmssVirtualMachinesWithoutInstanceView,
    resourceGroup: planner.resourceGroup,
    stuckMembers: stuckMembers(context),
  });
}

function localServices(
  config: AzureConfig,
  parts: {
    readonly context: CloudContext;
    readonly observer: Observer;
    readonly activity: Activity;
    readonly measure: ObserveService;
    readonly reconciler: Reconciler;
  },
): LocalServices {
  const { context, observer, activity, measure, reconciler } = parts;
  return new LocalServices({
    context,
    intervalMs: config.loadBalancerBackendPoolUpdateIntervalInSeconds * 1000,
    current: (service) => observer.service(service),
    refresh: (service) =>
      measure("local_update_backend_pool", localUpdater, () => activity.track(service, reconciler.refresh(service))),
  });
}
