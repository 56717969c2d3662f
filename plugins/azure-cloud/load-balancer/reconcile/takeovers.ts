import { isDeepStrictEqual } from "node:util";

import { type CloudContext, type InformerHandler, keyOf, type Service } from "cloud-controller-host/sdk";

import type { ServiceIntent, ServiceKey } from "../model/model.ts";
import { isShard, type PlannerConfig } from "../model/planner-config.ts";
import type { GuardedRounds } from "../removals/guarded-round.ts";
import { hasMarkOfAnother, hasNeighbors, isOfAnother, isSameService } from "../service/identity.ts";
import type { Observer } from "./observe/observe.ts";

/** Reads of a process that has just begun to serve are not out of date. */
const freshMs = 60_000;
/** No other deployment has had time to serve a Service that was created so short a time ago. */
const newMs = 10_000;

const uidOf = ({ metadata }: Service): string => metadata?.uid ?? "";

export interface TakeoverOptions {
  readonly context: Pick<CloudContext, "clock" | "shards">;
  readonly config: PlannerConfig;
  readonly observer: Pick<Observer, "forget" | "services">;
  readonly rounds: Pick<GuardedRounds, "settled">;
}

/**
 * Services that come from another deployment. It may have removed what it had for them, which the caches of this process
 * still show: nothing would be written, and the Service would have no load balancer. Or they lack what it has created: of
 * a Service that is deleted here, that would be left. Whatever is removed of it as it comes, its change of hands explains.
 */
export class Takeovers {
  readonly #options: TakeoverOptions;
  /** When the first Service came: the process may have stood by for long. */
  #beganMs: number | undefined;
  /** The Services of that moment that have not come since. */
  readonly #first = new Map<ServiceKey, Service>();
  /** When this process first saw Services that were created after that, by UID: the clock of the API server may differ. */
  readonly #createdMs = new Map<string, number>();
  readonly handler: InformerHandler<Service> = {
    added: (service) => {
      if (this.#beganMs !== undefined) this.#createdMs.set(uidOf(service), this.#options.context.clock.monotonic());
    },
    updated: (before, after) => {
      // It has what that deployment gave it, which may be on a load balancer that this one does not use.
      if (this.#isElsewhere(before) && !this.#isElsewhere(after))
        this.#options.rounds.settled({ action: "ensure", service: before });
    },
    deleted: (service) => void this.#createdMs.delete(uidOf(service)),
  };
  /** A deletion that fails is tried again with the same object. */
  readonly #seen = new WeakSet<Service>();

  constructor(options: TakeoverOptions) {
    this.#options = options;
  }

  /** Called with a Service that this process has not served so far, or not since it left or its deletion began. */
  arrived({ service, action }: Pick<ServiceIntent, "service" | "action">): void {
    const { context, config, observer } = this.#options;
    const isFirst = this.#takeFirst(service);
    // Few Services of a start are to be deleted, and those read again.
    const isFresh = action === "ensure" && (isFirst || this.#isNew(service));
    if (isFresh || this.#seen.has(service)) return;
    this.#seen.add(service);
    if (hasNeighbors({ config, observed: { services: observer.services() } }, context.shards)) observer.forget();
  }

  /**
   * True once for each Service that this deployment had as the first one came: all come then. What another one had may
   * have changed since.
   */
  #takeFirst(service: Service): boolean {
    const { context, observer } = this.#options;
    const nowMs = context.clock.monotonic();
    if (this.#beganMs === undefined) for (const one of observer.services()) this.#first.set(keyOf(one), one);
    this.#beganMs ??= nowMs;
    const before = this.#first.get(keyOf(service));
    this.#first.delete(keyOf(service));
    if (nowMs - this.#beganMs >= freshMs) this.#first.clear();
    else if (before !== undefined) return this.#wasOwn(before, service);
    return false;
  }

  #isNew(service: Service): boolean {
    const createdMs = this.#createdMs.get(uidOf(service));
    return createdMs !== undefined && this.#options.context.clock.monotonic() - createdMs < newMs;
  }

  #wasOwn(before: Service, now: Service): boolean {
    const hasMoved = !isDeepStrictEqual(before.metadata?.labels, now.metadata?.labels);
    return isSameService(before, now) && !hasMoved && !hasMarkOfAnother(before, this.#options.context.shards);
  }

  /** Services that a shard is the first one to mark may have been served by a deployment that marks none. */
  #isElsewhere(service: Service): boolean {
    const { context, config } = this.#options;
    return isShard(config) ? isOfAnother(service, context.shards) : hasMarkOfAnother(service, context.shards);
  }
}
