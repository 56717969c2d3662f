/** Azure's limits, as far as planning meets them. Source: "Azure subscription and service limits", networking. */
export const limits = {
  /** Rules of a standard load balancer, of all its frontends together. */
  rulesPerLoadBalancer: 1500,
  /** Security rules of a network security group, those of users included. */
  rulesPerSecurityGroup: 1000,
  /** Source prefixes of all rules of a security group, and destination prefixes likewise. */
  prefixesPerSecurityGroup: 4000,
} as const;
