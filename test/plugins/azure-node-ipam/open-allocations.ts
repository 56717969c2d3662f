import { type CIDR, parseCIDR } from "cloud-controller-host/sdk";

import { MetricsRegistry } from "../../../host/process/metrics/metrics.ts";
import { sampleOf } from "../../../host/sandbox/testing/exposition.ts";
import { Allocations } from "../../../plugins/azure-node-ipam/cidrset/allocations.ts";
import { ipamMetrics } from "../../../plugins/azure-node-ipam/metrics.ts";

export interface AllocationTexts {
  readonly clusters: readonly string[];
  readonly masks: readonly number[];
  readonly services?: readonly string[];
  readonly freed?: (blocks: number) => void;
}

export const cidrs = (...texts: readonly string[]): readonly CIDR[] => texts.map((text) => parseCIDR(text));

/** An allocations whose CIDRs are given as text, and the value of its metrics by the last part of their names. */
export function openAllocations({ clusters, masks, services = [], freed }: AllocationTexts) {
  const registry = new MetricsRegistry();
  const allocations = new Allocations({
    clusters: cidrs(...clusters),
    masks,
    services: cidrs(...services),
    metrics: ipamMetrics(registry.root),
    ...(freed === undefined ? {} : { freed }),
  });
  return {
    allocations,
    allocate: (node: string, prefixes?: readonly number[]): readonly string[] | undefined =>
      allocations.allocate(node, `uid of ${node}`, prefixes)?.map(({ text }) => text),
    observe: (node: string, ...texts: readonly string[]) =>
      allocations.observe(node, `uid of ${node}`, cidrs(...texts)),
    metric: async (name: string, clusterCIDR: string): Promise<number | undefined> =>
      sampleOf((await registry.render()).body, `node_ipam_controller_cidrset_${name}`, { clusterCIDR }),
  };
}
