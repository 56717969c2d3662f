import {
  type Clock,
  CodedError,
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
 * Updates every load balancer whose nodes have changed: all at once where the cloud can, else `workers` at a time. A
 * Service with a full sync pending is left to it, and one whose sync is in flight is checked again afterwards. Never
 * rejects: Services that fail are put on the service queue.
 */
export async function syncNodes(parts: NodeSyncParts, workers: number, signal: AbortSignal): Promise<void> {
  const begun = parts.clock.monotonic();
  // A sync in flight uses the nodes of a moment ago: its key must be checked again when it is released.
  const changed = parts.cache.keys().filter((key) => parts.mutex.has(key) || isBehind(parts, key));
  const together = updateTogether(parts);
  const width = together === undefined ? workers : changed.length;
  const work = forEachConcurrently({ workers: width, signal }, changed, async (key) => {
    await parts.mutex.run(key, "node", () => updateHosts(parts, key, signal, together?.join));
  });
  together?.flush();
  await work;
  parts.metrics.nodeSyncSeconds.observe((parts.clock.monotonic() - begun) / 1000);
}

function isBehind({ cache, backlog, nodes }: NodeSyncParts, key: string): boolean {
  const entry = cache.get(key);
  if (entry === undefined || !wantsLoadBalancer(entry.service) || backlog.isPending(key)) return false;
  return entry.synced === "changed" || !sameMembers(entry.synced ?? none, nodes().members);
}

const none: ReadonlyMap<string, string> = new Map();

type Update = (service: Service, set: NodeSet) => Promise<void>;

/**
 * One call of the cloud for all Services of a pass: `join` adds a Service, `flush` starts it. Undefined where the cloud
 * updates one load balancer at a time.
 */
function updateTogether({ balancers, clusterName, nodes }: NodeSyncParts) {
  const updateMany = balancers.updateLoadBalancers?.bind(balancers);
  if (updateMany === undefined) return undefined;
  const joined: { readonly service: Service; readonly done: PromiseWithResolvers<void> }[] = [];
  const join: Update = (service) => {
    const done = Promise.withResolvers<void>();
    joined.push({ service, done });
    return done.promise;
  };
  const run = async (): Promise<void> => {
    const services = joined.map(({ service }) => service);
    const results = await updateMany(clusterName, services, nodes().nodes);
    for (const [index, { done }] of joined.entries()) {
      const result = results[index];
      if (result?.status === "fulfilled") done.resolve();
      else done.reject(result?.reason ?? new CodedError("NoResult", "the cloud returned no result for this Service"));
    }
  };
  const flush = (): void => {
    if (joined.length > 0) run().catch((error: unknown) => joined.forEach(({ done }) => done.reject(error)));
  };
  return { join, flush };
}

async function updateHosts(parts: NodeSyncParts, key: string, signal: AbortSignal, together?: Update): Promise<void> {
  const { cache, backlog, metrics, clock } = parts;
  // The pass may have started long ago: checked again now, with the current nodes.
  const service = isBehind(parts, key) ? cache.get(key)?.service : undefined;
  if (service === undefined) return;
  const set = parts.nodes();
  const changes = parts.nodeChanges();
  const begun = clock.monotonic();
  metrics.updates.inc();
  try {
    await update(parts, service, set, signal, together);
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
async function update(
  parts: NodeSyncParts,
  service: Service,
  set: NodeSet,
  signal: AbortSignal,
  together: Update = (one, { nodes }) => parts.balancers.updateLoadBalancer(parts.clusterName, one, nodes),
): Promise<void> {
  const { balancers, clusterName, events, log } = parts;
  try {
    await together(service, set);
  } catch (error) {
    if (error instanceof ImplementedElsewhereError) return;
    const exists = await balancers.getLoadBalancer(clusterName, service, { signal }).then(
      (status) => status !== undefined,
      (reason: unknown) => {
        log.warn("Failed to check if the load balancer exists", { error: reason });
        return true;
      },
    );
    if (exists) throw error;
    return;
  }
  if (set.nodes.length === 0) events.noNodes(service);
  else events.normal(service, "UpdatedLoadBalancer");
}
