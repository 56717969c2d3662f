import {
  CodedError,
  type FailingObjects,
  ImplementedElsewhereError,
  keyOf,
  type LoadBalancers,
  type LoadBalancerStatus,
  type Service,
  type Store,
} from "cloud-controller-host/sdk";

import { claim, type ClaimParts } from "./claim.ts";
import { isInterrupted, throwIfStopping, wrapError, wrapped } from "./errors.ts";
import type { ServiceEvents } from "./events.ts";
import { isOfAnother, type LeftBehindParts } from "./left-behind.ts";
import type { NodeSet } from "./nodes.ts";
import { hasFinalizer, isReleased, markOf } from "./predicates.ts";
import { hasStatus, type ServiceWrites } from "./service-writes.ts";

export interface SyncParts extends Pick<ClaimParts, "shards" | "again">, LeftBehindParts {
  readonly balancers: LoadBalancers;
  readonly clusterName: string;
  readonly services: Store<Service>;
  readonly nodes: () => NodeSet;
  /** Counts changes that may change the node set. */
  readonly nodeChanges: () => number;
  readonly events: ServiceEvents;
  readonly writes: ServiceWrites;
  readonly failing: FailingObjects;
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
  const { cache } = parts;
  const service = parts.services.get(key);
  const cached = cache.get(key)?.service;
  if (service === undefined || isReleased(service)) {
    if (cached !== undefined) await deleteVanished(parts, cached, signal);
    forget(parts, key, cached);
    return;
  }
  if (cached !== undefined && cached.metadata?.uid !== service.metadata?.uid)
    await deleteFormer(parts, cached, service, signal);
  if (parts.selection.isLeftAlone(service)) {
    if (cached !== undefined) parts.events.leftAlone(service);
    forget(parts, key, service);
    if (parts.selection.isHandedOver(service)) await handOver(parts, service);
    else if (cached !== undefined) await leave(parts, service);
    return;
  }
  // With our mark, a process of this deployment has served it, and may have been killed before it removed the finalizer.
  const isMarked = parts.shards !== undefined && markOf(service) === parts.shards.own;
  const { mayBeOfAnother, mayBeLeftBehind } = parts.selection;
  const isUnclear = cached === undefined && !isMarked && (mayBeOfAnother(service) || mayBeLeftBehind(service));
  const isOther = async (): Promise<boolean> => isOfAnother(parts, service, await existing(parts, service, signal));
  if (isUnclear && (await reported(parts, service, signal, isOther))) return parts.failing.ended(key);
  const own = await reported(parts, service, signal, () => claim(parts, service));
  if (own === undefined) {
    forget(parts, key, service);
    return cached === undefined ? undefined : leave(parts, service);
  }
  return syncOwn(parts, key, own, signal);
}

/** Runs a step that decides whose the Service is. Its failure shows at the Service, whose condition is not ours yet. */
async function reported<T>(
  { failing, events }: Pick<SyncParts, "failing" | "events">,
  service: Service,
  signal: AbortSignal,
  step: () => Promise<T>,
): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (!isInterrupted(error, signal)) {
      failing.failed(keyOf(service), error);
      events.syncFailed(service, error);
    }
    throw error;
  }
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

/** The mark goes last: without it another process may call the cloud for the Service. */
async function handOver(parts: SyncParts, service: Service): Promise<void> {
  await leave(parts, service);
  await parts.writes.unmark(service);
}

async function leave({ balancers, clusterName }: SyncParts, service: Service): Promise<void> {
  await balancers.leaveLoadBalancer?.(clusterName, service);
}

/** Records the cloud's warnings about a Service's settings; returns their texts. */
function warn(parts: SyncParts, service: Service): readonly string[] {
  const { balancers, events } = parts;
  if (!isEnsured(parts, service)) return [];
  const warnings = balancers.warnings?.(service) ?? [];
  for (const warning of warnings) events.warning(service, warning);
  return warnings.map(({ message }) => message);
}

function forget({ cache, failing, writes }: SyncParts, key: string, service: Service | undefined): void {
  cache.drop(key);
  failing.ended(key);
  if (service !== undefined) writes.forget(service);
}

/**
 * Deletes what a Service left behind that had this name before. A failure is an event of the present Service too, which
 * waits for it: events of a deleted object are not shown.
 */
async function deleteFormer(parts: SyncParts, former: Service, service: Service, signal: AbortSignal): Promise<void> {
  try {
    await deleteVanished(parts, former, signal);
  } catch (error) {
    const what = "failed to delete load balancer of a former Service of this name";
    if (!isInterrupted(error, signal) && isEnsured(parts, service))
      parts.events.syncFailed(service, wrapped(what, error));
    throw error;
  }
}

/** A Service deleted without our finalizer, or recreated under its name, may have left a load balancer behind. */
async function deleteVanished(parts: SyncParts, service: Service, signal: AbortSignal): Promise<void> {
  const { balancers, clusterName, events, failing, selection } = parts;
  // One whose cleanup had not ended when its finalizer was removed by hand has something to delete as well.
  if (!selection.wantsLoadBalancer(service) && !hasFinalizer(service)) return;
  throwIfStopping(signal);
  events.normal(service, "DeletingLoadBalancer");
  try {
    await balancers.ensureLoadBalancerDeleted(clusterName, service);
  } catch (error) {
    if (!isInterrupted(error, signal)) {
      // The event is about a Service that no list shows any more, and a successor of its name waits.
      failing.failed(keyOf(service), error);
      events.deleteFailed(service, error);
    }
    throw error;
  }
  events.normal(service, "DeletedLoadBalancer");
}

export async function syncLoadBalancerIfNeeded(
  parts: SyncParts,
  key: string,
  service: Service,
  signal: AbortSignal,
): Promise<"ensure" | "delete" | "left"> {
  if (!isEnsured(parts, service)) {
    await cleanUp(parts, key, service, signal);
    return "delete";
  }
  const status = await ensure(parts, key, service, signal);
  if (hasLeft(parts, key, service)) return "left";
  if (status !== undefined) await parts.writes.status(service, status);
  return "ensure";
}

const existing = (
  { balancers, clusterName }: SyncParts,
  service: Service,
  signal: AbortSignal,
): Promise<LoadBalancerStatus | undefined> =>
  wrapError("failed to check if load balancer exists before cleanup", () =>
    balancers.getLoadBalancer(clusterName, service, { signal }),
  );

/** The Service as it is now; undefined if it is gone, or another one has its name. */
function newest({ services }: SyncParts, key: string, { metadata }: Service): Service | undefined {
  const current = services.get(key);
  return current?.metadata?.uid === metadata?.uid ? current : undefined;
}

/** True if the Service gets a load balancer now: a cleanup that is due comes first. */
const isEnsured = ({ selection }: Pick<SyncParts, "selection">, service: Service): boolean =>
  selection.wantsLoadBalancer(service) && !selection.needsCleanup(service);

/**
 * True if this sync no longer concerns the Service: it has changed between wanting a load balancer and not, so another
 * sync of it is queued, or another process serves it by now and writes its condition.
 */
function hasLeft(parts: SyncParts, key: string, service: Service): boolean {
  const current = newest(parts, key, service);
  if (current === undefined) return isEnsured(parts, service);
  return parts.selection.isLeftAlone(current) || isEnsured(parts, service) !== isEnsured(parts, current);
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
