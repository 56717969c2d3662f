import {
  CodedError,
  ImplementedElsewhereError,
  type LoadBalancerStatus,
  type Service,
} from "cloud-controller-host/sdk";

import { isInterrupted, throwIfStopping, wrapped } from "./errors.ts";
import { existing } from "./left-behind.ts";
import type { NodeSet } from "./nodes.ts";
import { forget, leave, type OwnershipParts, ownService } from "./ownership.ts";
import { hasStatus } from "./service-writes.ts";

export interface SyncParts extends OwnershipParts {
  readonly nodes: () => NodeSet;
  /** Counts changes that may change the node set. */
  readonly nodeChanges: () => number;
  /** Delay before the service queue retries the key after that error. */
  readonly retryDelayMs: (key: string, error: unknown) => number;
}

/**
 * Syncs the load balancer of one Service with its current spec. When the signal aborts, a cloud call in flight finishes
 * and its status is written; no further call starts. The next generation does the rest: the finalizer keeps the Service
 * until then.
 */
export async function syncService(parts: SyncParts, key: string, signal: AbortSignal): Promise<void> {
  if (key.split("/").length > 2) throw new CodedError("Internal", `unexpected key format: ${JSON.stringify(key)}`);
  const own = await ownService(parts, key, signal);
  if (own !== undefined) await syncOwn(parts, key, own, signal);
}

/** Syncs a Service that no other process serves. */
async function syncOwn(parts: SyncParts, key: string, service: Service, signal: AbortSignal): Promise<void> {
  const { cache } = parts;
  cache.see(key, service);
  // First: the owner sees them however long the cloud takes.
  const warnings = warn(parts, service);
  try {
    const operation = await syncLoadBalancerIfNeeded(parts, key, service, signal);
    if (operation === "delete") return forget(parts, key, service);
    if (operation === "left") return;
    parts.failing.ended(key);
  } catch (error) {
    if (!isInterrupted(error, signal) && !hasLeft(parts, key, service)) {
      parts.failing.failed(key, error);
      parts.events.syncFailed(service, error);
      await parts.writes.condition.failure(service, error, warnings, parts.retryDelayMs(key, error));
    }
    throw error;
  }
  await parts.writes.condition.success(service, warnings);
}

/** Records the cloud's warnings about a Service's settings; returns their texts. */
function warn(parts: SyncParts, service: Service): readonly string[] {
  const { balancers, events, selection } = parts;
  if (!selection.isEnsured(service)) return [];
  const warnings = balancers.warnings?.(service) ?? [];
  for (const warning of warnings) events.warning(service, warning);
  return warnings.map(({ message }) => message);
}

export async function syncLoadBalancerIfNeeded(
  parts: SyncParts,
  key: string,
  service: Service,
  signal: AbortSignal,
): Promise<"ensure" | "delete" | "left"> {
  if (!parts.selection.isEnsured(service)) {
    await cleanUp(parts, key, service, signal);
    return "delete";
  }
  const status = await ensure(parts, key, service, signal);
  if (hasLeft(parts, key, service)) return "left";
  if (status !== undefined) await parts.writes.status(service, status);
  return "ensure";
}

/** The Service as it is now; undefined if it is gone, or another one has its name. */
function newest({ services }: SyncParts, key: string, { metadata }: Service): Service | undefined {
  const current = services.get(key);
  return current?.metadata?.uid === metadata?.uid ? current : undefined;
}

/**
 * True if this sync no longer concerns the Service: it has changed between wanting a load balancer and not, so another
 * sync of it is queued, or another process serves it by now and writes its condition.
 */
function hasLeft(parts: SyncParts, key: string, service: Service): boolean {
  const { isEnsured, isLeftAlone } = parts.selection;
  const current = newest(parts, key, service);
  if (current === undefined) return isEnsured(service);
  return isLeftAlone(current) || isEnsured(service) !== isEnsured(current);
}

/** True if another process serves the Service, and it shows another address than that of its load balancer here. */
const hasOtherAddress = (
  { selection }: Pick<SyncParts, "selection">,
  service: Service = {},
  found: LoadBalancerStatus = {},
): boolean =>
  service.spec?.type === "LoadBalancer" && !selection.wantsLoadBalancer(service) && !hasStatus(service, found);

async function cleanUp(parts: SyncParts, key: string, service: Service, signal: AbortSignal): Promise<void> {
  const { balancers, cache, clusterName, events, writes } = parts;
  const found = await existing(parts, service, signal);
  if (found !== undefined) {
    cache.deletes(key, found);
    throwIfStopping(signal);
    events.normal(service, "DeletingLoadBalancer");
    try {
      await balancers.ensureLoadBalancerDeleted(clusterName, service);
    } catch (error) {
      if (!(error instanceof ImplementedElsewhereError)) throw wrapped("failed to delete load balancer", error);
    }
  } else {
    // Ensured in vain, it would be planned again for the nodes once it has another class.
    await leave(parts, service);
  }
  // The controller of another class may show an address of its own by now.
  const isOther = hasOtherAddress(parts, newest(parts, key, service), found ?? cache.get(key)?.deleted);
  await writes.release(service, isOther ? "kept" : "cleared");
  events.normal(service, "DeletedLoadBalancer");
}

/** Returns undefined when the load balancer is implemented elsewhere; its status is then not written. */
async function ensure(
  parts: SyncParts,
  key: string,
  service: Service,
  signal: AbortSignal,
): Promise<LoadBalancerStatus | undefined> {
  const { balancers, clusterName, events, cache } = parts;
  events.normal(service, "EnsuringLoadBalancer");
  await parts.writes.addFinalizer(service);
  throwIfStopping(signal);
  const { nodes, members } = parts.nodes();
  const changes = parts.nodeChanges();
  if (nodes.length === 0) events.noNodes(service);
  let status: LoadBalancerStatus | undefined;
  try {
    status = await balancers.ensureLoadBalancer(clusterName, service, nodes);
  } catch (error) {
    if (!(error instanceof ImplementedElsewhereError)) throw wrapped("failed to ensure load balancer", error);
    cache.nodesSynced(key, members);
    return undefined;
  }
  cache.nodesSynced(key, parts.nodeChanges() === changes ? members : "changed");
  if (status === undefined) throw new CodedError("NoResult", "service status returned by EnsureLoadBalancer is nil");
  events.normal(service, "EnsuredLoadBalancer");
  return status;
}
