import type { BackendAddressPool, LoadBalancerBackendAddress } from "@azure/arm-network";
import type { Node } from "cloud-controller-host/sdk";

import { sameName } from "../../../arm/resource-id.ts";
import { type DrainStep, drainStep } from "../../model/drain.ts";
import { virtualNetworkId } from "../../model/ids.ts";
import type { Family } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import type { UsedPool } from "../draft/draft.ts";
import { memberAddress, nodeName } from "../draft/nodes.ts";
import { type Draining, placeKey } from "./drain-places.ts";

interface Wanted {
  readonly nodes: readonly Node[];
  readonly pool: Pick<UsedPool, "family" | "local">;
  /** Of the pool. */
  readonly id: string;
  readonly draining: Draining;
}

/** Names of nodes by their addresses. The pools of most load balancers have the same nodes. */
const addressesBy = (family: Family) =>
  oncePer((nodes: readonly Node[]): ReadonlyMap<string, string> => {
    const names = new Map<string, string>();
    for (const node of nodes) {
      const address = memberAddress(node, family);
      if (address !== undefined) names.set(address, nodeName(node));
    }
    return names;
  });

const addressesOf = { IPv4: addressesBy("IPv4"), IPv6: addressesBy("IPv6") };

/** Of a pool, which most plans leave as it is. */
const knownAddresses = oncePer(
  (present: readonly LoadBalancerBackendAddress[]): ReadonlySet<string | undefined> =>
    new Set(present.map(({ ipAddress }) => ipAddress)),
);

/** By config and pool, the nodes of which the pool has exactly the addresses. */
const settledBy = oncePer((_config: PlannerConfig) =>
  oncePer((_pool: Readonly<BackendAddressPool>) => new WeakSet<ReadonlyMap<string, string>>()),
);

const noAddresses: readonly LoadBalancerBackendAddress[] = [];

/**
 * The pool with exactly one address of each node, and those of nodes that drain for as long as they do; only a pool of
 * one local Service is ever emptied. Entries that stay keep their place.
 */
export function withAddresses(
  pool: Readonly<BackendAddressPool>,
  { nodes, pool: { family, local }, id, draining }: Wanted,
  config: PlannerConfig,
): Readonly<BackendAddressPool> {
  const wanted = addressesOf[family](nodes);
  const drains = draining.addresses.size > 0 || draining.leaving.size > 0;
  const settled = settledBy(config)(pool);
  if (!drains && settled.has(wanted)) return pool;
  const present = pool.loadBalancerBackendAddresses ?? noAddresses;
  const isKept = wanted.size === 0 && !local;
  const stay: LoadBalancerBackendAddress[] = [];
  for (const address of present) {
    const { ipAddress } = address;
    const one = ipAddress === undefined || !drains ? undefined : draining.addresses.get(placeKey(id, ipAddress));
    const step = one && drainStep(one.drain, one.place);
    const isMember =
      step === undefined || step === "up" ? ipAddress !== undefined && wanted.has(ipAddress) : step !== "out";
    if (isMember || isKept) stay.push(withState(address, step));
  }
  const known = knownAddresses(present);
  const leaving = draining.leaving.get(id.toLowerCase());
  const missing: LoadBalancerBackendAddress[] = [];
  for (const [ipAddress, name] of wanted)
    if (!known.has(ipAddress) && !leaving?.has(name)) missing.push({ name, ipAddress });
  if (stay.length + missing.length === 0 && !local) return pool;
  const nodeAt = (ip: string) => wanted.get(ip) ?? draining.addresses.get(placeKey(id, ip))?.node;
  const network = virtualNetworkId(config);
  const moved = stay.some(({ virtualNetwork }) => virtualNetwork !== undefined);
  const same = missing.length === 0 && stay.length === present.length && stay.every((one, at) => one === present[at]);
  const isThere = !moved && sameName(pool.virtualNetwork?.id ?? "", network);
  if (same && isThere && !isKept && !drains) settled.add(wanted);
  if (same && (isKept || isThere)) return pool;
  return {
    ...pool,
    virtualNetwork: { id: network },
    loadBalancerBackendAddresses: [...named(stay, missing, nodeAt).map(withoutNetwork), ...missing],
  };
}

/**
 * An entry that stays may have the name of the node that had its address before. ARM refuses a pool with two entries of one
 * name: where one that joins needs such a name, all get those of their nodes.
 */
function named(
  stay: readonly LoadBalancerBackendAddress[],
  joining: readonly LoadBalancerBackendAddress[],
  nodeAt: (ipAddress: string) => string | undefined,
): readonly LoadBalancerBackendAddress[] {
  const needed = new Set(joining.map(({ name = "" }) => name.toLowerCase()));
  if (!stay.some(({ name = "" }) => needed.has(name.toLowerCase()))) return stay;
  return stay.map((one) => {
    const name = nodeAt(one.ipAddress ?? "");
    return name === undefined ? one : { ...one, name };
  });
}

/** The state without which the health probe decides is written as `None`, in case ARM keeps what a PUT leaves out. */
const states: Readonly<Partial<Record<NonNullable<DrainStep>, "Down" | "None">>> = {
  down: "Down",
  serve: "None",
  up: "None",
};

function withState(address: LoadBalancerBackendAddress, step: DrainStep): LoadBalancerBackendAddress {
  const state = step && states[step];
  const isSame = state === undefined || (address.adminState === "Down") === (state === "Down");
  return isSame ? address : { ...address, adminState: state };
}

/** The network belongs to the pool, not to each address. */
function withoutNetwork(address: LoadBalancerBackendAddress): LoadBalancerBackendAddress {
  if (address.virtualNetwork === undefined) return address;
  const { virtualNetwork: _network, ...rest } = address;
  return rest;
}

/** The pool without addresses: its members are network interfaces now. */
export function withoutAddresses(pool: Readonly<BackendAddressPool>): Readonly<BackendAddressPool> {
  if (!pool.loadBalancerBackendAddresses?.some(({ ipAddress }) => ipAddress !== undefined)) return pool;
  const { loadBalancerBackendAddresses: _addresses, virtualNetwork: _network, ...rest } = pool;
  return rest;
}
