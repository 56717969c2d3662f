import type { LoadBalancerStatus, Service } from "cloud-controller-host/sdk";

import type { NodeMembers } from "./nodes.ts";

/** State of a Service, kept until its load balancer is deleted or the generation ends. */
export interface CachedService {
  /** As of its last sync. Node syncs pass it to the cloud, and it is cleaned up when it was deleted without finalizer. */
  readonly service: Service;
  /**
   * Nodes of the last successful ensure or update; undefined before the first. "changed" if nodes changed during the call:
   * the cloud may have left out one that was gone for a moment, so the next pass updates the load balancer in any case.
   */
  readonly synced?: NodeMembers | "changed";
  /** Status of the load balancer that the cloud had of it as a cleanup began that has not ended. */
  readonly deleted?: LoadBalancerStatus;
}

/** upstream: `serviceCache` and `lastSyncedNodes` in one, so that the second is dropped with the first. */
export class ServiceCache {
  readonly #entries = new Map<string, CachedService>();
  /** Services that may be another process's, by key: their UIDs, and since when by the monotonic clock. */
  readonly #unclear = new Map<string, { readonly uid: string | undefined; readonly sinceMs: number }>();

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): CachedService | undefined {
    return this.#entries.get(key);
  }

  keys(): readonly string[] {
    return [...this.#entries.keys()];
  }

  /** Stores the Service; its synced nodes are kept unless it was recreated under the same name. */
  see(key: string, service: Service): void {
    const before = this.#entries.get(key);
    const same = before?.service.metadata?.uid === service.metadata?.uid;
    this.#entries.set(key, { ...(same ? before : undefined), service });
  }

  /** For how many milliseconds it has not been clear which process serves the Service; 0 the first time. */
  unclearFor(key: string, { metadata }: Service, nowMs: number): number {
    const before = this.#unclear.get(key);
    if (before !== undefined && before.uid === metadata?.uid) return nowMs - before.sinceMs;
    this.#unclear.set(key, { uid: metadata?.uid, sinceMs: nowMs });
    return 0;
  }

  /** To be called only after the cloud accepted the nodes. */
  nodesSynced(key: string, synced: NodeMembers | "changed"): void {
    const before = this.#entries.get(key);
    if (before !== undefined) this.#entries.set(key, { service: before.service, synced });
  }

  deletes(key: string, deleted: LoadBalancerStatus): void {
    const before = this.#entries.get(key);
    if (before !== undefined) this.#entries.set(key, { ...before, deleted });
  }

  drop(key: string): void {
    this.#entries.delete(key);
    this.#unclear.delete(key);
  }
}
