import type { CloudContext } from "cloud-controller-host/sdk";

import { isUnended } from "../../../arm/errors.ts";
import { lastSegment, sameName } from "../../../arm/resource-id.ts";
import type { Observed } from "../../model/model.ts";
import { isServiceFrontend } from "../../model/names.ts";
import { servicesIn } from "../../plan/public-ip/owners.ts";
import type { Flight } from "../in-flight.ts";

/** Pauses before the resources are read again: ARM's operations take seconds to minutes. */
const firstPauseMs = 60_000;
const longestPauseMs = 300_000;

export interface UnendedOperationsOptions {
  readonly context: Pick<CloudContext, "clock" | "signal" | "log" | "planning">;
  /** Makes the next plan read the resource again. */
  readonly outdate: (id: string) => void;
  /** Plans all Services; resolves with the error of one that fails for a reason other than its own settings. */
  readonly refresh: () => Promise<unknown>;
}

/**
 * Operations on the resources of Services that nothing here waits for: an earlier process or another writer has begun them,
 * the reply to the write was lost, or they take too long. While one runs, its resource looks as desired, but it may still
 * fail: the resource is then `Failed`, or gone, and no Service is synced because of that. All Services are planned again
 * until every operation has ended.
 */
export class UnendedOperations {
  readonly #options: UnendedOperationsOptions;
  /** All that were seen since the last refresh began: an observation does not read what its Services do not use. */
  readonly #ids = new Set<string>();
  #isWaiting = false;

  constructor(options: UnendedOperationsOptions) {
    this.#options = options;
  }

  /** Called with each observation. `flights`: the writes of this process since it began. */
  seen(observed: Observed, flights: readonly Flight[]): void {
    if (this.#options.context.planning !== undefined) return;
    const own = flights.flatMap(({ holds }) => holds);
    for (const id of unendedIn(observed)) if (!own.some((held) => sameName(held, id))) this.#ids.add(id);
    if (this.#ids.size > 0 && !this.#isWaiting) void this.#wait();
  }

  /**
   * A write of this process had no reply, or its operation has not ended in time. It may be carried out later, or be so
   * already while reads lag behind.
   */
  lost(id: string): void {
    if (this.#options.context.planning !== undefined) return;
    this.#ids.add(id);
    if (!this.#isWaiting) void this.#wait();
  }

  async #wait(): Promise<void> {
    const { context, outdate, refresh } = this.#options;
    const { clock, signal, log } = context;
    this.#isWaiting = true;
    for (let pauseMs = firstPauseMs; this.#ids.size > 0;) {
      await clock.sleep(pauseMs, signal);
      if (signal.aborted) return;
      const followed = [...this.#ids];
      this.#ids.clear();
      for (const id of followed) outdate(id);
      const error = await refresh();
      if (signal.aborted) return;
      pauseMs = Math.min(longestPauseMs, pauseMs * 2);
      if (error === undefined) continue;
      for (const id of followed) this.#ids.add(id);
      log.warn("Failed to bring Services to their desired state after an operation in Azure; trying again", {
        delayMs: pauseMs,
        error,
      });
    }
    this.#isWaiting = false;
  }
}

/** Ids of the resources of Services whose last operation has not ended. These are rare, so owners are looked up last. */
function unendedIn({ loadBalancers, publicIPs, securityGroup, privateLinkServices }: Observed): readonly string[] {
  const ofServices = [
    ...loadBalancers
      .filter(isUnended)
      .filter(({ frontendIPConfigurations: all = [] }) => all.some(({ name }) => isServiceFrontend(name))),
    ...publicIPs.filter(isUnended).filter(({ tags }) => servicesIn(tags).length > 0),
    ...(securityGroup === undefined ? [] : [securityGroup].filter(isUnended)),
    ...privateLinkServices
      .filter(isUnended)
      .filter(({ loadBalancerFrontendIpConfigurations: all = [] }) =>
        all.some(({ id = "" }) => isServiceFrontend(lastSegment(id))),
      ),
  ];
  return ofServices.flatMap(({ id }) => id ?? []);
}
