import { MetricsRegistry } from "../../../host/process/metrics/metrics.ts";
import { sampleOf } from "../../../host/sandbox/testing/exposition.ts";
import { Occupancy } from "../../../plugins/azure-node-ipam/allocation/allocations.ts";
import { type Cidr, parseCidr } from "../../../plugins/azure-node-ipam/cidrset/cidr.ts";
import { ipamMetrics } from "../../../plugins/azure-node-ipam/metrics.ts";

export interface OccupancyTexts {
  readonly clusters: readonly string[];
  readonly masks: readonly number[];
  readonly services?: readonly string[];
  readonly freed?: (blocks: number) => void;
}

export const cidrs = (...texts: readonly string[]): readonly Cidr[] => texts.map(parseCidr);

/** An occupancy whose CIDRs are given as text, and the value of its metrics by the last part of their names. */
export function openOccupancy({ clusters, masks, services = [], freed }: OccupancyTexts) {
  const registry = new MetricsRegistry();
  const occupancy = new Occupancy({
    clusters: cidrs(...clusters),
    masks,
    services: cidrs(...services),
    metrics: ipamMetrics(registry.root),
    ...(freed === undefined ? {} : { freed }),
  });
  return {
    occupancy,
    offer: (node: string, prefixes?: readonly number[]): readonly string[] | undefined =>
      occupancy.offer(node, `uid of ${node}`, prefixes)?.map(({ text }) => text),
    settle: (node: string, ...texts: readonly string[]) => occupancy.settle(node, `uid of ${node}`, cidrs(...texts)),
    metric: async (name: string, clusterCIDR: string): Promise<number | undefined> =>
      sampleOf((await registry.render()).body, `node_ipam_controller_cidrset_${name}`, { clusterCIDR }),
  };
}
