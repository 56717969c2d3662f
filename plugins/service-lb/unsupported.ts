import { type ControllerContext, keyOf, kinds, type Service } from "cloud-controller-host/sdk";

import type { ServiceSelection } from "./predicates.ts";

/** Another controller that serves Services without a class, such as MetalLB, has this long to publish an address. */
const graceMs = 10_000;

/**
 * Watches Services of a cloud without load balancers and records one event for each that stays pending. Writes nothing
 * else. Returns the work to run while leading.
 */
export function watchUnsupported(
  context: ControllerContext,
  cloud: string,
  { wantsLoadBalancer }: ServiceSelection,
): (signal: AbortSignal) => Promise<void> {
  const isPending = (service: Service): boolean =>
    wantsLoadBalancer(service) &&
    service.metadata?.deletionTimestamp === undefined &&
    (service.status?.loadBalancer?.ingress ?? []).length === 0;
  const { events, informers } = context;
  const services = informers.of(kinds.Service);
  const queue = context.workqueue("service");
  const registration = services.handle({
    added: (service) => isPending(service) && queue.addAfter(keyOf(service), graceMs),
    // Other changes of a pending Service repeat nothing.
    updated: (before, after) => isPending(after) && !isPending(before) && queue.addAfter(keyOf(after), graceMs),
  });
  const sync = (key: string): Promise<void> => {
    const service = services.store.get(key);
    if (service !== undefined && isPending(service))
      events.event(service, "Warning", "LoadBalancerUnsupported", messageFor(cloud));
    return Promise.resolve();
  };
  return async (signal) => {
    try {
      await queue.process({ workers: 1, signal, sync });
    } finally {
      registration.remove();
      queue.shutDown();
    }
  };
}

const messageFor = (cloud: string): string =>
  `No load balancer will be created: the cloud provider "${cloud}" does not support external load balancers. ` +
  "Change the type to NodePort or ClusterIP, or recreate the Service with the spec.loadBalancerClass of another controller";
