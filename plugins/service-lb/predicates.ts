import { isDeepStrictEqual } from "node:util";

import type { Service, ServicePort } from "cloud-controller-host/sdk";

/** Keeps a Service in the API until its load balancer is deleted. The name is upstream's. */
export const finalizer = "service.kubernetes.io/load-balancer-cleanup";

export const hasFinalizer = (service: Service): boolean => service.metadata?.finalizers?.includes(finalizer) ?? false;

/** A Service with a class, even an empty one, belongs to another controller. */
export const wantsLoadBalancer = (service: Service): boolean =>
  service.spec?.type === "LoadBalancer" && service.spec.loadBalancerClass === undefined;

/**
 * Has our finalizer, and is being deleted or has another type now. The class is ignored, as upstream: a Service that
 * got one after its load balancer was created would otherwise never be released.
 */
export const needsCleanup = (service: Service): boolean =>
  hasFinalizer(service) && (service.metadata?.deletionTimestamp !== undefined || service.spec?.type !== "LoadBalancer");

/** Is being deleted without our finalizer: released already, or never ours. A finalizer can no longer be added. */
export const isReleased = (service: Service): boolean =>
  service.metadata?.deletionTimestamp !== undefined && !hasFinalizer(service);

type Spec = NonNullable<Service["spec"]>;

/**
 * Changes of a Service that its load balancer must follow, each with the value that is compared. Anything else triggers
 * no sync: labels, selector, finalizers, status, cluster IPs and so on.
 * Source: kubernetes/cloud-provider `controllers/service/controller.go`, `needsUpdate`.
 */
export const triggers: readonly { readonly change: string; readonly of: (service: Service) => unknown }[] = [
  { change: "type", of: wantsLoadBalancer },
  { change: "loadBalancerSourceRanges", of: spec((of) => of.loadBalancerSourceRanges ?? []) },
  { change: "ports", of: spec((of) => of.ports?.map(portFacts) ?? []) },
  { change: "sessionAffinity", of: spec((of) => of.sessionAffinity) },
  { change: "sessionAffinityConfig", of: spec((of) => of.sessionAffinityConfig) },
  { change: "loadBalancerIP", of: spec((of) => of.loadBalancerIP ?? "") },
  { change: "externalIPs", of: spec((of) => of.externalIPs ?? []) },
  { change: "annotations", of: (service) => service.metadata?.annotations ?? {} },
  { change: "uid", of: (service) => service.metadata?.uid },
  { change: "externalTrafficPolicy", of: spec((of) => of.externalTrafficPolicy) },
  { change: "healthCheckNodePort", of: spec((of) => of.healthCheckNodePort ?? 0) },
  { change: "number of ipFamilies", of: spec((of) => of.ipFamilies?.length ?? 0) },
];

function spec(of: (spec: Spec) => unknown): (service: Service) => unknown {
  return (service) => of(service.spec ?? {});
}

function portFacts({ name, protocol, port, nodePort, targetPort, appProtocol }: ServicePort): readonly unknown[] {
  return [name ?? "", protocol, port, nodePort ?? 0, targetPort, appProtocol];
}

/** Returns the first change that the load balancer must follow, or undefined. */
export function changeToFollow(before: Service, after: Service): string | undefined {
  if (!wantsLoadBalancer(before) && !wantsLoadBalancer(after)) return undefined;
  return triggers.find(({ of }) => !isDeepStrictEqual(of(before), of(after)))?.change;
}
