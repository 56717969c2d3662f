import type { CloudContext, Service } from "cloud-controller-host/sdk";

import type { ServiceIntent } from "../model/model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { hasNeighbors } from "../service/identity.ts";
import type { Observer } from "./observe.ts";

/** Reads of a process that has just begun to serve are not out of date. */
const freshMs = 60_000;
/** No other deployment has had time to serve a younger Service. */
const newMs = 10_000;

export interface TakeoverOptions {
  readonly context: Pick<CloudContext, "clock" | "shards">;
  readonly config: PlannerConfig;
  readonly observer: Pick<Observer, "forget" | "services">;
}

/**
 * Services that come from another deployment. It may have removed what it had for them, which the caches of this process
 * still show: nothing would be written, and the Service would have no load balancer. Or they lack what it has created: of
 * a Service that is deleted here, that would be left.
 */
export class Takeovers {
  readonly #options: TakeoverOptions;
  /** When the first Service came: the process may have stood by for long. */
  #beganMs: number | undefined;
  /** A deletion that fails is tried again with the same object. */
  readonly #seen = new WeakSet<Service>();

  constructor(options: TakeoverOptions) {
    this.#options = options;
  }

  /** Called with a Service that this process has not served so far, or not since it left or its deletion began. */
  arrived({ service, action }: Pick<ServiceIntent, "service" | "action">): void {
    const { context, config, observer } = this.#options;
    const { clock } = context;
    const nowMs = clock.monotonic();
    this.#beganMs ??= nowMs;
    const ageMs = clock.now() - Date.parse(service.metadata?.creationTimestamp ?? "");
    // All Services of a process come at its start. Few of them are to be deleted, and those read again.
    const isBeginning = action === "ensure" && nowMs - this.#beganMs < freshMs;
    if (isBeginning || !(ageMs >= newMs) || this.#seen.has(service)) return;
    this.#seen.add(service);
    if (hasNeighbors({ config, observed: { services: observer.services() } }, context.shards)) observer.forget();
  }
}
