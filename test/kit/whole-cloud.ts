import type { Cloud, LoadBalancers } from "cloud-controller-host/sdk";
import { memoryCloud } from "cloud-controller-host/sdk/testing";

/** A cloud with every optional method of its capabilities: one that the contract adds does not type-check here. */
export function wholeCloud(): Cloud {
  const { cloud } = memoryCloud();
  if (cloud.loadBalancers === undefined) throw new Error("the cloud in memory has load balancers");
  const loadBalancers: Required<LoadBalancers> = {
    updateLoadBalancers: () => Promise.resolve([]),
    watch: () => undefined,
    leaveLoadBalancer: () => Promise.resolve(),
    warnings: () => [],
    ...cloud.loadBalancers,
  };
  return { ...cloud, loadBalancers };
}
