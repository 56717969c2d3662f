import type { Clock, Service } from "cloud-controller-host/sdk";

import type { PlannerConfig } from "../model/planner-config.ts";
import { isShared } from "../plan/security-group/holders.ts";
import type { Observer } from "./observe.ts";

/** Reads of a process that has just started, and of a Service that has just been created, are not out of date. */
const freshMs = 60_000;

export interface TakeoverOptions {
  readonly context: { readonly clock: Clock };
  readonly config: PlannerConfig;
  readonly observer: Pick<Observer, "forget" | "services">;
}

/**
 * Services that come from another deployment. It may have removed what it had for them, which the caches of this process
 * still show: nothing would be written, and the Service would have no load balancer.
 */
export class Takeovers {
  readonly #options: TakeoverOptions;
  readonly #startedMs: number;

  constructor(options: TakeoverOptions) {
    this.#options = options;
    this.#startedMs = options.context.clock.monotonic();
  }

  /** Called with a Service that this process has not served so far, or not since it left. */
  arrived({ metadata: { creationTimestamp = "" } = {} }: Service): void {
    const { context, config, observer } = this.#options;
    const { clock } = context;
    const isOld = clock.now() - Date.parse(creationTimestamp) >= freshMs;
    if (!isOld || clock.monotonic() - this.#startedMs < freshMs) return;
    if (isShared({ config, observed: { services: observer.services() } })) observer.forget();
  }
}
