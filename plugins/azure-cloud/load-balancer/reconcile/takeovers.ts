import type { Clock, Service } from "cloud-controller-host/sdk";

import type { PlannerConfig } from "../model/planner-config.ts";
import { isShared } from "../service/identity.ts";
import type { Observer } from "./observe.ts";

/** Reads of a process that has just begun to serve are not out of date. */
const freshMs = 60_000;
/** No other deployment has had time to serve a younger Service. */
const newMs = 10_000;

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
  /** When the first Service came: the process may have stood by for long. */
  #beganMs: number | undefined;

  constructor(options: TakeoverOptions) {
    this.#options = options;
  }

  /** Called with a Service that this process has not served so far, or not since it left. */
  arrived({ metadata: { creationTimestamp = "" } = {} }: Service): void {
    const { context, config, observer } = this.#options;
    const { clock } = context;
    const nowMs = clock.monotonic();
    this.#beganMs ??= nowMs;
    const isOld = clock.now() - Date.parse(creationTimestamp) >= newMs;
    if (!isOld || nowMs - this.#beganMs < freshMs) return;
    if (isShared({ config, observed: { services: observer.services() } })) observer.forget();
  }
}
