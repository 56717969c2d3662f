import type { Service } from "cloud-controller-host/sdk";

/** Keeps a Service in the API until its load balancer is gone. The name is upstream's and other tools look for it. */
export const finalizer = "service.kubernetes.io/load-balancer-cleanup";

export const hasFinalizer = (service: Service): boolean => service.metadata?.finalizers?.includes(finalizer) ?? false;

/** A class, even an empty one, gives the Service to another controller. */
export const wantsLoadBalancer = (service: Service): boolean =>
  service.spec?.type === "LoadBalancer" && service.spec.loadBalancerClass === undefined;

/**
 * Carries our finalizer, and is going away or is no load balancer any more. The class is not looked at, as upstream:
 * a Service that got one after we made its load balancer would otherwise never be let go.
 */
export const needsCleanup = (service: Service): boolean =>
  hasFinalizer(service) && (service.metadata?.deletionTimestamp !== undefined || service.spec?.type !== "LoadBalancer");

/** Is going away without our finalizer: we have let it go, or never had it. It can be given no finalizer any more. */
export const isLetGo = (service: Service): boolean =>
  service.metadata?.deletionTimestamp !== undefined && !hasFinalizer(service);
