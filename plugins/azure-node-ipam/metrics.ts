import type { Metrics } from "cloud-controller-host/sdk";

/** What is told of the blocks of one cluster CIDR. */
export interface SetMetrics {
  /** Blocks were taken; `usage` is the used part of all, from 0 to 1. */
  allocated(blocks: number, usage: number): void;
  released(blocks: number, usage: number): void;
  /** A search found room after that many tries. */
  searched(tries: number): void;
  /** The size of the blocks has changed, and with it their number. */
  resized(usage: number): void;
}

export type IpamMetrics = (clusterCIDR: string) => SetMetrics;

const labels = ["clusterCIDR"] as const;

/** Names, types, labels and buckets are upstream's. */
export function ipamMetrics(metrics: Metrics): IpamMetrics {
  const allocations = metrics.counter({
    name: "node_ipam_controller_cidrset_cidrs_allocations_total",
    help: "How many blocks of the cluster CIDR were taken.",
    labels,
  });
  const releases = metrics.counter({
    name: "node_ipam_controller_cidrset_cidrs_releases_total",
    help: "How many blocks of the cluster CIDR were given back.",
    labels,
  });
  const usage = metrics.gauge({
    name: "node_ipam_controller_cidrset_usage_cidrs",
    help: "Which part of the blocks of the cluster CIDR is used, from 0 to 1.",
    labels,
  });
  const tries = metrics.histogram({
    name: "node_ipam_controller_cidrset_allocation_tries_per_request",
    help: "How many blocks a search for a free one had to look at.",
    labels,
    buckets: [1, 5, 25, 125, 625],
  });
  // Upstream has this one and never sets it; it is here so that nobody's dashboard misses it.
  metrics
    .gauge({
      name: "node_ipam_controller_rate_limiter_use",
      help: "How much of a rate limiter is used; there is none.",
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
