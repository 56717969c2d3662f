import type {
  BackendAddressPool,
  FrontendIPConfiguration,
  LoadBalancer,
  LoadBalancingRule,
  PrivateLinkService,
} from "@azure/arm-network";
import { type Explanation, type Fact, labels, type Node, type Service } from "cloud-controller-host/sdk";

import { lastSegment } from "../arm/resource-id.ts";
import type { NetworkResources } from "../arm/writes/network-resources.ts";
import type { ConfigKeys } from "../config/schema.ts";
import { type ClusterView, explainDrain } from "./explain-drain.ts";
import { addressSource, publicIPSource, type RuleSettings, ruleSources, settingsOf } from "./explain-settings.ts";
import { balancerUse, interfaceUse, securityGroupUse, sharedWith, tagUse, usersOf } from "./explain-use.ts";
import { sameId } from "./model/ids.ts";
import { hasBase } from "./model/names.ts";
import type { PlannerConfig } from "./model/planner-config.ts";
import { servicesIn } from "./plan/public-ip/owners.ts";
import { destinationsOf } from "./plan/security-group/rule-contents.ts";
import { readSubject, type Subject } from "./service/subject.ts";

interface Parts {
  readonly keys: ConfigKeys;
  readonly config: PlannerConfig;
  readonly network: NetworkResources;
}

/** Explains what a Service has in Azure, from its load balancer down to the nodes, and what it shares with others. */
export async function explainService(
  service: Service,
  { nodes, services }: { readonly nodes: readonly Node[]; readonly services: readonly Service[] },
  { keys, config, network }: Parts,
): Promise<readonly Explanation[]> {
  const { subject, problems, warnings } = readSubject(service, config);
  const groups = [...new Set([config.resourceGroup, subject.publicIPGroup])];
  const [balancers, publicIPs, securityGroups, links] = await Promise.all([
    network.loadBalancers.all(config.loadBalancerResourceGroup),
    Promise.all(groups.map((group) => network.publicIPs.all(group))),
    network.securityGroups.all(config.securityGroupResourceGroup),
    network.privateLinkServices.all(config.privateLinkResourceGroup),
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
    settingsOf(service, { keys, config }, [...problems, ...warnings]),
    ...(mine.length === 0 ? [{ title: "no load balancer has a frontend of this Service" }] : []),
    ...mine.map(({ balancer, frontends }) => {
      const facts = [
        ...(config.pools === "interfaces" ? [interfaceUse(balancer, balancers)] : []),
        ...sharedWith("other Services here", usersOf(balancer, services, subject)),
      ];
      return explainBalancer(balancer, frontends, { nodes, facts, links, subject, config }, (frontend) => {
        const publicIP = addresses.get(frontend.publicIPAddress?.id?.toLowerCase() ?? "");
        const ruled = usersOf(balancer, services, subject, frontend);
        const others = new Set([...servicesIn(publicIP?.tags).filter((key) => key !== subject.key), ...ruled]);
        return [
          { name: "address", value: address(frontend), source: addressSource(subject, address(frontend)) },
          ...(publicIP === undefined
            ? []
            : [
                { name: "public IP", value: publicIP.name ?? "", source: publicIPSource(subject, publicIP.name) },
                tagUse(publicIP.tags),
              ]),
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

interface Surroundings extends RuleSettings {
  readonly nodes: readonly Node[];
  readonly facts: readonly Fact[];
  readonly links: readonly PrivateLinkService[];
}

function explainBalancer(
  balancer: LoadBalancer,
  frontends: readonly FrontendIPConfiguration[],
  { nodes, facts, links, ...settings }: Surroundings,
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
        children: [
          ...rulesOf(frontend).map((rule) => explainRule(rule, balancer, settings)),
          ...links.filter((link) => isLinkOf(link, frontend)).map(explainLink),
        ],
      })),
      ...pools.filter(({ id }) => used.has(id?.toLowerCase())).map((pool) => explainPool(pool, nodes)),
    ],
  };
}

function explainRule(rule: LoadBalancingRule, { probes = [] }: LoadBalancer, settings: RuleSettings): Explanation {
  const probe = probes.find(({ id }) => sameId(id, rule.probe?.id));
  const path = probe?.requestPath ?? "";
  // A rule of another Service has that one's settings.
  const sources = hasBase(rule.name, settings.subject.base) ? ruleSources(settings, rule.frontendPort ?? 0) : undefined;
  return {
    title: `rule ${rule.name}`,
    facts: [
      { name: "ports", value: `${rule.protocol} ${rule.frontendPort} to ${rule.backendPort}` },
      {
        name: "idle timeout",
        value: `${rule.idleTimeoutInMinutes} min`,
        ...(sources && { source: sources.idleTimeout }),
      },
      probe === undefined
        ? { name: "probe", value: "none" }
        : {
            name: "probe",
            value: `${probe.protocol} ${probe.port}${path} every ${probe.intervalInSeconds} s`,
            ...(sources && { source: sources.probe }),
          },
    ],
  };
}

const isLinkOf = ({ loadBalancerFrontendIpConfigurations = [] }: PrivateLinkService, { id }: FrontendIPConfiguration) =>
  loadBalancerFrontendIpConfigurations.some((one) => sameId(one.id, id));

function explainLink(link: PrivateLinkService): Explanation {
  const connections = (link.privateEndpointConnections ?? []).map(
    ({ name = "", privateLinkServiceConnectionState: state }) => `${name} ${state?.status ?? ""}`,
  );
  return {
    title: `private link service ${link.name}`,
    facts: [
      { name: "state", value: link.provisioningState ?? "" },
      ...(link.alias === undefined ? [] : [{ name: "alias", value: link.alias }]),
      { name: "addresses", value: `${link.ipConfigurations?.length ?? 0}` },
      { name: "connections", value: connections.join(", ") || "none" },
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

/** Why a node leaves, and the backend pools that its VM is in. */
export async function explainNode(node: Node, parts: Parts & ClusterView): Promise<readonly Explanation[]> {
  const { config, network } = parts;
  const balancers = await network.loadBalancers.all(config.loadBalancerResourceGroup);
  const pools = balancers.map((balancer) => ({
    title: `load balancer ${balancer.name}`,
    facts: (balancer.backendAddressPools ?? []).flatMap((pool) =>
      (explainPool(pool, [node]).facts ?? []).map(({ value }) => ({
        name: `pool ${lastSegment(pool.id ?? "")}`,
        value,
      })),
    ),
  }));
  return [...explainDrain(node, balancers, parts), ...pools];
}
