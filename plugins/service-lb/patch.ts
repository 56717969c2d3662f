import type { LoadBalancerStatus, Service } from "cloud-controller-host/sdk";

import { finalizer } from "./predicates.ts";

/**
 * The bodies of this controller's three writes, all strategic merge patches of `services/status`. They carry no
 * resourceVersion: each touches one thing, so that a concurrent edit of the Service is no conflict.
 */
type Body = Readonly<Record<string, unknown>>;

const finalizersOf = (service: Service): readonly string[] => service.metadata?.finalizers ?? [];

export function finalizerAdded(service: Service): Body {
  const others = finalizersOf(service);
  const order = others.length === 0 ? {} : { "$setElementOrder/finalizers": [...others, finalizer] };
  return { metadata: { ...order, finalizers: [finalizer] } };
}

/**
 * Takes out ours and no other. Upstream empties the whole list (`"finalizers": null`) when it knows of no other, which
 * loses one that somebody added meanwhile; the directive that it uses beside other finalizers is safe in both cases.
 */
export function finalizerRemoved(service: Service): Body {
  const rest = finalizersOf(service).filter((name) => name !== finalizer);
  const order = rest.length === 0 ? {} : { "$setElementOrder/finalizers": rest };
  return { metadata: { "$deleteFromPrimitiveList/finalizers": [finalizer], ...order } };
}

export function statusWritten({ ingress = [] }: LoadBalancerStatus): Body {
  return { status: { loadBalancer: { ingress: ingress.length === 0 ? null : ingress } } };
}
