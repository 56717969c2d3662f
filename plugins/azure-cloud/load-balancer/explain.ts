import type { BackendAddressPool, FrontendIPConfiguration, LoadBalancer, LoadBalancingRule } from "@azure/arm-network";
import { type Explanation, type Fact, keyOf, labels, type Node, type Service } from "cloud-controller-host/sdk";

import { lastSegment } from "../arm/resource-id.ts";
import type { NetworkResources } from "../arm/writes/network-resources.ts";
import { balancerUse, interfaceUse, securityGroupUse, sharedWith, tagUse, usersOf } from "./explain-use.ts";
import { sameId } from "./model/ids.ts";
import { hasBase } from "./model/names.ts";
import type { PlannerConfig } from "./model/planner-config.ts";
import { servicesIn } from "./plan/public-ip/owners.ts";
import { destinationsOf } from "./plan/security-group/rules.ts";
import { annotationPrefix } from "./service/annotation-rows.ts";
import { readSubject, type Subject } from "./service/subject.ts";

interface Parts {
  readonly config: PlannerConfig;
  readonly network: Pick<NetworkResources, "loadBalancers" | "publicIPs" | "securityGroups">;
}

/** What a Service has in Azure, from its load balancer down to the nodes, and what it shares with others. */
export async function explainService(
  service: Service,
  { nodes, services }: { readonly nodes: readonly Node[]; readonly services: readonly Service[] },
  { config, network }: Parts,
): Promise<readonly Explanation[]> {
  const { subject, problems, warnings } = readSubject(service, config);
  const groups = [...new Set([config.resourceGroup, subject.publicIPGroup])];
  const [balancers, publicIPs, securityGroups] = await Promise.all([
    network.loadBalancers.all(config.loadBalancerResourceGroup),
    Promise.all(groups.map((group) => network.publicIPs.all(group))),
    network.securityGroups.all(config.securityGroupResourceGroup),
  ]);
  const addresses = new Map(publicIPs.flat().map((one) => [one.id?.toLowerCase() ?? "", one]));
  const mine = balancers.flatMap((balancer) => {
    const frontends = (balancer.frontendIPConfigurations ?? []).filter((frontend) => isOf(frontend, subject, balancer));
    return frontends.length === 0 ? [] : [{ balancer, frontends }];
  });
  const address = (frontend: FrontendIPConfiguration): string =>
    addresses.get(frontend.publicIPAddress?.id?.toLowerCase() ?? "")?.ipAddress ?? frontend.privateIPAddress ?? "";
  const own = new Set(mine.flatMap(({ frontends }) => frontends.map(address)));
  const rules = securityGroups.flatMap(({ name = "", securityRules = [] }) =>
    securityRules
      .filter((rule) => destinationsOf(rule).some((destination) => own.has(destination)))
      .map((rule) => ({
        title: `security rule ${rule.name} of ${name}`,
        facts: [
          { name: "access", value: `${rule.access} ${rule.protocol} ${(rule.destinationPortRanges ?? []).join(", ")}` },
          {
            name: "sources",
            value: [rule.sourceAddressPrefix, ...(rule.sourceAddressPrefixes ?? [])].filter(Boolean).join(", "),
          },
          { name: "priority", value: `${rule.priority}` },
        ],
      })),
  );
  return [
    settingsOf(service, config, [...problems, ...warnings]),
    ...(mine.length === 0 ? [{ title: "no load balancer has a frontend of this Service" }] : []),
    ...mine.map(({ balancer, frontends }) => {
      const facts = [
        ...(config.pools === "interfaces" ? [interfaceUse(balancer, balancers)] : []),
        ...sharedWith("other Services here", usersOf(balancer, services, subject)),
      ];
      return explainBalancer(balancer, frontends, { nodes, facts }, (frontend) => {
        const publicIP = addresses.get(frontend.publicIPAddress?.id?.toLowerCase() ?? "");
        const ruled = usersOf(balancer, services, subject, frontend);
        const others = new Set([...servicesIn(publicIP?.tags).filter((key) => key !== subject.key), ...ruled]);
        return [
          { name: "address", value: address(frontend) },
          ...(publicIP === undefined ? [] : [{ name: "public IP", value: publicIP.name ?? "" }, tagUse(publicIP.tags)]),
          ...sharedWith("shared with", [...others]),
        ];
      });
    }),
    ...(rules.length === 0 ? [] : securityGroups.map(securityGroupUse)),
    ...rules,
  ];
}

/** By its name, or because a rule of the Service has it as its frontend. */
const isOf = (frontend: FrontendIPConfiguration, { base }: Subject, balancer: LoadBalancer): boolean =>
  hasBase(frontend.name, base) ||
  (balancer.loadBalancingRules ?? []).some(
    (rule) => hasBase(rule.name, base) && sameId(rule.frontendIPConfiguration?.id, frontend.id),
  );

/** Where a setting comes from, for those that are not annotations. */
const configured: readonly (readonly [name: string, value: (config: PlannerConfig) => string, source: string])[] = [
  ["cluster name", ({ clusterName }) => clusterName, "--cluster-name"],
  ["SKU", ({ sku }) => sku, "config key loadBalancerSku"],
  ["pool members", ({ pools }) => pools, "config key loadBalancerBackendPoolConfigurationType"],
  [
    "resource group",
    (config) => config.loadBalancerResourceGroup,
    "config key loadBalancerResourceGroup or resourceGroup",
  ],
  ["security group", ({ securityGroup }) => securityGroup, "config key securityGroupName"],
  ["subnet", ({ virtualNetwork, subnet }) => `${virtualNetwork.name}/${subnet}`, "config keys vnetName and subnetName"],
];

function settingsOf(service: Service, config: PlannerConfig, problems: readonly string[]): Explanation {
  const given = Object.entries(service.metadata?.annotations ?? {}).filter(([key]) => key.startsWith(annotationPrefix));
  return {
    title: `settings of ${keyOf(service)}`,
    facts: [
      ...given.map(([key, value]) => ({ name: key.slice(annotationPrefix.length), value, source: "annotation" })),
      ...configured.map(([name, valueOf, source]) => ({ name, value: valueOf(config), source })),
      ...problems.map((value) => ({ name: "problem", value })),
    ],
  };
}

function explainBalancer(
  balancer: LoadBalancer,
  frontends: readonly FrontendIPConfiguration[],
  { nodes, facts }: { readonly nodes: readonly Node[]; readonly facts: readonly Fact[] },
  factsOf: (frontend: FrontendIPConfiguration) => readonly Fact[],
): Explanation {
  const { loadBalancingRules: rules = [], backendAddressPools: pools = [] } = balancer;
  const rulesOf = (frontend: FrontendIPConfiguration): readonly LoadBalancingRule[] =>
    rules.filter((rule) => sameId(rule.frontendIPConfiguration?.id, frontend.id));
  const used = new Set(frontends.flatMap(rulesOf).map((rule) => rule.backendAddressPool?.id?.toLowerCase()));
  return {
    title: `load balancer ${balancer.name}`,
    facts: [
      { name: "SKU", value: balancer.sku?.name ?? "" },
      { name: "state", value: balancer.provisioningState ?? "" },
      ...balancerUse(balancer),
      ...facts,
    ],
    children: [
      ...frontends.map((frontend) => ({
        title: `frontend ${frontend.name}`,
        facts: factsOf(frontend),
        children: rulesOf(frontend).map((rule) => explainRule(rule, balancer)),
      })),
      ...pools.filter(({ id }) => used.has(id?.toLowerCase())).map((pool) => explainPool(pool, nodes)),
    ],
  };
}

function explainRule(rule: LoadBalancingRule, { probes = [] }: LoadBalancer): Explanation {
  const probe = probes.find(({ id }) => sameId(id, rule.probe?.id));
  const path = probe?.requestPath ?? "";
  return {
    title: `rule ${rule.name}`,
    facts: [
      { name: "ports", value: `${rule.protocol} ${rule.frontendPort} to ${rule.backendPort}` },
      { name: "idle timeout", value: `${rule.idleTimeoutInMinutes} min` },
      {
        name: "probe",
        value:
          probe === undefined ? "none" : `${probe.protocol} ${probe.port}${path} every ${probe.intervalInSeconds} s`,
      },
    ],
  };
}

/** Each node, and why one is not a member. */
function explainPool(pool: BackendAddressPool, nodes: readonly Node[]): Explanation {
  const interfaces = (pool.backendIPConfigurations ?? []).map(({ id = "" }) => id.toLowerCase());
  const addresses = new Set((pool.loadBalancerBackendAddresses ?? []).map(({ ipAddress }) => ipAddress ?? ""));
  const facts = nodes.map((node): Fact => {
    const instance = (node.spec?.providerID ?? "").replace(/^\w+:\/\//u, "").toLowerCase();
    const internal = node.status?.addresses?.filter(({ type }) => type === "InternalIP") ?? [];
    const isMember =
      (instance !== "" && interfaces.some((id) => id.startsWith(`${instance}/`))) ||
      internal.some(({ address }) => addresses.has(address));
    return { name: node.metadata?.name ?? "", value: isMember ? "member" : `not a member: ${absenceOf(node)}` };
  });
  return { title: `pool ${pool.name}`, facts };
}

function absenceOf({ metadata, spec }: Node): string {
  if (metadata?.labels?.[labels.excludeFromLoadBalancers] !== undefined)
    return `label ${labels.excludeFromLoadBalancers}`;
  if ((spec?.providerID ?? "") === "") return "it has no provider ID yet";
  if (metadata?.deletionTimestamp !== undefined) return "it is being deleted";
  return "Azure does not show its network interface in the pool; plan shows whether it will join";
}

/** The backend pools that a node's VM is in. */
export async function explainNode(node: Node, { config, network }: Parts): Promise<readonly Explanation[]> {
  const balancers = await network.loadBalancers.all(config.loadBalancerResourceGroup);
  return balancers.map((balancer) => ({
    title: `load balancer ${balancer.name}`,
    facts: (balancer.backendAddressPools ?? []).flatMap((pool) =>
      (explainPool(pool, [node]).facts ?? []).map(({ value }) => ({
        name: `pool ${lastSegment(pool.id ?? "")}`,
        value,
      })),
    ),
  }));
}
