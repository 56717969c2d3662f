import { keyOf, type LoadBalancerStatus, type Service } from "cloud-controller-host/sdk";

import { KeyedBatcher, type Outcome } from "../arm/keyed-batcher.ts";
import { Batch, type BatchOptions, blamedFor, type Reconciled } from "./batch.ts";
import type { ServiceIntent } from "./model.ts";
import { plan } from "./plan.ts";

/** All load balancers share public IPs, a security group and the choice between them: one batch at a time. */
const cluster = "cluster";

/** Brings Services to their desired state, those that come at about the same time together. */
export class Reconciler {
  readonly #options: BatchOptions;
  readonly #batcher: KeyedBatcher<ServiceIntent, Reconciled>;
  readonly #looks: KeyedBatcher<Service, LoadBalancerStatus | undefined>;

  constructor(options: BatchOptions) {
    this.#options = options;
    const { clock, signal } = options.context;
    this.#batcher = new KeyedBatcher({
      clock,
      signal,
      apply: (_key, changes) => new Batch(options, changes).run(),
      sourceOf: ({ service }) => keyOf(service),
      suspects: blamedFor,
    });
    this.#looks = new KeyedBatcher({
      clock,
      signal,
      apply: (_key, services) => this.#lookAt(services),
      sourceOf: keyOf,
    });
  }

  reconcile(intent: ServiceIntent, signal?: AbortSignal): Promise<Reconciled> {
    return this.#batcher.submit(cluster, intent, signal);
  }

  /** The status of what Azure has of the Service, or undefined when it has nothing. Writes nothing. */
  look(service: Service): Promise<LoadBalancerStatus | undefined> {
    return this.#looks.submit(cluster, service);
  }

  /** What a deletion would write tells whether there is anything. */
  async #lookAt(services: readonly Service[]): Promise<readonly Outcome<LoadBalancerStatus | undefined>[]> {
    const { observer, config } = this.#options;
    const intents = services.map((service): ServiceIntent => ({ service, action: "delete", nodes: [] }));
    const { observed } = await observer.observe(intents);
    const { stages } = plan(intents, observed, config);
    const found = new Set(stages.flatMap(({ writes }) => writes.flatMap((write) => write.services)));
    return services.map((service) => {
      const value = found.has(keyOf(service)) ? (service.status?.loadBalancer ?? {}) : undefined;
      return { ok: true, value };
    });
  }
}
