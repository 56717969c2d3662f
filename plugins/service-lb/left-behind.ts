import {
  type Clock,
  keyOf,
  type LoadBalancers,
  type LoadBalancerStatus,
  type Service,
} from "cloud-controller-host/sdk";

import type { ClaimParts } from "./claim.ts";
import { wrapError } from "./errors.ts";
import type { ServiceSelection } from "./predicates.ts";
import type { ServiceCache } from "./service-cache.ts";
import { hasStatus } from "./service-writes.ts";

export interface LeftBehindParts extends Pick<ClaimParts, "again"> {
  readonly balancers: Pick<LoadBalancers, "getLoadBalancer">;
  readonly clusterName: string;
  readonly selection: ServiceSelection;
  readonly cache: ServiceCache;
  readonly clock: Pick<Clock, "monotonic">;
}

/** Within this time, a process that serves its class shows the address that it has given it, or marks it again. */
const unclearMs = 60_000;

/**
 * True if another process serves the Service, or may: the cloud has nothing of it, or what it shows, which a process that
 * serves its class has given it or is about to.
 */
export async function isOfAnother(parts: LeftBehindParts, service: Service, signal: AbortSignal): Promise<boolean> {
  if (!isOther(service, await existing(parts, service, signal))) return mayBeAtWork(parts, service);
  parts.cache.drop(keyOf(service));
  return true;
}

/** Status of the load balancer that the cloud has of a Service; undefined without one. */
export const existing = (
  { balancers, clusterName }: Pick<LeftBehindParts, "balancers" | "clusterName">,
  service: Service,
  signal: AbortSignal,
): Promise<LoadBalancerStatus | undefined> =>
  wrapError("failed to check if load balancer exists before cleanup", () =>
    balancers.getLoadBalancer(clusterName, service, { signal }),
  );

const showsNothing = ({ status }: Service): boolean => (status?.loadBalancer?.ingress ?? []).length === 0;

const isOther = (service: Service, found: LoadBalancerStatus | undefined): boolean =>
  found === undefined || (!showsNothing(service) && hasStatus(service, found));

/**
 * True for a minute after this process has first seen a Service of another class that shows no address: the mark of the
 * process that is at work for it may have gone as a client replaced the whole Service.
 */
function mayBeAtWork({ again, cache, clock, selection }: LeftBehindParts, service: Service): boolean {
  if (!selection.mayBeLeftBehind(service) || !showsNothing(service)) return false;
  const key = keyOf(service);
  const leftMs = unclearMs - cache.unclearFor(key, service, clock.monotonic());
  if (leftMs > 0) again(key, leftMs);
  return leftMs > 0;
}
