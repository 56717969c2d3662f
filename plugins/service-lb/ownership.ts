import { type FailingObjects, keyOf, type LoadBalancers, type Service, type Store } from "cloud-controller-host/sdk";

import { claim, type ClaimParts } from "./claim.ts";
import { isInterrupted, throwIfStopping, wrapped } from "./errors.ts";
import type { ServiceEvents } from "./events.ts";
import { isOfAnother, type LeftBehindParts } from "./left-behind.ts";
import { hasFinalizer, isReleased, markOf } from "./predicates.ts";
import type { ServiceWrites } from "./service-writes.ts";

export interface OwnershipParts extends Pick<ClaimParts, "shards" | "again">, LeftBehindParts {
  readonly balancers: LoadBalancers;
  readonly services: Store<Service>;
  readonly events: ServiceEvents;
  readonly writes: ServiceWrites;
  readonly failing: FailingObjects;
}

/**
 * The Service of that key, for this process to sync; undefined if it is gone, or another process serves it. A load
 * balancer of a former Service of the name is deleted first. A failed step shows at the Service.
 */
export async function ownService(
  parts: OwnershipParts,
  key: string,
  signal: AbortSignal,
): Promise<Service | undefined> {
  const { cache } = parts;
  const service = parts.services.get(key);
  const cached = cache.get(key)?.service;
  if (service === undefined || isReleased(service)) {
    if (cached !== undefined) await deleteVanished(parts, cached, signal);
    forget(parts, key, cached);
    return undefined;
  }
  if (cached !== undefined && cached.metadata?.uid !== service.metadata?.uid)
    await deleteFormer(parts, cached, service, signal);
  if (parts.selection.isLeftAlone(service)) {
    if (cached !== undefined) parts.events.leftAlone(service);
    forget(parts, key, service);
    if (parts.selection.isHandedOver(service)) await handOver(parts, service);
    else if (cached !== undefined) await leave(parts, service);
    return undefined;
  }
  if (cached === undefined && isUnclear(parts, service)) {
    const isOther = (): Promise<boolean> => isOfAnother(parts, service, signal);
    if (await reported(parts, service, signal, isOther)) {
      parts.failing.ended(key);
      return undefined;
    }
  }
  const own = await reported(parts, service, signal, () => claim(parts, service));
  if (own !== undefined) return own;
  forget(parts, key, service);
  if (cached !== undefined) await leave(parts, service);
  return undefined;
}

/** With our mark, a process of this deployment has served it, and may have been killed before it removed the finalizer. */
function isUnclear({ selection, shards }: OwnershipParts, service: Service): boolean {
  const isMarked = shards !== undefined && markOf(service) === shards.own;
  return !isMarked && (selection.mayBeOfAnother(service) || selection.mayBeLeftBehind(service));
}

/** Runs a step that decides whose the Service is. Its failure shows at the Service, whose condition is not ours yet. */
async function reported<T>(
  { failing, events }: OwnershipParts,
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

/** The mark goes last: without it another process may call the cloud for the Service. */
async function handOver(parts: OwnershipParts, service: Service): Promise<void> {
  await leave(parts, service);
  await parts.writes.unmark(service);
}

/** Ends the cloud's background work for a Service. */
export async function leave({ balancers, clusterName }: OwnershipParts, service: Service): Promise<void> {
  await balancers.leaveLoadBalancer?.(clusterName, service);
}

/** Drops all that is known of a Service that is gone, or that this process serves no more. */
export function forget({ cache, failing, writes }: OwnershipParts, key: string, service: Service | undefined): void {
  cache.drop(key);
  failing.ended(key);
  if (service !== undefined) writes.forget(service);
}

/**
 * Deletes what a Service left behind that had this name before. A failure is an event of the present Service too, which
 * waits for it: events of a deleted object are not shown.
 */
async function deleteFormer(
  parts: OwnershipParts,
  former: Service,
  service: Service,
  signal: AbortSignal,
): Promise<void> {
  try {
    await deleteVanished(parts, former, signal);
  } catch (error) {
    const what = "failed to delete load balancer of a former Service of this name";
    if (!isInterrupted(error, signal) && parts.selection.isEnsured(service))
      parts.events.syncFailed(service, wrapped(what, error));
    throw error;
  }
}

/** A Service deleted without our finalizer, or recreated under its name, may have left a load balancer behind. */
async function deleteVanished(parts: OwnershipParts, service: Service, signal: AbortSignal): Promise<void> {
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
