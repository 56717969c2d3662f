import type { Gauge, Metrics } from "cloud-controller-host/sdk";

/**
 * Azure's limits, as far as the cloud meets them; the simulator enforces the same ones. Source: "Azure subscription and
 * service limits, quotas, and constraints", networking and Resource Manager.
 */
export const limits = {
  /** Load-balancing and inbound NAT rules of a standard load balancer, of all its frontends together. */
  rulesPerLoadBalancer: 1500,
  /** Rules for one IP configuration of an interface, those of the internal and the external load balancer together. */
  rulesPerInterface: 300,
  frontendsPerLoadBalancer: 600,
  privateLinksPerLoadBalancer: 8,
  addressesPerPrivateLink: 8,
  /** Security rules of a network security group, those of users included. */
  rulesPerSecurityGroup: 1000,
  /** Source prefixes of all rules of a security group, and destination prefixes likewise. */
  prefixesPerSecurityGroup: 4000,
  routesPerTable: 400,
  tagsPerResource: 50,
  tagNameLength: 512,
  tagValueLength: 256,
  /** Characters of the name of a network resource or of one of its parts. */
  nameLength: 80,
} as const;

/** True if the use of a limit is worth a warning. The alert `CloudLimitNearlyReached` has the same threshold. */
export const isNearly = (used: number, limit: number): boolean => used >= limit * 0.8;

/** The share of a limit that a resource uses. */
export const limitGauge = (metrics: Metrics): Gauge<"limit" | "resource"> =>
  metrics.gauge({
    name: "cloudprovider_azure_limit_used_ratio",
    help: "Share of one of Azure's limits that is in use, by limit and resource.",
    labels: ["limit", "resource"],
  });
