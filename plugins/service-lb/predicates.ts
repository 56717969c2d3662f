import { isDeepStrictEqual } from "node:util";

import { type ComponentConfig, parseLabelSelector, type Service, type ServicePort } from "cloud-controller-host/sdk";

/** Keeps a Service in the API until its load balancer is deleted. The name is upstream's. */
export const finalizer = "service.kubernetes.io/load-balancer-cleanup";

export const hasFinalizer = (service: Service): boolean => service.metadata?.finalizers?.includes(finalizer) ?? false;

type ServiceConfig = Partial<Pick<ComponentConfig["serviceController"], "loadBalancerClass" | "serviceSelector">>;

/** The Services that this process serves, of all that are in the cluster. */
export interface ServiceSelection {
  /** True for a Service that another process serves: nothing of it is touched, its finalizer included. */
  readonly isLeftAlone: (service: Service) => boolean;
  /** True where the Service does not show its process: the API server clears its class with its type. */
  readonly mayBeOfAnother: (service: Service) => boolean;
  /** Is selected and has type LoadBalancer. */
  readonly wantsLoadBalancer: (service: Service) => boolean;
  /** Is selected, has our finalizer, and is being deleted or has another type now. */
  readonly needsCleanup: (service: Service) => boolean;
  /** The first change that the load balancer must follow, or undefined. */
  readonly changeToFollow: (before: Service, after: Service) => string | undefined;
}

/**
 * Without settings, Services without a `loadBalancerClass`, even an empty one, as upstream; and then any Service that has
 * our finalizer is cleaned up, also as upstream: one that got a class after its load balancer was created would otherwise
 * never be released. With a class or a selector, which other processes complement, each keeps to its own.
 */
export function serviceSelection({ loadBalancerClass = "", serviceSelector = "" }: ServiceConfig): ServiceSelection {
  const matches = parseLabelSelector(serviceSelector);
  const sharesCluster = loadBalancerClass !== "" || serviceSelector.trim() !== "";
  const ownClass = loadBalancerClass === "" ? undefined : loadBalancerClass;
  const hasType = (service: Service): boolean => service.spec?.type === "LoadBalancer";
  const mayBeOfAnother = (service: Service): boolean => sharesCluster && !hasType(service);
  const selects = (service: Service): boolean =>
    (service.spec?.loadBalancerClass === ownClass || mayBeOfAnother(service)) &&
    matches(service.metadata?.labels ?? {});
  const isLeftAlone = (service: Service): boolean => sharesCluster && !selects(service);
  const wantsLoadBalancer = (service: Service): boolean => hasType(service) && selects(service);
  return {
    isLeftAlone,
    mayBeOfAnother,
    wantsLoadBalancer,
    needsCleanup: (service) =>
      hasFinalizer(service) &&
      (service.metadata?.deletionTimestamp !== undefined || !hasType(service)) &&
      !isLeftAlone(service),
    changeToFollow(before, after) {
      const wanted = wantsLoadBalancer(before);
      const wants = wantsLoadBalancer(after);
      if (!wanted && !wants) return undefined;
      return wanted === wants ? triggers.find(({ of }) => !isDeepStrictEqual(of(before), of(after)))?.change : "type";
    },
  };
}

/** Is being deleted without our finalizer: released already, or never ours. A finalizer can no longer be added. */
export const isReleased = (service: Service): boolean =>
  service.metadata?.deletionTimestamp !== undefined && !hasFinalizer(service);

type Spec = NonNullable<Service["spec"]>;

/**
 * Changes of a Service that its load balancer must follow, besides its type, each with the value that is compared.
 * Anything else triggers no sync: labels, selector, finalizers, status, cluster IPs and so on.
 * Source: kubernetes/cloud-provider `controllers/service/controller.go`, `needsUpdate`.
 */
export const triggers: readonly { readonly change: string; readonly of: (service: Service) => unknown }[] = [
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

function spec(valueOf: (of: Spec) => unknown): (service: Service) => unknown {
  return (service) => valueOf(service.spec ?? {});
}

function portFacts({ name, protocol, port, nodePort, targetPort, appProtocol }: ServicePort): readonly unknown[] {
  return [name ?? "", protocol, port, nodePort ?? 0, targetPort, appProtocol];
}
