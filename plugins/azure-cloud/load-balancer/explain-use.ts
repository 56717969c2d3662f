import type { FrontendIPConfiguration, LoadBalancer, NetworkSecurityGroup } from "@azure/arm-network";
import { defaultLoadBalancerName, type Explanation, type Fact, keyOf, type Service } from "cloud-controller-host/sdk";

import { sameName } from "../arm/resource-id.ts";
import { sameId } from "./model/ids.ts";
import { isNearly, limits } from "./model/limits.ts";
import { hasBase, hasBaseInAnyCase, withoutInternal } from "./model/names.ts";
import { destinationsOf, sourcesOf } from "./plan/security-group/rule-contents.ts";
import type { Subject } from "./service/subject.ts";

/** Names shown of those that share a resource. */
const maxNamed = 10;

const use = (name: string, used: number, limit: number): Fact => ({
  name,
  value: `${used} of at most ${limit}${isNearly(used, limit) ? ", nearly all" : ""}`,
});

export const balancerUse = (balancer: LoadBalancer): readonly Fact[] => {
  const { loadBalancingRules = [], inboundNatRules = [], frontendIPConfigurations = [] } = balancer;
  return [
    use("rules", loadBalancingRules.length + inboundNatRules.length, limits.rulesPerLoadBalancer),
    use("frontends", frontendIPConfigurations.length, limits.frontendsPerLoadBalancer),
  ];
};

/** Every node is behind the internal and the external load balancer of a pair: their rules count together. */
export function interfaceUse({ name = "" }: LoadBalancer, all: readonly LoadBalancer[]): Fact {
  const pair = all.filter((other) => sameName(withoutInternal(other.name ?? ""), withoutInternal(name)));
  const byPool = Map.groupBy(
    pair.flatMap(({ loadBalancingRules = [] }) => loadBalancingRules),
    ({ backendAddressPool }) => (backendAddressPool?.id ?? "").toLowerCase().split("/").at(-1),
  );
  const most = Math.max(0, ...[...byPool.values()].map(({ length }) => length));
  return use("rules for each node", most, limits.rulesPerInterface);
}

export const tagUse = (tags: Readonly<Record<string, string>> | undefined): Fact =>
  use("tags of the public IP", Object.keys(tags ?? {}).length, limits.tagsPerResource);

export const securityGroupUse = ({ name = "", securityRules: rules = [] }: NetworkSecurityGroup): Explanation => ({
  title: `security group ${name}`,
  facts: [
    use("rules", rules.length, limits.rulesPerSecurityGroup),
    use("source prefixes", rules.flatMap(sourcesOf).length, limits.prefixesPerSecurityGroup),
    use("destination prefixes", rules.flatMap(destinationsOf).length, limits.prefixesPerSecurityGroup),
  ],
});

/** Other Services with a frontend or a rule on a load balancer, or, with a frontend, with a rule on that. */
export function usersOf(
  { frontendIPConfigurations: frontends = [], loadBalancingRules: rules = [] }: LoadBalancer,
  services: readonly Service[],
  { key }: Subject,
  frontend?: FrontendIPConfiguration,
): readonly string[] {
  const isOn = (base: string): boolean =>
    (frontend === undefined && frontends.some(({ name }) => hasBase(name, base))) ||
    rules.some(
      ({ name, frontendIPConfiguration }) =>
        hasBaseInAnyCase(name, base) && (frontend === undefined || sameId(frontendIPConfiguration?.id, frontend.id)),
    );
  const others = services.filter((service) => keyOf(service) !== key && service.metadata?.uid !== undefined);
  return others.filter((service) => isOn(defaultLoadBalancerName(service))).map(keyOf);
}

export function sharedWith(name: string, keys: readonly string[]): readonly Fact[] {
  if (keys.length === 0) return [];
  const more = keys.length - maxNamed;
  const named = keys.toSorted().slice(0, maxNamed).join(", ");
  return [{ name, value: more > 0 ? `${named} and ${more} more` : named }];
}
