import {
  type CloudContext,
  isRefusal,
  keyOf,
  type Node,
  recurringMessageOf,
  type Service,
} from "cloud-controller-host/sdk";

import { lastSegment } from "../../arm/resource-id.ts";
import type { ServiceIntent, ServiceKey } from "../model/model.ts";
import { isInternalName, isIPv6Name } from "../model/names.ts";
import { nodeName } from "../plan/draft/nodes.ts";
import { isMembersWrite } from "../pools/member-jobs.ts";
import { hasNeighbors, isSameService } from "../service/identity.ts";
import { readSubject } from "../service/subject.ts";
import { loadBalancerOf } from "./held-resources.ts";
import { LaterPlans, type LaterPlansOptions } from "./later/later-plans.ts";
import { MovedNodes } from "./later/moved-nodes.ts";
import { Lookups } from "./lookups.ts";
import { Loop, type LoopOptions } from "./loop.ts";
import { PortConflicts } from "./port-conflicts.ts";
import { Takeovers } from "./takeovers.ts";
import type { Reconciled } from "./wanted.ts";

/** Pauses before a pool is planned again of which an instance failed late. */
const firstPauseMs = 5_000;
const longestPauseMs = 300_000;
/** Pause between looks at a Service that leaves while it is being written. */
const leavingPauseMs = 1_000;

export interface ReconcilerOptions extends Omit<LoopOptions, "followUp" | "moved" | "unended"> {
  readonly pools: LaterPlansOptions["pools"];
  readonly context: LoopOptions["context"] & Pick<CloudContext, "shards">;
}

/**
 * The entrance to the loop, which does the work: submits Services to it, also for nodes, late members and held
 * removals.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #loop: Loop;
  /** Services that the service controller has brought here, by key. Others may be another process's. */
  readonly #served = new Map<ServiceKey, Service>();
  readonly #conflicts = new PortConflicts();
  readonly takeovers: Takeovers;
  /** Plans again, later, what depends on instances that are skipped, late or not written. */
  readonly later: LaterPlans;
  readonly lookups: Lookups;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    const { context, config, observer } = options;
    this.takeovers = new Takeovers(options);
    const outdate = (id: string): void => observer.outdate(id);
    const refresh = (): Promise<unknown> => this.#refreshAll(this.#services());
    this.later = new LaterPlans({
      context,
      pools: options.pools,
      nodes: () => observer.nodes(),
      isShared: () => hasNeighbors({ config, observed: { services: observer.services() } }, context.shards),
      config,
      planPool: (id) => this.#followUp(id, Promise.resolve()),
      forget: () => observer.forget(),
      outdate,
      refresh,
    });
    const nodes = new MovedNodes({
      context,
      config,
      services: () => this.#services(),
      outdate,
      refresh: (services) => this.#refreshAll(services),
    });
    this.#loop = new Loop({
      ...options,
      followUp: (...left) => void this.#followUp(...left),
      moved: (write) => {
        nodes.moved(write);
        if (isMembersWrite(write)) this.later.moved(write.id);
      },
      unended: this.later,
    });
    options.rounds.guard.onRecheck = (keys) => this.#recheck(new Set(keys));
    this.lookups = new Lookups({ ...options, written: () => this.#loop.written });
  }

  /** Called for Services of this process alone, each until it is deleted here or has left. */
  reconcile(intent: ServiceIntent, signal?: AbortSignal): Promise<Reconciled> {
    const { service, action } = intent;
    if (!this.#served.has(keyOf(service))) this.takeovers.arrived(intent);
    if (action === "ensure") this.#served.set(keyOf(service), service);
    else this.#served.delete(keyOf(service));
    this.later.submitted();
    const submit = () => this.#loop.submit(intent, signal);
    if (action === "ensure") return this.#conflicts.submit(service, submit, (others) => this.#replan(others));
    this.#conflicts.forget(service);
    return submit();
  }

  /**
   * Resolves once nothing is planned or written for the Service, which another process serves. Rejects when the process
   * stops before that: its writes may still be in flight.
   */
  async left(service: Service): Promise<void> {
    const { clock, signal } = this.#options.context;
    const key = keyOf(service);
    this.#served.delete(key);
    this.#conflicts.forget(service);
    const isBusy = (): boolean => this.#loop.isWanted(service) || this.#loop.written.includes(key);
    while (isBusy()) {
      signal.throwIfAborted();
      await clock.sleep(leavingPauseMs, signal);
    }
  }

  /** The Services of this process, as they are now. */
  #services(): readonly Service[] {
    const all = this.#options.observer.services();
    return all.filter((one) => {
      const served = this.#served.get(keyOf(one));
      return served !== undefined && isSameService(one, served);
    });
  }

  /** Reconciles a Service that still exists, with the newest nodes. Services that are planned with it get them as well. */
  async refresh(known: Service): Promise<Reconciled> {
    const service = this.#options.observer.service(known);
    if (service === undefined) return { status: undefined, writes: 0 };
    return this.#loop.submit({ service, nodes: this.#loop.nodes, action: "ensure" });
  }

  /** Adds a node that was missing from the last sync because it was about to leave. */
  returned(node: Node): void {
    const others = this.#loop.nodes.filter((one) => nodeName(one) !== nodeName(node));
    this.#loop.nodes = [...others, node];
  }

  /** Plans Services again because nodes are about to leave, or are not any more. */
  async refreshNodes(keys: ReadonlySet<ServiceKey>): Promise<void> {
    const services = this.#services().filter((service) => keys.has(keyOf(service)));
    const errors = await Promise.all(services.map((service) => this.#refreshed(service)));
    const error = errors.find((one) => one !== undefined);
    if (error !== undefined) throw error;
  }

  /**
   * Plans the Services of a pool again once `end` has resolved, undefined or with the error of its late instances, whose
   * outcome no pass has waited for; and after growing pauses until that succeeds. Never rejects.
   */
  async #followUp(poolId: string, end: Promise<unknown>): Promise<void> {
    const { context, observer } = this.#options;
    const { clock, signal, log } = context;
    let error = await end;
    // A read from before shows the members of then, and no write of this one may be left to outdate it.
    observer.outdate(loadBalancerOf(poolId));
    for (let delayMs = firstPauseMs; !signal.aborted; delayMs = Math.min(longestPauseMs, delayMs * 2)) {
      if (error !== undefined) {
        log.warn("Failed to update a backend pool; trying again", { pool: poolId, delayMs, error });
        await clock.sleep(delayMs, signal);
      }
      if (signal.aborted) return;
      error = await this.#refreshPool(poolId, error !== undefined);
      if (error === undefined) return;
    }
  }

  /**
   * Plans the first Service of the pool that is not refused, which plans the whole pool; with `all` each of them, so that
   * a member that fails shows at each. Resolves with an error if none succeeds, and undefined while all are refused: a
   * refused Service is planned again when it changes.
   */
  async #refreshPool(poolId: string, all: boolean): Promise<unknown> {
    const users = this.#usersOf(poolId);
    const isBasic = this.#options.config.sku === "basic";
    if (!all && !isBasic) {
      for (const service of users) {
        const error = await this.#refreshed(service);
        if (!isRefusal(error)) return error;
      }
      return undefined;
    }
    const errors = await Promise.all(users.map((service) => this.#refreshed(service)));
    // Basic load balancers have a pool each, and a Service may be on any.
    return !isBasic && errors.includes(undefined) ? undefined : firstFailure(errors);
  }

  /** Services that may use a pool, as they are now. With several load balancers each plan is about all pools. */
  #usersOf(poolId: string): readonly Service[] {
    const { observer, config } = this.#options;
    const present = this.#services().filter((service) => observer.service(service) !== undefined);
    if (config.loadBalancers.length > 0) return present;
    const isInternal = isInternalName(lastSegment(loadBalancerOf(poolId)));
    const family = isIPv6Name(poolId) ? "IPv6" : "IPv4";
    return present.filter((service) => {
      const { internal, families } = readSubject(service, config).subject;
      return internal === isInternal && families.includes(family);
    });
  }

  /** Plans Services; resolves with the first error. A refused Service is not an error: it is planned when it changes. */
  async #refreshAll(services: readonly Service[]): Promise<unknown> {
    return firstFailure(await Promise.all(services.map((service) => this.#refreshed(service))));
  }

  /** Plans Services again whose removals are held. */
  #recheck(keys: ReadonlySet<string>): void {
    this.#replan(this.#services().filter((service) => keys.has(keyOf(service))));
  }

  /** Plans Services again, without waiting. Failures are left to the callers that wait for the same Services. */
  #replan(services: readonly Service[]): void {
    for (const service of services) void this.#planned(service);
  }

  /** Plans a Service; resolves with the error, and records it as an event unless another caller waits for the Service. */
  async #refreshed(service: Service): Promise<unknown> {
    const { context, observer } = this.#options;
    const isShown = this.#loop.isWanted(service);
    const error = await this.#planned(service);
    // What is refused has shown since its last sync. After the end there is nothing to look at any more.
    if (isShown || error === undefined || isRefusal(error) || context.signal.aborted) return error;
    const current = observer.service(service);
    const message = `Error updating load balancer: ${recurringMessageOf(error)}`;
    if (current !== undefined) context.events.event(current, "Warning", "UpdateLoadBalancerFailed", message);
    return error;
  }

  /** Plans a Service with the nodes of the last sync; resolves with the error. */
  async #planned(service: Service): Promise<unknown> {
    try {
      await this.#options.activity.track(service, this.refresh(service));
      return undefined;
    } catch (error) {
      return error;
    }
  }
}

/** The first error that is not a refusal for the Service's own settings. */
const firstFailure = (errors: readonly unknown[]): unknown =>
  errors.find((error) => error !== undefined && !isRefusal(error));
