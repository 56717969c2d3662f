import {
  type Clock,
  CodedError,
  ImplementedElsewhereError,
  keyOf,
  type LoadBalancers,
  type Logger,
  retryAfterOf,
  type Service,
} from "cloud-controller-host/sdk";

import type { Backlog } from "./backlog.ts";
import { isInterrupted } from "./errors.ts";
import type { ServiceEvents } from "./events.ts";
import type { KeyedMutex } from "./keyed-mutex.ts";
import type { ServiceMetrics } from "./metrics.ts";
import { type NodeSet, sameMembers } from "./nodes.ts";
import type { Places } from "./places.ts";
import type { ServiceSelection } from "./predicates.ts";
import type { ServiceCache } from "./service-cache.ts";

export interface NodeSyncParts {
  readonly selection: ServiceSelection;
  readonly balancers: LoadBalancers;
  readonly clusterName: string;
  readonly cache: ServiceCache;
  readonly nodes: () => NodeSet;
  /** Counts changes that may change the node set. */
  readonly nodeChanges: () => number;
  readonly backlog: Backlog;
  readonly mutex: KeyedMutex;
  readonly events: ServiceEvents;
  readonly metrics: ServiceMetrics;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Starts an update of every load balancer whose nodes have changed: all at once where the cloud merges updates, else as
 * many as there are places. Resolves once all have started; `ended` resolves when all have ended, and never rejects:
 * Services that fail are put on the service queue. A Service with a full sync pending is left to it, and one whose sync
 * is in flight is checked again afterwards.
 */
export async function syncNodes(
  parts: NodeSyncParts,
  places: Places,
  signal: AbortSignal,
): Promise<{ readonly ended: Promise<void> }> {
  const begun = parts.clock.monotonic();
  const merges = parts.balancers.updateLoadBalancers !== undefined;
  const updates: Promise<void>[] = [];
  // A sync in flight uses the nodes of a moment ago: its key must be checked again when it is released.
  for (const key of parts.cache.keys().filter((one) => parts.mutex.has(one) || isBehind(parts, one))) {
    const place = merges ? nowhere : await places.enter(signal);
    if (place === undefined || signal.aborted) break;
    updates.push(updateLocked(parts, key, place, signal));
  }
  const ended = Promise.all(updates).then(() =>
    parts.metrics.nodeSyncSeconds.observe((parts.clock.monotonic() - begun) / 1000),
  );
  return { ended };
}

const nowhere: Disposable = { [Symbol.dispose]: () => undefined };

async function updateLocked(parts: NodeSyncParts, key: string, place: Disposable, signal: AbortSignal): Promise<void> {
  using _ = place;
  await parts.mutex.run(key, "node", () => updateHosts(parts, key, signal));
}

function isBehind({ selection, cache, backlog, nodes }: NodeSyncParts, key: string): boolean {
  const entry = cache.get(key);
  if (entry === undefined || !selection.wantsLoadBalancer(entry.service) || backlog.isPending(key)) return false;
  return entry.synced === "changed" || !sameMembers(entry.synced ?? none, nodes().members);
}

const none: ReadonlyMap<string, string> = new Map();

async function updateHosts(parts: NodeSyncParts, key: string, signal: AbortSignal): Promise<void> {
  const { cache, backlog, metrics, clock } = parts;
  // The pass may have started long ago: checked again now, with the current nodes.
  const service = isBehind(parts, key) ? cache.get(key)?.service : undefined;
  if (service === undefined) return;
  const set = parts.nodes();
  const changes = parts.nodeChanges();
  const begun = clock.monotonic();
  metrics.updates.inc();
  try {
    await update(parts, service, set, signal);
    cache.nodesSynced(key, parts.nodeChanges() === changes ? set.members : "changed");
  } catch (error) {
    metrics.nodeSyncErrors.inc();
    if (!isInterrupted(error, signal)) {
      parts.events.updateFailed(service, set.nodes, error);
      parts.log.warn("Failed to update the nodes of a load balancer; syncing it as a whole", { service: key, error });
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
    await call(parts, service, set);
  } catch (error) {
    if (error instanceof ImplementedElsewhereError) return;
    const exists = await balancers.getLoadBalancer(clusterName, service, { signal }).then(
      (status) => status !== undefined,
      (reason: unknown) => {
        log.warn("Failed to check if the load balancer exists", { service: keyOf(service), error: reason });
        return true;
      },
    );
    if (exists) throw error;
    return;
  }
  if (set.nodes.length === 0) events.noNodes(service);
  else events.normal(service, "UpdatedLoadBalancer");
}

/** A call for each Service, so that a slow one delays no other: a cloud that merges updates does so with calls in flight. */
async function call({ balancers, clusterName }: NodeSyncParts, service: Service, { nodes }: NodeSet): Promise<void> {
  if (balancers.updateLoadBalancers === undefined) return balancers.updateLoadBalancer(clusterName, service, nodes);
  const [result] = await balancers.updateLoadBalancers(clusterName, [service], nodes);
  if (result?.status !== "fulfilled")
    throw result?.reason ?? new CodedError("NoResult", "the cloud returned no result for this Service");
}
