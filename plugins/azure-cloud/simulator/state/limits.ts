import { limits } from "../../load-balancer/model/limits.ts";

/** Limits; what exceeds them is refused with ARM's code. */
export interface SubscriptionLimits {
  readonly publicIPAddresses: number;
  /** Frontends of one load balancer. */
  readonly frontends: number;
  readonly rulesPerLoadBalancer: number;
  /** Load balancing and NAT rules over all pools that one network interface is in. */
  readonly rulesPerInterface: number;
  /** Private link services of one load balancer. */
  readonly privateLinkServices: number;
  /** IP configurations of one private link service. */
  readonly privateLinkAddresses: number;
  /** Rules of one security group. */
  readonly securityRules: number;
  /** Source prefixes of all rules of one security group, and destination prefixes likewise. */
  readonly securityPrefixes: number;
  /** Routes of one route table. */
  readonly routes: number;
  /** Tags of one resource, and characters of their names and values. */
  readonly tags: number;
  readonly tagNameLength: number;
  readonly tagValueLength: number;
  /** Characters of the name of a network resource or of one of its parts. */
  readonly nameLength: number;
}

/** The limits of the planner, and those that only ARM knows. */
export const defaultLimits: SubscriptionLimits = {
  publicIPAddresses: 1000,
  frontends: limits.frontendsPerLoadBalancer,
  rulesPerLoadBalancer: limits.rulesPerLoadBalancer,
  rulesPerInterface: limits.rulesPerInterface,
  privateLinkServices: limits.privateLinksPerLoadBalancer,
  privateLinkAddresses: limits.addressesPerPrivateLink,
  securityRules: limits.rulesPerSecurityGroup,
  securityPrefixes: limits.prefixesPerSecurityGroup,
  routes: limits.routesPerTable,
  tags: limits.tagsPerResource,
  tagNameLength: limits.tagNameLength,
  tagValueLength: limits.tagValueLength,
  nameLength: limits.nameLength,
};
