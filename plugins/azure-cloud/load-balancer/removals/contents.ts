import type {
  LoadBalancer,
  NetworkSecurityGroup,
  PrivateLinkService,
  PublicIPAddress,
  SecurityRule,
} from "@azure/arm-network";
import { defaultLoadBalancerName, keyOf } from "cloud-controller-host/sdk";

import { lastSegment } from "../../arm/resource-id.ts";
import type { ResourceChange } from "../../removal-guard/guard.ts";
import type { Item, Owner } from "../../removal-guard/rule.ts";
import { familyOf } from "../model/addresses.ts";
import { sameId } from "../model/ids.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import { isIPv6Name, isServiceFrontend, localPoolName } from "../model/names.ts";
import type { Plan, Write } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { statusAddresses } from "../plan/draft/ingress.ts";
import { internalAddresses, nodeName } from "../plan/draft/nodes.ts";
import { ownerTag } from "../plan/private-link/remove.ts";
import { servicesIn } from "../plan/public-ip/owners.ts";
import { opensPorts, portsOf } from "../plan/security-group/access.ts";
import { destinationsOf } from "../plan/security-group/rule-contents.ts";
import { isManaged } from "../plan/security-group/rules.ts";
import { readSubject } from "../service/subject.ts";

/** Members of a pool of network interfaces that is to become one of addresses. It has none in between. */
export const interfaceMembers = "members by interface";

/** The Services that own names and addresses in Azure. */
export interface Owners {
  readonly keyByBase: ReadonlyMap<string, ServiceKey>;
  readonly byAddress: ReadonlyMap<string, readonly Owner[]>;
  /** Services whose security rules are for node ports, by family, protocol and port. */
  readonly byNodePort: ReadonlyMap<string, readonly ServiceKey[]>;
  /** Services with a pool of their own, by its lower-case name. */
  readonly keyByPool: ReadonlyMap<string, ServiceKey>;
}

/** Of the cluster's Services and nodes, and of Services that only the batch still has. */
export function ownersOf(
  batch: readonly ServiceIntent[],
  { services, nodes }: Observed,
  config: PlannerConfig,
): Owners {
  const all = [...services, ...batch.map(({ service }) => service)];
  const deleted = new Set(batch.flatMap(({ service, action }) => (action === "delete" ? [keyOf(service)] : [])));
  const ofNodePorts = services
    .map((service) => readSubject(service, config).subject)
    .filter(({ floatingIP, key }) => !floatingIP && !deleted.has(key));
  const byNodePort = new Map<string, ServiceKey[]>();
  for (const family of ["IPv4", "IPv6"] as const)
    for (const subject of ofNodePorts.filter((one) => opensPorts(one, family)))
      for (const [protocol, ports] of portsOf(subject))
        for (const port of ports)
          byNodePort.getOrInsertComputed(`${family} ${opening(protocol, port)}`, () => []).push(subject.key);
  const byAddress = new Map<string, Owner[]>();
  const add = (address: string, owner: Owner): void => {
    const known = byAddress.getOrInsertComputed(address, () => []);
    if (!known.some(({ kind, name }) => kind === owner.kind && name === owner.name)) known.push(owner);
  };
  for (const service of all)
    for (const address of statusAddresses(service)) add(address, { kind: "Service", name: keyOf(service) });
  for (const node of nodes)
    for (const address of internalAddresses(node)) add(address, { kind: "Node", name: nodeName(node) });
  return {
    keyByBase: new Map(all.map((service) => [defaultLoadBalancerName(service), keyOf(service)])),
    byAddress,
    byNodePort,
    keyByPool: new Map(
      all.flatMap((service) =>
        (["IPv4", "IPv6"] as const).map((family) => [localPoolName(keyOf(service), family), keyOf(service)] as const),
      ),
    ),
  };
}

interface Parts {
  readonly owners: Owners;
  /** False for a resource with a write in flight, which no read shows yet. */
  readonly isFree: (write: Write) => boolean;
}

/** Changes that a plan makes to parts that carry traffic, by resource. */
export function changesOf(
  { stages }: Plan,
  { observed, owners, isFree }: Parts & { readonly observed: Observed },
): readonly ResourceChange[] {
  const writes = stages.flatMap((stage) => stage.writes);
  const changes = writes.flatMap((write): readonly ResourceChange[] =>
    changeOf(write, observed, owners).map((change) => (isFree(write) ? change : { ...change, isVolatile: true })),
  );
  const { privateLinkServices, publicIPs } = observed;
  const deleted = Map.groupBy(writes, ({ kind }) => kind);
  return [
    ...changes,
    ...deletions(deleted.get("delete-public-ip"), publicIPs, publicIPItem),
    ...deletions(deleted.get("delete-private-link-service"), privateLinkServices, linkItem),
  ];
}

/** Items of the resources that are always read whole: an item that is missing there is lost. */
export const contentsOf = (
  { loadBalancers, securityGroup }: Pick<Observed, "loadBalancers" | "securityGroup">,
  owners: Owners,
): readonly { readonly id: string; readonly items: readonly Item[] }[] => [
  ...loadBalancers.map((one) => ({ id: one.id ?? "", items: itemsOfBalancer(one, owners, []) })),
  ...(securityGroup === undefined
    ? []
    : [{ id: securityGroup.id ?? "", items: itemsOfSecurityGroup(securityGroup, owners) }]),
];

/** Items of a resource after the write; undefined unless the resource is always read whole. */
export function itemsAfter(write: Write, owners: Owners): readonly Item[] | undefined {
  if (write.kind === "delete-load-balancer") return [];
  if (write.kind === "put-load-balancer") return itemsOfBalancer(write.body, owners, write.services);
  return write.kind === "put-security-group" ? itemsOfSecurityGroup(write.body, owners) : undefined;
}

function changeOf(write: Write, observed: Observed, owners: Owners): readonly ResourceChange[] {
  const { id, name, services: writers } = write;
  switch (write.kind) {
    case "put-load-balancer":
    case "delete-load-balancer": {
      const current = observed.loadBalancers.find((one) => sameId(one.id, id)) ?? {};
      const body = write.kind === "put-load-balancer" ? write.body : {};
      const before = itemsOfBalancer(current, owners, writers);
      const after = itemsOfBalancer(body, owners, writers);
      const used = usedPools(body);
      const isIdle = ({ kind }: Item): boolean => kind.startsWith(membersOf("")) && !used.has(kind.toLowerCase());
      return [{ id, title: `load balancer ${name}`, before, after, writers, isIdle }];
    }
    case "put-security-group": {
      if (observed.securityGroup === undefined) return [];
      const before = itemsOfSecurityGroup(observed.securityGroup, owners);
      const after = itemsOfSecurityGroup(write.body, owners);
      return [{ id, title: `security group ${name}`, before, after, writers }];
    }
    case "release-pools":
    case "update-members": {
      // Of a load balancer that is deleted, its other parts are looked at.
      if (write.kind === "release-pools" && !write.poolIds.includes(id)) return [];
      const members = observed.poolMembers.get(id.toLowerCase()) ?? [];
      const leave = write.kind === "update-members" ? new Set(write.leave) : undefined;
      const items = members.map(({ ipConfigurationId, node }) => ({
        kind: leave === undefined ? interfaceMembers : "members",
        name: node ?? ipConfigurationId,
        owners: memberOwners(name, node, owners),
        services: writers,
        stays: leave?.has(ipConfigurationId) === false,
      }));
      const title = `backend pool ${name} of load balancer ${id.split("/").at(-3)}`;
      return [{ id, title, before: items, after: items.filter(({ stays }) => stays), writers, isVolatile: true }];
    }
    default:
      return [];
  }
}

/** Kinds of the members of pools that a rule uses. */
function usedPools({ loadBalancingRules = [], outboundRules = [] }: LoadBalancer): ReadonlySet<string> {
  const pools = [
    ...loadBalancingRules.flatMap(({ backendAddressPool, backendAddressPools = [] }) => [
      backendAddressPool,
      ...backendAddressPools,
    ]),
    ...outboundRules.map(({ backendAddressPool }) => backendAddressPool),
  ];
  return new Set(pools.flatMap((pool) => (pool?.id ? membersOf(lastSegment(pool.id)).toLowerCase() : [])));
}

const membersOf = (pool: string): string => `members of backend pool ${pool}`;

/** A member of a Service's own pool leaves with the endpoint. */
function memberOwners(pool: string, node: string | undefined, { keyByPool }: Owners): readonly Owner[] {
  if (node === undefined) return [];
  const key = keyByPool.get(pool.toLowerCase());
  return key === undefined ? [{ kind: "Node", name: node }] : [{ kind: "endpoint", name: `${key} ${node}` }];
}

function itemsOfBalancer(balancer: LoadBalancer, owners: Owners, services: readonly string[]): readonly Item[] {
  const { frontendIPConfigurations = [], loadBalancingRules = [], probes = [], backendAddressPools = [] } = balancer;
  const named = (kind: string, list: readonly { readonly name?: string }[]): readonly Item[] =>
    list.flatMap(({ name = "" }) => {
      const [own = ""] = name.split(" ", 1);
      if (!isServiceFrontend(own)) return [];
      const key = owners.keyByBase.get(own.split("-", 1)[0]?.toLowerCase() ?? "");
      return [{ kind, name, ...ownedBy(key === undefined ? [] : [key]) }];
    });
  const members = backendAddressPools.flatMap(({ name: pool = "", loadBalancerBackendAddresses = [] }) =>
    loadBalancerBackendAddresses.flatMap(({ name: node, ipAddress }): readonly Item[] => {
      if (ipAddress === undefined) return [];
      const known = owners.byAddress.get(ipAddress)?.find(({ kind }) => kind === "Node")?.name ?? node;
      return [{ kind: membersOf(pool), name: ipAddress, owners: memberOwners(pool, known, owners), services }];
    }),
  );
  const addresses = frontendIPConfigurations.flatMap((frontend) => {
    const address = frontend.publicIPAddress?.id ? lastSegment(frontend.publicIPAddress.id) : frontend.privateIPAddress;
    return address === undefined ? [] : [{ name: `${frontend.name} ${address}` }];
  });
  return [
    ...named("frontends", frontendIPConfigurations),
    ...named("frontend addresses", addresses),
    ...named("rules", loadBalancingRules),
    ...named("probes", probes),
    ...members,
  ];
}

const ownedBy = (keys: readonly ServiceKey[]): Pick<Item, "owners" | "services"> => ({
  owners: keys.map((name) => ({ kind: "Service", name })),
  services: keys,
});

/** Openings: an address with a protocol and a port, whichever rule has them. */
function itemsOfSecurityGroup({ securityRules = [] }: NetworkSecurityGroup, owners: Owners): readonly Item[] {
  const items = new Map<string, Item>();
  for (const rule of securityRules.filter((one) => isManaged(one) && one.access === "Allow"))
    for (const address of destinationsOf(rule))
      for (const port of portsOfRule(rule)) {
        const name = `${address} ${opening(rule.protocol ?? "*", port)}`;
        if (!items.has(name)) items.set(name, { kind: "security rules", name, ...openedFor(address, name, owners) });
      }
  return [...items.values()];
}

const opening = (protocol: string, port: string | number): string => `${protocol.toLowerCase()} ${port}`;

/** The address of a node is open for as long as a Service uses the node port. */
function openedFor(address: string, name: string, owners: Owners): Pick<Item, "owners" | "services"> {
  const all = owners.byAddress.get(address) ?? [];
  const nodes = all.filter(({ kind }) => kind === "Node");
  if (nodes.length === 0) return { owners: all, services: all.map((owner) => owner.name) };
  const services = owners.byNodePort.get(`${familyOf(address)} ${name.slice(address.length + 1)}`) ?? [];
  return { owners: services.length === 0 ? [] : nodes, services };
}

const portsOfRule = ({ destinationPortRange, destinationPortRanges = [] }: SecurityRule): readonly string[] =>
  destinationPortRange ? [...destinationPortRanges, destinationPortRange] : destinationPortRanges;

/** Public IPs and private link services are counted among those of the cluster in their resource group. */
function deletions<One extends { readonly id?: string }>(
  deleted: readonly Write[] = [],
  all: readonly One[],
  itemOf: (one: One) => Item,
): readonly ResourceChange[] {
  return [...Map.groupBy(deleted, ({ resourceGroup }) => resourceGroup.toLowerCase())].map(([group, writes]) => {
    const prefix = writes[0]?.id.slice(0, writes[0].id.lastIndexOf("/") + 1) ?? "";
    const before = all.filter(({ id }) => id?.toLowerCase().startsWith(prefix.toLowerCase())).map(itemOf);
    const gone = new Set(writes.map(({ name }) => name.toLowerCase()));
    const after = before.filter(({ name }) => !gone.has(name.toLowerCase()));
    const writers = [...new Set(writes.flatMap(({ services }) => services))];
    return { id: prefix.slice(0, -1), title: `resource group ${group}`, before, after, writers, isVolatile: true };
  });
}

const publicIPItem = ({ name = "", tags }: PublicIPAddress): Item => ({
  kind: "public IPs",
  name,
  ...ownedBy(servicesIn(tags)),
});

const linkItem = ({ name = "", tags }: PrivateLinkService): Item => {
  const owner = tags?.[ownerTag];
  return { kind: "private link services", name, ...ownedBy(owner === undefined ? [] : [owner]) };
};

/** The family of a resource by its name. */
export const familyOfName = (name: string): "IPv4" | "IPv6" => (isIPv6Name(name) ? "IPv6" : "IPv4");
