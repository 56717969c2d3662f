import type { Metrics } from "cloud-controller-host/sdk";

/** Metrics of the blocks of one cluster CIDR. */
export interface SetMetrics {
  /** Counts allocated blocks; `usage` is the used fraction, 0 to 1. */
  allocated(blocks: number, usage: number): void;
  released(blocks: number, usage: number): void;
  /** Number of attempts until a search found a free block. */
  searched(tries: number): void;
  /** The block size changed, and with it the number of blocks. */
  resized(usage: number): void;
}

export type IpamMetrics = (clusterCIDR: string) => SetMetrics;

const labels = ["clusterCIDR"] as const;

/** Names, types, labels and buckets are upstream's. */
export function ipamMetrics(metrics: Metrics): IpamMetrics {
  const allocations = metrics.counter({
    name: "node_ipam_controller_cidrset_cidrs_allocations_total",
    help: "Counter measuring total number of CIDR allocations.",
    labels,
  });
  const releases = metrics.counter({
    name: "node_ipam_controller_cidrset_cidrs_releases_total",
    help: "Counter measuring total number of CIDR releases.",
    labels,
  });
  const usage = metrics.gauge({
    name: "node_ipam_controller_cidrset_usage_cidrs",
    help: "Gauge measuring percentage of allocated CIDRs.",
    labels,
  });
  const tries = metrics.histogram({
    name: "node_ipam_controller_cidrset_allocation_tries_per_request",
    help: "Number of blocks inspected by a search for a free one.",
    labels,
    buckets: [1, 5, 25, 125, 625],
  });
  // Upstream registers this one and never sets it; dashboards may query it.
  metrics
    .gauge({
      name: "node_ipam_controller_rate_limiter_use",
      help: "Always 0: the allocator has no rate limiter.",
    })
    .set(0);
  return (clusterCIDR) => ({
    allocated(blocks, used) {
      if (blocks > 0) allocations.inc({ clusterCIDR }, blocks);
      usage.set(used, { clusterCIDR });
    },
    released(blocks, used) {
      if (blocks > 0) releases.inc({ clusterCIDR }, blocks);
      usage.set(used, { clusterCIDR });
    },
    searched: (count) => tries.observe(count, { clusterCIDR }),
    resized: (used) => usage.set(used, { clusterCIDR }),
  });
}
