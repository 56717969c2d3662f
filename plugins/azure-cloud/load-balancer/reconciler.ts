import { keyOf, type LoadBalancerStatus, type Service } from "cloud-controller-host/sdk";

import { KeyedBatcher } from "../arm/keyed-batcher.ts";
import { Batch, type BatchOptions, blamedFor, type Reconciled } from "./batch.ts";
import type { ServiceIntent } from "./model.ts";
import { plan } from "./plan.ts";

/** All load balancers share public IPs, a security group and the choice between them: one batch at a time. */
const cluster = "cluster";

/** Brings Services to their desired state, those that come at about the same time together. */
export class Reconciler {
  readonly #options: BatchOptions;
  readonly #batcher: KeyedBatcher<ServiceIntent, Reconciled>;

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
  }

  reconcile(intent: ServiceIntent, signal?: AbortSignal): Promise<Reconciled> {
    return this.#batcher.submit(cluster, intent, signal);
  }

  /** The status of what Azure has of the Service, or undefined when it has nothing. Writes nothing. */
  async look(service: Service): Promise<LoadBalancerStatus | undefined> {
    const { observer, config } = this.#options;
    const key = keyOf(service);
    const remove: ServiceIntent = { service, action: "delete", nodes: [] };
    const keep: ServiceIntent = { service, action: "ensure", nodes: [] };
    const { observed } = await observer.observe([remove]);
    const { stages } = plan([remove], observed, config);
    if (!stages.some(({ writes }) => writes.some(({ services }) => services.includes(key)))) return undefined;
    return plan([keep], observed, config).results.get(key)?.status ?? {};
  }
}
