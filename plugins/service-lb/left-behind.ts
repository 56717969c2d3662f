import { type Clock, keyOf, type LoadBalancerStatus, type Service } from "cloud-controller-host/sdk";

import type { ClaimParts } from "./claim.ts";
import type { ServiceSelection } from "./predicates.ts";
import type { ServiceCache } from "./service-cache.ts";
import { hasStatus } from "./service-writes.ts";

export interface LeftBehindParts extends Pick<ClaimParts, "again"> {
  readonly selection: ServiceSelection;
  readonly cache: ServiceCache;
  readonly clock: Pick<Clock, "monotonic">;
}

/** Within this time, a process that serves its class shows the address that it has given it, or marks it again. */
const unclearMs = 60_000;

/** The cloud has nothing of it, or what it shows: a process that serves its class has given it that, or is about to. */
export function isOfAnother(parts: LeftBehindParts, service: Service, found: LoadBalancerStatus | undefined): boolean {
  if (!isOther(service, found)) return mayBeAtWork(parts, service);
  parts.cache.drop(keyOf(service));
  return true;
}

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
