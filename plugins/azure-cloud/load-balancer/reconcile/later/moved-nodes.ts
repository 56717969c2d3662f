import { type CloudContext, keyOf, type Service } from "cloud-controller-host/sdk";

import type { ServiceKey } from "../../model/model.ts";
import type { Write } from "../../model/plan-model.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { readSubject } from "../../service/subject.ts";
import { loadBalancerOf } from "../held-resources.ts";

const firstPauseMs = 5_000;
const longestPauseMs = 300_000;
/** Of a plan that takes longer, a Service waits for a write of minutes. */
const slowMs = 30_000;
const slow = Symbol("slow");

export interface MovedNodesOptions {
  readonly context: Pick<CloudContext, "clock" | "signal" | "log">;
  readonly config: PlannerConfig;
  readonly services: () => readonly Service[];
  /** Makes the next plan read the resource again. */
  readonly outdate: (id: string) => void;
  /** Plans Services; resolves with the error of one that fails for a reason other than its own settings. */
  readonly refresh: (services: readonly Service[]) => Promise<unknown>;
}

/**
 * Services without floating IP: their security rules name the nodes behind their load balancer, which a plan of other
 * Services may move to another one. They are planned again until that succeeds, all together and by one loop.
 */
export class MovedNodes {
  readonly #options: MovedNodesOptions;
  readonly #waiting = new Set<ServiceKey>();
  #isRunning = false;

  constructor(options: MovedNodesOptions) {
    this.#options = options;
  }

  /** Called once a write has changed the nodes behind a load balancer. Its own Services have been planned with them. */
  moved({ id, services }: Pick<Write, "id" | "services">): void {
    const { context, config, outdate, services: present } = this.#options;
    // The reply to a write may come after the generation has ended: the next one plans all Services.
    if (context.signal.aborted) return;
    const others = present()
      .filter((service) => !readSubject(service, config).subject.floatingIP)
      .map(keyOf)
      .filter((key) => !services.includes(key));
    if (others.length === 0) return;
    // A read from before shows the members of then.
    outdate(loadBalancerOf(id));
    this.#plan(others);
  }

  #plan(keys: Iterable<ServiceKey>): void {
    for (const key of keys) this.#waiting.add(key);
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    const { clock, signal, log } = this.#options.context;
    this.#isRunning = true;
    let pauseMs = firstPauseMs;
    for (let plans = 1; this.#waiting.size > 0; plans += 1) {
      const keys = new Set(this.#waiting);
      this.#waiting.clear();
      const error = await this.#errorOf(keys);
      if (signal.aborted) return;
      if (error !== undefined) {
        for (const key of keys) this.#waiting.add(key);
        log.warn("Failed to update security rules after nodes moved to another load balancer; trying again", {
          delayMs: pauseMs,
          error,
        });
      } else if (plans === 1 || this.#waiting.size === 0) continue;
      // Also where each plan moves nodes again, as another writer may move them back.
      await clock.sleep(pauseMs, signal);
      if (signal.aborted) return;
      pauseMs = Math.min(longestPauseMs, pauseMs * 2);
    }
    this.#isRunning = false;
  }

  /** Of a plan. A slow one delays no other: it counts as successful, and its Services are planned again once it fails. */
  async #errorOf(keys: ReadonlySet<ServiceKey>): Promise<unknown> {
    const { context, services, refresh } = this.#options;
    const { clock, signal } = context;
    const planned = refresh(services().filter((service) => keys.has(keyOf(service))));
    const ended = new AbortController();
    const waited = clock.sleep(slowMs, AbortSignal.any([signal, ended.signal])).then(() => slow);
    const error = await Promise.race([planned, waited]);
    ended.abort();
    if (error !== slow) return error;
    void planned.then((late) => (late === undefined || signal.aborted ? undefined : this.#plan(keys)));
    return undefined;
  }
}
