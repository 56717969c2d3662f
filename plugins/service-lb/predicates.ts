import { isDeepStrictEqual } from "node:util";

import {
  annotationOf,
  annotations,
  type ComponentConfig,
  finalizers,
  hasFinalizer as hasFinalizerNamed,
  parseLabelSelector,
  type Service,
  type ServicePort,
  type Shards,
} from "cloud-controller-host/sdk";

/** Keeps a Service in the API until its load balancer is deleted. The name is upstream's. */
export const finalizer = finalizers.loadBalancerCleanup;

export const hasFinalizer = (service: Service): boolean => hasFinalizerNamed(service, finalizer);

/**
 * Annotation of a Service that several deployments could serve: the Lease of the one that does. Only that one calls the
 * cloud for the Service, until it removes the annotation or leads no more.
 */
export const markKey = annotations.servedBy;

export const markOf = (service: Service): string | undefined => annotationOf(service, markKey) || undefined;

type ServiceConfig = Partial<Pick<ComponentConfig["serviceController"], "loadBalancerClass" | "serviceSelector">>;

/** The Services that this process serves, of all that are in the cluster. */
export interface ServiceSelection {
  /** True for a Service that another process serves: nothing of it is touched, its finalizer included. */
  readonly isLeftAlone: (service: Service) => boolean;
  /** True for one that is left alone and still has our mark: another process waits for its removal. */
  readonly isHandedOver: (service: Service) => boolean;
  /** True where the Service does not show its process: the API server clears its class with its type. */
  readonly mayBeOfAnother: (service: Service) => boolean;
  /** Is selected and has type LoadBalancer. */
  readonly wantsLoadBalancer: (service: Service) => boolean;
  /** Has our finalizer and another class, which it may have got while no process ran; the cloud tells. */
  readonly mayBeLeftBehind: (service: Service) => boolean;
  /** Is not left alone, has our finalizer, and is being deleted or has another type now. */
  readonly needsCleanup: (service: Service) => boolean;
  /** Gets a load balancer now: wants one, and has no cleanup due, which comes first. */
  readonly isEnsured: (service: Service) => boolean;
  /** The first change that the load balancer must follow, or undefined. */
  readonly changeToFollow: (before: Service, after: Service) => string | undefined;
}

/**
 * Without settings, Services without a `loadBalancerClass`, even an empty one, as upstream; and then any Service that has
 * our finalizer is cleaned up, also as upstream: one that got a class after its load balancer was created would otherwise
 * never be released. With a class or a selector, which other processes complement, each keeps to its own.
 */
export function serviceSelection(
  { loadBalancerClass = "", serviceSelector = "" }: ServiceConfig,
  shards?: Shards,
): ServiceSelection {
  const matches = parseLabelSelector(serviceSelector);
  const sharesCluster = loadBalancerClass !== "" || serviceSelector.trim() !== "";
  const otherMark = (service: Service): string | undefined => {
    const mark = markOf(service);
    return mark === shards?.own ? undefined : mark;
  };
  const ownClass = loadBalancerClass === "" ? undefined : loadBalancerClass;
  const hasType = (service: Service): boolean => service.spec?.type === "LoadBalancer";
  const mayBeOfAnother = (service: Service): boolean => sharesCluster && !hasType(service);
  const selects = (service: Service): boolean =>
    (service.spec?.loadBalancerClass === ownClass || mayBeOfAnother(service)) &&
    matches(service.metadata?.labels ?? {});
  // A process that shares no Services waits for no other, but leaves alone what another one has marked.
  const isLeftAlone = (service: Service): boolean =>
    sharesCluster ? !selects(service) : otherMark(service) !== undefined;
  const wantsLoadBalancer = (service: Service): boolean =>
    hasType(service) && selects(service) && (sharesCluster || !isLeftAlone(service));
  const needsCleanup = (service: Service): boolean =>
    hasFinalizer(service) &&
    (service.metadata?.deletionTimestamp !== undefined || !hasType(service)) &&
    !isLeftAlone(service);
  return {
    isLeftAlone,
    isHandedOver: (service) =>
      shards !== undefined && sharesCluster && markOf(service) === shards.own && !selects(service),
    mayBeOfAnother,
    mayBeLeftBehind: (service) =>
      hasFinalizer(service) &&
      !selects(service) &&
      service.metadata?.deletionTimestamp === undefined &&
      !isLeftAlone(service),
    wantsLoadBalancer,
    needsCleanup,
    isEnsured: (service) => wantsLoadBalancer(service) && !needsCleanup(service),
    changeToFollow(before, after) {
      const wanted = wantsLoadBalancer(before);
      const wants = wantsLoadBalancer(after);
      if (!wanted && !wants) return undefined;
      if (wanted !== wants) return "type";
      if (otherMark(before) !== otherMark(after)) return "deployment";
      // A client that replaces the whole Service removes it: without it, another deployment could take the Service at once.
      if (markOf(after) === undefined && markOf(before) === (shards?.own ?? "")) return "mark";
      return triggers.find(({ of }) => !isDeepStrictEqual(of(before), of(after)))?.change;
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
  { change: "annotations", of: ({ metadata }) => ({ ...metadata?.annotations, [markKey]: undefined }) },
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
