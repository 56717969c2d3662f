import type { Explanation, Metrics } from "cloud-controller-host/sdk";

import { sameName, startsWithName } from "../../arm/resource-id.ts";
import { isNearly, limitGauge, limits } from "../model/limits.ts";
import type { Observed } from "../model/model.ts";
import { poolName, withoutInternal } from "../model/names.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { destinationsOf, sourcesOf } from "../plan/security-group/rule-contents.ts";

type Seen = Pick<Observed, "loadBalancers" | "securityGroup" | "privateLinkServices">;
type Use = readonly [limit: string, resource: string, used: number, most: number];

export interface LimitMetrics {
  seen(observed: Seen): void;
  /** Use of the limits in the latest observation; empty before the first. */
  readonly status: readonly Explanation[];
}

/** Sets the share of Azure's limits that is in use, for each observation; a resource that is gone uses none. */
export function limitMetrics(metrics: Metrics, config: PlannerConfig): LimitMetrics {
  const gauge = limitGauge(metrics);
  let known: readonly Use[] = [];
  return {
    seen(observed) {
      const uses = usesOf(observed, config);
      for (const [limit, resource] of known) gauge.set(0, { limit, resource });
      for (const [limit, resource, used, most] of uses) gauge.set(used / most, { limit, resource });
      known = uses;
    },
    get status() {
      const facts = known.map(([limit, resource, used, most]) => ({
        name: `${limit}, ${resource}`,
        value: `${used} of at most ${most}${isNearly(used, most) ? ", nearly all" : ""}`,
      }));
      return facts.length === 0 ? [] : [{ title: "limits of Azure", facts }];
    },
  };
}

function usesOf({ loadBalancers, securityGroup, privateLinkServices }: Seen, config: PlannerConfig): readonly Use[] {
  const ofBalancers = loadBalancers.flatMap((one): readonly Use[] => {
    const rules = (one.loadBalancingRules?.length ?? 0) + (one.inboundNatRules?.length ?? 0);
    const frontends = one.frontendIPConfigurations?.length ?? 0;
    const links = privateLinkServices.filter(({ loadBalancerFrontendIpConfigurations: used = [] }) =>
      used.some(({ id = "" }) => startsWithName(id, `${one.id}/`)),
    );
    return [
      ["load balancer rules", one.name ?? "", rules, limits.rulesPerLoadBalancer],
      ["load balancer frontends", one.name ?? "", frontends, limits.frontendsPerLoadBalancer],
      ["private link services", one.name ?? "", links.length, limits.privateLinksPerLoadBalancer],
    ];
  });
  const rules = securityGroup?.securityRules ?? [];
  const prefixes = limits.prefixesPerSecurityGroup;
  return [
    ...ofBalancers,
    ...(config.pools === "interfaces" ? interfaceUses(loadBalancers, config) : []),
    ["security rules", config.securityGroup, rules.length, limits.rulesPerSecurityGroup],
    ["security rule sources", config.securityGroup, rules.flatMap(sourcesOf).length, prefixes],
    ["security rule destinations", config.securityGroup, rules.flatMap(destinationsOf).length, prefixes],
  ];
}

/** Every node is behind both load balancers of a pair, with an address of each family: the fuller one counts. */
function interfaceUses(loadBalancers: Seen["loadBalancers"], { clusterName }: PlannerConfig): readonly Use[] {
  const pairs = Map.groupBy(loadBalancers, ({ name = "" }) => withoutInternal(name));
  return [...pairs].map(([pair, both]) => {
    const rules = both.flatMap(({ loadBalancingRules = [] }) => loadBalancingRules);
    const pools = rules.map(({ backendAddressPool }) => backendAddressPool?.id?.split("/").at(-1) ?? "");
    const counts = (["IPv4", "IPv6"] as const).map(
      (family) => pools.filter((pool) => sameName(pool, poolName(clusterName, family))).length,
    );
    return ["rules of a network interface", pair, Math.max(...counts), limits.rulesPerInterface];
  });
}
