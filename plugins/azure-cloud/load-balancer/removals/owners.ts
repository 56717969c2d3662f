import { defaultLoadBalancerName, keyOf } from "cloud-controller-host/sdk";

import type { Item, ItemOf, Owner } from "../../removal-guard/items.ts";
import { familyOf } from "../model/addresses.ts";
import type { Family, Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import { isServiceFrontend, localPoolName } from "../model/names.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { statusAddresses } from "../plan/draft/ingress.ts";
import { internalAddresses, nodeName } from "../plan/draft/nodes.ts";
import { opensPorts, portsOf } from "../plan/security-group/access.ts";
import { readSubject } from "../service/subject.ts";

/** The Services and nodes that own names and addresses in Azure. */
export interface Owners {
  readonly keyByBase: ReadonlyMap<string, ServiceKey>;
  /** Services with a pool of their own, by its lower-case name. */
  readonly keyByPool: ReadonlyMap<string, ServiceKey>;
  readonly keysByAddress: ReadonlyMap<string, ReadonlySet<ServiceKey>>;
  readonly nodesByAddress: ReadonlyMap<string, ReadonlySet<string>>;
  /** Services whose security rules are for node ports, by `portKey`. */
  readonly keysByNodePort: ReadonlyMap<string, readonly ServiceKey[]>;
}

type Owned = Pick<Item, "owners" | "services">;

const families: readonly Family[] = ["IPv4", "IPv6"];

/** Of the cluster's Services and nodes, and of Services that only the batch still has. */
export function ownersOf(batch: readonly ServiceIntent[], observed: Observed, config: PlannerConfig): Owners {
  const all = [...observed.services, ...batch.map(({ service }) => service)];
  const keysByAddress = new Map<string, Set<ServiceKey>>();
  for (const service of all)
    for (const address of statusAddresses(service))
      keysByAddress.getOrInsertComputed(address, () => new Set()).add(keyOf(service));
  const nodesByAddress = new Map<string, Set<string>>();
  for (const node of observed.nodes)
    for (const address of internalAddresses(node))
      nodesByAddress.getOrInsertComputed(address, () => new Set()).add(nodeName(node));
  const pools = all.flatMap((service) =>
    families.map((family) => [localPoolName(keyOf(service), family), keyOf(service)] as const),
  );
  return {
    keyByBase: new Map(all.map((service) => [defaultLoadBalancerName(service), keyOf(service)])),
    keyByPool: new Map(pools),
    keysByAddress,
    nodesByAddress,
    keysByNodePort: keysByNodePort(batch, observed, config),
  };
}

function keysByNodePort(
  batch: readonly ServiceIntent[],
  { services }: Observed,
  config: PlannerConfig,
): Owners["keysByNodePort"] {
  const deleted = new Set(batch.flatMap(({ service, action }) => (action === "delete" ? [keyOf(service)] : [])));
  const subjects = services
    .map((service) => readSubject(service, config).subject)
    .filter(({ floatingIP, key }) => !floatingIP && !deleted.has(key));
  const found = new Map<string, ServiceKey[]>();
  for (const family of families)
    for (const subject of subjects.filter((one) => opensPorts(one, family)))
      for (const [protocol, ports] of portsOf(subject))
        for (const port of ports)
          found.getOrInsertComputed(portKey(family, protocol, port), () => []).push(subject.key);
  return found;
}

const portKey = (family: Family | undefined, protocol: string, port: string | number): string =>
  `${family} ${protocol.toLowerCase()} ${port}`;

/** Of an item that is the Services' alone. */
export const ownedBy = (keys: readonly ServiceKey[]): Owned => ({
  owners: keys.map((name) => ({ kind: "Service", name })),
  services: keys,
});

/** Of a frontend, rule or probe of that name; undefined if another writer has named it. */
export function ownedByName(name: string, { keyByBase }: Owners): Owned | undefined {
  if (!isServiceFrontend(name)) return undefined;
  const key = keyByBase.get(name.split("-", 1)[0]?.toLowerCase() ?? "");
  return ownedBy(key === undefined ? [] : [key]);
}

/** The address of a node is open for as long as a Service uses the node port. */
export function ownedOpening(
  { address, protocol, port }: Omit<ItemOf<"security rules">, keyof Owned>,
  owners: Owners,
): Owned {
  const nodes = owners.nodesByAddress.get(address);
  if (nodes === undefined) return ownedBy([...(owners.keysByAddress.get(address) ?? [])]);
  const services = owners.keysByNodePort.get(portKey(familyOf(address), protocol, port)) ?? [];
  return { owners: services.length === 0 ? [] : [...nodes].map((name) => ({ kind: "Node", name })), services };
}

/** A member of a Service's own pool leaves with the endpoint. */
export function memberOwners(pool: string, node: string | undefined, { keyByPool }: Owners): readonly Owner[] {
  if (node === undefined) return [];
  const service = keyByPool.get(pool.toLowerCase());
  return service === undefined ? [{ kind: "Node", name: node }] : [{ kind: "endpoint", service, node }];
}
