import {
  type CloudContext,
  type EndpointSlice,
  keyOf,
  kinds,
  recurringMessageOf,
  repeat,
  type Service,
} from "cloud-controller-host/sdk";

import { serviceOf } from "../../endpoint-slices.ts";
import type { Reconciled } from "./wanted.ts";

export interface LocalServicesOptions {
  readonly context: Pick<CloudContext, "clock" | "events" | "informers">;
  readonly intervalMs: number;
  /** The Service as it is now; undefined when it wants no load balancer any more. */
  readonly current: (service: Service) => Service | undefined;
  /** Plans the Service with the nodes of the latest sync of any Service. */
  readonly refresh: (service: Service) => Promise<Reconciled>;
}

const nodesOf = ({ endpoints }: EndpointSlice): string =>
  [...new Set(endpoints?.flatMap(({ nodeName }) => nodeName ?? []))].toSorted().join();

/**
 * With several load balancers, a Service with `externalTrafficPolicy: Local` has a pool of its own that holds only nodes
 * with endpoints. This follows the endpoints of such Services, all that changed in one interval together.
 * Source: upstream `azure_local_services.go`.
 */
export class LocalServices {
  readonly #options: LocalServicesOptions;
  /** The local Services whose load balancer exists, by key. */
  readonly #ensured = new Map<string, Service>();
  readonly #changed = new Set<string>();
  /** Those that changed in the last interval while their load balancer did not exist. */
  #early: ReadonlySet<string> = new Set();
  /** In flight, by key. */
  readonly #refreshing = new Map<string, Promise<void>>();

  constructor(options: LocalServicesOptions) {
    this.#options = options;
  }

  /** To be called after each successful ensure. The plan of the last one may be older than a change during it. */
  ensured(service: Service): void {
    const key = keyOf(service);
    if (service.spec?.externalTrafficPolicy !== "Local") return this.deleted(service);
    this.#ensured.set(key, service);
    if (this.#early.has(key)) this.#changed.add(key);
  }

  deleted(service: Service): void {
    this.#ensured.delete(keyOf(service));
    this.#changed.delete(keyOf(service));
  }

  /** Resolves once nothing is under way for the Service, which another process serves. */
  async left(service: Service): Promise<void> {
    this.deleted(service);
    await this.#refreshing.get(keyOf(service));
  }

  async run(signal: AbortSignal): Promise<void> {
    const { context, intervalMs } = this.#options;
    const note = (slice: EndpointSlice): void => void this.#changed.add(serviceOf(slice));
    const handler = context.informers.of(kinds.EndpointSlice).handle({
      added: note,
      deleted: note,
      updated: (before, after) => (nodesOf(before) === nodesOf(after) ? undefined : note(after)),
    });
    try {
      await repeat({ clock: context.clock, signal, periodMs: intervalMs }, async () => this.#refreshChanged());
    } finally {
      handler.remove();
      await Promise.all(this.#refreshing.values());
    }
  }

  /** Waits for none: one whose load balancer is being written for minutes delays no other. It has its turn afterwards. */
  #refreshChanged(): void {
    const changed = [...this.#changed].filter((key) => !this.#refreshing.has(key));
    this.#early = new Set(changed.filter((key) => !this.#ensured.has(key)));
    for (const key of changed) {
      this.#changed.delete(key);
      const refreshing = this.#refresh(key).finally(() => this.#refreshing.delete(key));
      this.#refreshing.set(key, refreshing);
    }
  }

  /** Never rejects; a Service that fails is tried again after the next interval. */
  async #refresh(key: string): Promise<void> {
    const known = this.#ensured.get(key);
    const service = known && this.#options.current(known);
    if (service === undefined) return;
    const { events } = this.#options.context;
    try {
      const { writes } = await this.#options.refresh(service);
      const message = "Load balancer backend pool updated";
      if (writes > 0) events.event(service, "Normal", "LoadBalancerBackendPoolUpdated", message);
    } catch (error) {
      this.#changed.add(key);
      events.event(service, "Warning", "LoadBalancerBackendPoolUpdateFailed", recurringMessageOf(error));
    }
  }
}
