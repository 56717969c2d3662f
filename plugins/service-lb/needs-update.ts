import { isDeepStrictEqual } from "node:util";

import type { Service, ServicePort } from "cloud-controller-host/sdk";

import { wantsLoadBalancer } from "./predicates.ts";

type Spec = NonNullable<Service["spec"]>;

/**
 * The changes of a Service that its load balancer must follow, each with the value that is compared. What is not
 * here triggers nothing: labels, selector, finalizers, status, cluster IPs and the rest.
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

/** The first change that the load balancer must follow, or undefined when there is none. */
export function changeToFollow(before: Service, after: Service): string | undefined {
  if (!wantsLoadBalancer(before) && !wantsLoadBalancer(after)) return undefined;
  return triggers.find(({ of }) => !isDeepStrictEqual(of(before), of(after)))?.change;
}
