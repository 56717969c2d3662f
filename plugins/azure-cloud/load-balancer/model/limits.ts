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
  /** Security rules of a network security group, those of users included. */
  rulesPerSecurityGroup: 1000,
  /** Source prefixes of all rules of a security group, and destination prefixes likewise. */
  prefixesPerSecurityGroup: 4000,
  routesPerTable: 400,
  tagsPerResource: 50,
  tagNameLength: 512,
  tagValueLength: 256,
} as const;

/** Share of a limit from which on its use is worth a warning. */
export const warningShare = 0.8;
