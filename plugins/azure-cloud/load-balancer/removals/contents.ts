import type {
  LoadBalancer,
  NetworkSecurityGroup,
  PrivateLinkService,
  PublicIPAddress,
  SecurityRule,
} from "@azure/arm-network";

import { lastSegment } from "../../arm/resource-id.ts";
import type { ResourceChange } from "../../removal-guard/guard.ts";
import { type Item, type ItemOf, nameOf } from "../../removal-guard/items.ts";
import { sameId } from "../model/ids.ts";
import type { Observed } from "../model/model.ts";
import type { Plan, Write } from "../model/plan-model.ts";
import { ownerTag } from "../plan/private-link/remove.ts";
import { servicesIn } from "../plan/public-ip/owners.ts";
import { destinationsOf } from "../plan/security-group/rule-contents.ts";
import { isManaged } from "../plan/security-group/rules.ts";
import { memberOwners, ownedBy, ownedByName, ownedOpening, type Owners } from "./owners.ts";

interface Parts {
  readonly observed: Observed;
  readonly owners: Owners;
  /** False for a resource with a write in flight, which no read shows yet. */
  readonly isFree: (write: Write) => boolean;
}

/** Changes that a plan makes to parts that carry traffic, by resource. */
export function changesOf({ stages }: Plan, { observed, owners, isFree }: Parts): readonly ResourceChange[] {
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
      const isIdle = (item: Item): boolean =>
        item.kind === "members of backend pool" && !used.has(item.pool.toLowerCase());
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
        kind: leave === undefined ? ("members by interface" as const) : ("members" as const),
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

/** Lower-case names of the pools that a rule uses. */
function usedPools({ loadBalancingRules = [], outboundRules = [] }: LoadBalancer): ReadonlySet<string> {
  const pools = [
    ...loadBalancingRules.flatMap(({ backendAddressPool, backendAddressPools = [] }) => [
      backendAddressPool,
      ...backendAddressPools,
    ]),
    ...outboundRules.map(({ backendAddressPool }) => backendAddressPool),
  ];
  return new Set(pools.flatMap((pool) => (pool?.id ? [lastSegment(pool.id).toLowerCase()] : [])));
}

function itemsOfBalancer(balancer: LoadBalancer, owners: Owners, writers: readonly string[]): readonly Item[] {
  const { frontendIPConfigurations = [], loadBalancingRules = [], probes = [], backendAddressPools = [] } = balancer;
  const named = (kind: "frontends" | "rules" | "probes", list: readonly { readonly name?: string }[]) =>
    list.flatMap(({ name = "" }): readonly Item[] => {
      const owned = ownedByName(name, owners);
      return owned === undefined ? [] : [{ kind, name, ...owned }];
    });
  const addresses = frontendIPConfigurations.flatMap((one): readonly Item[] => {
    const { name: frontend = "", publicIPAddress, privateIPAddress } = one;
    const address = publicIPAddress?.id ? lastSegment(publicIPAddress.id) : privateIPAddress;
    const owned = ownedByName(frontend, owners);
    if (address === undefined || owned === undefined) return [];
    return [{ kind: "frontend addresses", frontend, address, ...owned }];
  });
  const members = backendAddressPools.flatMap(({ name: pool = "", loadBalancerBackendAddresses = [] }) =>
    loadBalancerBackendAddresses.flatMap(({ name, ipAddress: address }): readonly Item[] => {
      if (address === undefined) return [];
      const [node = name] = owners.nodesByAddress.get(address) ?? [];
      const ownersOfMember = memberOwners(pool, node, owners);
      return [{ kind: "members of backend pool", pool, address, owners: ownersOfMember, services: writers }];
    }),
  );
  return [
    ...named("frontends", frontendIPConfigurations),
    ...addresses,
    ...named("rules", loadBalancingRules),
    ...named("probes", probes),
    ...members,
  ];
}

function itemsOfSecurityGroup({ securityRules = [] }: NetworkSecurityGroup, owners: Owners): readonly Item[] {
  const items = new Map<string, Item>();
  for (const rule of securityRules.filter((one) => isManaged(one) && one.access === "Allow"))
    for (const address of destinationsOf(rule))
      for (const port of portsOfRule(rule)) {
        const part = { kind: "security rules", address, protocol: (rule.protocol ?? "*").toLowerCase(), port } as const;
        items.getOrInsertComputed(nameOf(part), () => ({ ...part, ...ownedOpening(part, owners) }));
      }
  return [...items.values()];
}

const portsOfRule = ({ destinationPortRange, destinationPortRanges = [] }: SecurityRule): readonly string[] =>
  destinationPortRange ? [...destinationPortRanges, destinationPortRange] : destinationPortRanges;

/** Public IPs and private link services are counted among those of the cluster in their resource group. */
function deletions<One extends { readonly id?: string }>(
  deleted: readonly Write[] = [],
  all: readonly One[],
  itemOf: (one: One) => ItemOf<"public IPs" | "private link services">,
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

const publicIPItem = ({ name = "", tags }: PublicIPAddress): ItemOf<"public IPs"> => ({
  kind: "public IPs",
  name,
  ...ownedBy(servicesIn(tags)),
});

const linkItem = ({ name = "", tags }: PrivateLinkService): ItemOf<"private link services"> => {
  const owner = tags?.[ownerTag];
  return { kind: "private link services", name, ...ownedBy(owner === undefined ? [] : [owner]) };
};
