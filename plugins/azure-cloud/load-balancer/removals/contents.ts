import type { LoadBalancer, NetworkSecurityGroup, PublicIPAddress, SecurityRule } from "@azure/arm-network";
import { defaultLoadBalancerName, keyOf } from "cloud-controller-host/sdk";

import type { ResourceChange } from "../../removal-guard/guard.ts";
import { type Item, itemKey, type Owner } from "../../removal-guard/rule.ts";
import { sameId } from "../model/ids.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import { isIPv6Name, isServiceFrontend, localPoolName } from "../model/names.ts";
import type { Plan, Write } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { statusAddresses } from "../plan/draft/ingress.ts";
import { internalAddresses, nodeName } from "../plan/draft/nodes.ts";
import { servicesIn } from "../plan/public-ip/owners.ts";
import { portsOf } from "../plan/security-group/access.ts";
import { destinationsOf, isManaged } from "../plan/security-group/rules.ts";
import { readSubject } from "../service/subject.ts";

/** Who owns names and addresses in Azure. */
export interface Owners {
  readonly keyByBase: ReadonlyMap<string, ServiceKey>;
  readonly byAddress: ReadonlyMap<string, readonly Owner[]>;
  /** Services whose security rules are for node ports, by protocol and port. */
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
  for (const subject of ofNodePorts)
    for (const [protocol, ports] of portsOf(subject))
      for (const port of ports) byNodePort.getOrInsertComputed(opening(protocol, port), () => []).push(subject.key);
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

const keysOf = (items: readonly Item[]): ReadonlySet<string> => new Set(items.map(itemKey));
const nothing: ReadonlySet<string> = new Set();

/** What the writes of a plan do to what carries traffic, by resource. */
export function changesOf({ stages }: Plan, observed: Observed, owners: Owners): readonly ResourceChange[] {
  const writes = stages.flatMap((stage) => stage.writes);
  const changes = writes.flatMap((write): readonly ResourceChange[] => changeOf(write, observed, owners));
  const deleted = writes.filter(({ kind }) => kind === "delete-public-ip");
  return [...changes, ...publicIPChanges(deleted, observed)];
}

function changeOf(write: Write, observed: Observed, owners: Owners): readonly ResourceChange[] {
  const { id, name } = write;
  switch (write.kind) {
    case "put-load-balancer":
    case "delete-load-balancer": {
      const current = observed.loadBalancers.find((one) => sameId(one.id, id));
      if (current === undefined) return [];
      const before = itemsOfBalancer(current, owners, write.services);
      const body = "body" in write ? write.body : undefined;
      const after = body === undefined ? nothing : keysOf(itemsOfBalancer(body, owners, write.services));
      const kept = body === undefined ? [] : replacedProbes(current, body);
      return [{ id, title: `load balancer ${name}`, before, after: after.union(new Set(kept)) }];
    }
    case "put-security-group": {
      if (observed.securityGroup === undefined) return [];
      const before = itemsOfSecurityGroup(observed.securityGroup, owners);
      const after = keysOf(itemsOfSecurityGroup(write.body, owners));
      return [{ id, title: `security group ${name}`, before, after }];
    }
    case "update-members": {
      const members = observed.poolMembers.get(id.toLowerCase()) ?? [];
      const leave = new Set(write.leave);
      const items = members.map(({ ipConfigurationId, node }) => ({
        kind: "members",
        name: node ?? ipConfigurationId,
        owners: memberOwners(name, node, owners),
        services: write.services,
        stays: !leave.has(ipConfigurationId),
      }));
      const after = keysOf(items.filter(({ stays }) => stays));
      return [{ id, title: `backend pool ${name} of load balancer ${write.loadBalancer}`, before: items, after }];
    }
    default:
      return [];
  }
}

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
      if (!isServiceFrontend(name)) return [];
      const key = owners.keyByBase.get(name.split("-", 1)[0]?.toLowerCase() ?? "");
      return [{ kind, name, ...ownedBy(key === undefined ? [] : [key]) }];
    });
  const members = backendAddressPools.flatMap(({ name: pool = "", loadBalancerBackendAddresses = [] }) =>
    loadBalancerBackendAddresses.flatMap(({ name: node, ipAddress }): readonly Item[] => {
      if (ipAddress === undefined) return [];
      const known = owners.byAddress.get(ipAddress)?.find(({ kind }) => kind === "Node")?.name ?? node;
      const kind = `members of backend pool ${pool}`;
      return [{ kind, name: ipAddress, owners: memberOwners(pool, known, owners), services }];
    }),
  );
  return [
    ...named("frontends", frontendIPConfigurations),
    ...named("rules", loadBalancingRules),
    ...named("probes", probes),
    ...members,
  ];
}

const ownedBy = (keys: readonly ServiceKey[]): Pick<Item, "owners" | "services"> => ({
  owners: keys.map((name) => ({ kind: "Service", name })),
  services: keys,
});

/** Probes that go with their rules, or whose rules have another one: no traffic is lost with them alone. */
function replacedProbes(before: LoadBalancer, after: LoadBalancer): readonly string[] {
  const rules = new Map((after.loadBalancingRules ?? []).map((rule) => [rule.name?.toLowerCase(), rule]));
  const needed = new Set(
    (before.loadBalancingRules ?? []).flatMap(({ name, probe }) => {
      const successor = rules.get(name?.toLowerCase());
      return successor !== undefined && successor.probe === undefined ? (probe?.id?.toLowerCase() ?? []) : [];
    }),
  );
  return (before.probes ?? []).flatMap(({ id = "", name = "" }) =>
    needed.has(id.toLowerCase()) ? [] : [itemKey({ kind: "probes", name })],
  );
}

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
  const services = owners.byNodePort.get(name.slice(address.length + 1)) ?? [];
  return { owners: services.length === 0 ? [] : nodes, services };
}

const portsOfRule = ({ destinationPortRange, destinationPortRanges = [] }: SecurityRule): readonly string[] =>
  destinationPortRange ? [...destinationPortRanges, destinationPortRange] : destinationPortRanges;

/** Public IPs are counted among those of the cluster in their resource group. */
function publicIPChanges(deleted: readonly Write[], { publicIPs }: Observed): readonly ResourceChange[] {
  return [...Map.groupBy(deleted, ({ resourceGroup }) => resourceGroup.toLowerCase())].map(([group, writes]) => {
    const prefix = writes[0]?.id.slice(0, writes[0].id.lastIndexOf("/") + 1) ?? "";
    const before = publicIPs.filter(({ id }) => id?.toLowerCase().startsWith(prefix.toLowerCase())).map(itemOf);
    const gone = new Set(writes.map(({ name }) => name.toLowerCase()));
    const after = keysOf(before.filter(({ name }) => !gone.has(name.toLowerCase())));
    return { id: prefix.slice(0, -1), title: `resource group ${group}`, before, after };
  });
}

const itemOf = ({ name = "", tags }: PublicIPAddress): Item => ({
  kind: "public IPs",
  name,
  ...ownedBy(servicesIn(tags)),
});

/** The family of a resource by its name. */
export const familyOfName = (name: string): "IPv4" | "IPv6" => (isIPv6Name(name) ? "IPv6" : "IPv4");
