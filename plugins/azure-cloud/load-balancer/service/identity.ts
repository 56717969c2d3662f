import {
  annotationOf,
  annotations,
  finalizers,
  hasFinalizer,
  isBeingDeleted,
  type Service,
  type Shards,
} from "cloud-controller-host/sdk";

import { oncePer } from "../model/once-per.ts";
import type { PlannerConfig } from "../model/planner-config.ts";

/**
 * True for versions of one Service of one controller. Another Service may have got its name; and one with another class,
 * which it can get by way of another type, is another controller's.
 */
export const isSameService = (one: Service, other: Service): boolean =>
  one.metadata?.uid === other.metadata?.uid && one.spec?.loadBalancerClass === other.spec?.loadBalancerClass;

export const hasType = ({ spec }: Service): boolean => spec?.type === "LoadBalancer";

/** True for a Service that is to have a load balancer, of whichever process. */
export const wantsLoadBalancer = (service: Service): boolean => hasType(service) && !isBeingDeleted(service);

/** True if another deployment serves the Service. A deployment that shares the Services marks each that it serves. */
export const isOfAnother = (service: Service, shards: Shards | undefined): boolean =>
  markOf(service) === undefined ? shards?.isAlive !== undefined : hasMarkOfAnother(service, shards);

const markOf = (service: Service): string | undefined => annotationOf(service, annotations.servedBy) || undefined;

/** True if this deployment has marked the Service. */
export const hasMarkOf = (service: Service, { own }: Shards): boolean => markOf(service) === own;

/** True if another deployment has marked the Service, which it does before its first write for it. */
export function hasMarkOfAnother(service: Service, shards: Shards | undefined): boolean {
  const mark = markOf(service);
  return mark !== undefined && mark !== shards?.own;
}

/**
 * True if nothing more of a Service may be deleted: another deployment serves it by now, and all of it is that one's to
 * change, wherever it is. Or it had another type as its deletion began, and is to have a load balancer again.
 */
export function isDeletionOver(known: Service, current: Service | undefined, shards: Shards | undefined): boolean {
  if (current === undefined || current.metadata?.uid !== known.metadata?.uid) return false;
  return hasMarkOfAnother(current, shards) || (!hasType(known) && wantsLoadBalancer(current));
}

/** True for a Service of a class that no deployment of ours serves: each has its finalizer, or its mark, before it writes. */
export const isOfAnotherController = (service: Service): boolean =>
  (service.spec?.loadBalancerClass ?? "") !== "" &&
  !hasFinalizer(service, finalizers.loadBalancerCleanup) &&
  markOf(service) === undefined;

interface SharedCluster {
  readonly config: Pick<PlannerConfig, "shardSuffix">;
  readonly observed: { readonly services: readonly Service[] };
}

/**
 * True where other deployments write what this one writes as well. They open addresses that only they know yet: their
 * public IPs and frontends are not in this one's caches, nor in the status. What one leaves open, it closes itself.
 */
export const isShared = ({ config, observed }: SharedCluster): boolean =>
  config.shardSuffix !== undefined || haveMarks(observed.services);

/** True also before the first Service has a mark, for a deployment that marks its own: it is not alone. */
export const hasNeighbors = (cluster: SharedCluster, shards: Shards | undefined): boolean =>
  shards?.isAlive !== undefined || isShared(cluster);

const haveMarks = oncePer((services: readonly Service[]): boolean =>
  services.some((service) => annotationOf(service, annotations.servedBy) !== undefined),
);
