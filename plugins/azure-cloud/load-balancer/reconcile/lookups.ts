import {
  type CloudContext,
  isBeingDeleted,
  keyOf,
  type LoadBalancerStatus,
  type Service,
  type UnrequestedRemovals,
} from "cloud-controller-host/sdk";

import { KeyedBatcher, type Outcome } from "../../arm/writes/keyed-batcher.ts";
import type { ResourceChange } from "../../removal-guard/guard.ts";
import type { ServiceIntent, ServiceKey } from "../model/model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { observedAddresses } from "../plan/draft/ingress.ts";
import { plan } from "../plan/plan.ts";
import type { GuardedRounds } from "../removals/guarded-round.ts";
import { isOfAnother } from "../service/identity.ts";
import type { Observer } from "./observe/observe.ts";
import { blockedBy } from "./observe/unreadable.ts";

export interface LookupsOptions {
  readonly config: PlannerConfig;
  readonly context: Pick<CloudContext, "clock" | "signal" | "shards">;
  readonly observer: Observer;
  readonly rounds: GuardedRounds;
  /** Services of writes in flight. */
  readonly written: () => readonly ServiceKey[];
}

/** Answers questions about Services from plans that are not carried out. Writes nothing. */
export class Lookups {
  readonly #options: LookupsOptions;
  readonly #looks: KeyedBatcher<Service, LoadBalancerStatus | undefined>;

  constructor(options: LookupsOptions) {
    this.#options = options;
    const { clock, signal } = options.context;
    this.#looks = new KeyedBatcher({
      clock,
      signal,
      apply: (_key, services) => this.#lookAt(services),
      sourceOf: keyOf,
    });
  }

  /** Removals from the present Services that this config would cause, and those of `others`; undefined if there are none. */
  async unrequestedRemovals(others: readonly ResourceChange[]): Promise<UnrequestedRemovals | undefined> {
    const { observer, config, rounds, context } = this.#options;
    const isOwn = (one: Service): boolean => !isBeingDeleted(one) && !isOfAnother(one, context.shards);
    const services = observer.services().filter(isOwn);
    const nodes = observer.nodes();
    const intents = services.map((service): ServiceIntent => ({ service, nodes, action: "ensure" }));
    const { observed } = await observer.observe(intents);
    return rounds.unrequested(plan(intents, observed, config), { intents, observed }, others);
  }

  /** The status of what Azure has of the Service, or undefined when it has nothing. */
  look(service: Service): Promise<LoadBalancerStatus | undefined> {
    return this.#looks.submit("cluster", service);
  }

  /** A Service has something in Azure if its deletion would write, or if a write for it is in flight. */
  async #lookAt(services: readonly Service[]): Promise<readonly Outcome<LoadBalancerStatus | undefined>[]> {
    const { observer, config } = this.#options;
    const intents = services.map((service): ServiceIntent => ({ service, action: "delete", nodes: [] }));
    // A write that ends during the observation may be missing from it.
    const written = this.#options.written();
    const observation = await observer.observe(intents);
    const { observed } = observation;
    const { stages, results: deletions } = plan(intents, observed, config);
    const planned = stages.flatMap((stage) => stage.writes).flatMap((write) => write.services);
    // What may not be deleted is there: its deletion fails with the reason.
    const refused = [...deletions].flatMap(([key, { problem }]) => (problem === undefined ? [] : [key]));
    const found = new Set([...planned, ...written, ...refused]);
    const kept = intents.filter(({ service }) => found.has(keyOf(service)));
    const { results } = plan(
      kept.map((intent) => ({ ...intent, action: "ensure" as const })),
      observed,
      config,
    );
    return intents.map((intent) => {
      const { service } = intent;
      const error = blockedBy(intent, observation, config);
      if (error !== undefined && !written.includes(keyOf(service))) return { ok: false, error };
      if (!found.has(keyOf(service))) return { ok: true, value: undefined };
      const ingress = observedAddresses(observed, service).map((ip) => ({ ip }));
      return { ok: true, value: results.get(keyOf(service))?.status ?? (ingress.length > 0 ? { ingress } : {}) };
    });
  }
}
