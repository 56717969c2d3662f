import {
  type Clock,
  forEachConcurrently,
  ImplementedElsewhereError,
  type LoadBalancers,
  type Logger,
  type Service,
} from "cloud-controller-host/sdk";

import type { Backlog } from "./backlog.ts";
import { isInterrupted, retryAfterOf } from "./errors.ts";
import type { ServiceEvents } from "./events.ts";
import type { KeyedMutex } from "./keyed-mutex.ts";
import type { ServiceMetrics } from "./metrics.ts";
import { type NodeSet, sameMembers } from "./nodes.ts";
import { wantsLoadBalancer } from "./predicates.ts";
import type { ServiceCache } from "./service-cache.ts";

export interface NodeSyncParts {
  readonly balancers: LoadBalancers;
  readonly clusterName: string;
  readonly cache: ServiceCache;
  readonly nodes: () => NodeSet;
  readonly backlog: Backlog;
  readonly mutex: KeyedMutex;
  readonly events: ServiceEvents;
  readonly metrics: ServiceMetrics;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Gives every load balancer whose nodes have changed the nodes of now, `workers` at a time. A Service that the
 * service queue owes a full sync is left to it, and one in its hand is looked at again when it is let go. Never
 * rejects: what fails is put on the service queue.
 */
export async function syncNodes(parts: NodeSyncParts, workers: number, signal: AbortSignal): Promise<void> {
  const begun = parts.clock.monotonic();
  // A key in hand is taking the nodes of a moment ago, and must be looked at when it is let go.
  const changed = parts.cache.keys().filter((key) => parts.mutex.has(key) || isBehind(parts, key));
  await forEachConcurrently({ workers, signal }, changed, async (key) => {
    await parts.mutex.run(key, "node", () => updateHosts(parts, key, signal));
  });
  parts.metrics.nodeSyncSeconds.observe((parts.clock.monotonic() - begun) / 1000);
}

function isBehind({ cache, backlog, nodes }: NodeSyncParts, key: string): boolean {
  const entry = cache.get(key);
  if (entry === undefined || !wantsLoadBalancer(entry.service) || backlog.isPending(key)) return false;
  return !sameMembers(entry.synced ?? none, nodes().members);
}

const none: ReadonlyMap<string, string> = new Map();

async function updateHosts(parts: NodeSyncParts, key: string, signal: AbortSignal): Promise<void> {
  const { cache, backlog, metrics, clock } = parts;
  // The pass may have been long under way: asked again now, with the nodes of now.
  const service = isBehind(parts, key) ? cache.get(key)?.service : undefined;
  if (service === undefined) return;
  const set = parts.nodes();
  const begun = clock.monotonic();
  metrics.updates.inc();
  try {
    await update(parts, service, set, signal);
    cache.nodesSynced(key, set.members);
  } catch (error) {
    metrics.nodeSyncErrors.inc();
    if (!isInterrupted(error, signal)) {
      parts.events.updateFailed(service, set.nodes, error);
      parts.log.warn("the load balancer did not take its new nodes, ensuring it as a whole", { service: key, error });
    }
    const wait = retryAfterOf(error);
    if (wait === undefined) backlog.add(key);
    else backlog.addAfter(key, wait);
  } finally {
    metrics.updateSeconds.observe((clock.monotonic() - begun) / 1000);
  }
}

/** Rejects with the cloud's own error, unless the cloud has no such load balancer or leaves it to others. */
async function update(parts: NodeSyncParts, service: Service, set: NodeSet, signal: AbortSignal): Promise<void> {
  const { balancers, clusterName, events, log } = parts;
  try {
    await balancers.updateLoadBalancer(clusterName, service, set.nodes);
  } catch (error) {
    if (error instanceof ImplementedElsewhereError) return;
    const exists = await balancers.getLoadBalancer(clusterName, service, { signal }).then(
      (status) => status !== undefined,
      (reason: unknown) => {
        log.warn("failed to check if the load balancer exists", { error: reason });
        return true;
      },
    );
    if (exists) throw error;
    return;
  }
  if (set.nodes.length === 0) events.noNodes(service);
  else events.normal(service, "UpdatedLoadBalancer");
}
