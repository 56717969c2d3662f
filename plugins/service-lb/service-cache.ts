import type { Service } from "cloud-controller-host/sdk";

import type { NodeMembers } from "./node-set.ts";

/** What is remembered of a Service until its load balancer is gone. Nothing of it outlives the generation. */
export interface CachedService {
  /** As it was when it was last synced: what node syncs hand to the cloud, and what is cleaned up once it vanished. */
  readonly service: Service;
  /** The nodes that the cloud last took for it; undefined until an ensure or an update has succeeded. */
  readonly synced?: NodeMembers;
}

/** upstream: `serviceCache` and `lastSyncedNodes` in one, so that the second is dropped with the first. */
export class ServiceCache {
  readonly #entries = new Map<string, CachedService>();

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): CachedService | undefined {
    return this.#entries.get(key);
  }

  keys(): readonly string[] {
    return [...this.#entries.keys()];
  }

  /** Keeps what is known of the synced nodes, unless the Service is another one under the same name. */
  see(key: string, service: Service): void {
    const before = this.#entries.get(key);
    const same = before?.service.metadata?.uid === service.metadata?.uid;
    this.#entries.set(key, { ...(same ? before : undefined), service });
  }

  /** To be called only after the cloud has taken the nodes. */
  nodesSynced(key: string, synced: NodeMembers): void {
    const before = this.#entries.get(key);
    if (before !== undefined) this.#entries.set(key, { ...before, synced });
  }

  drop(key: string): void {
    this.#entries.delete(key);
  }
}
