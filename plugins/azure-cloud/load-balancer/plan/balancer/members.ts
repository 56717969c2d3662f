import type { BackendAddressPool } from "@azure/arm-network";
import { defaultLoadBalancerName, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import { sameName } from "../../../arm/resource-id.ts";
import { childId, sameId } from "../../model/ids.ts";
import type { PoolMember } from "../../model/model.ts";
import { isClusterPool, isInternalName, isIPv6Name, localPoolName, withoutInternal } from "../../model/names.ts";
import { nodesByVm, vmKeyOf } from "../../model/nodes-by-vm.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import type { Subject } from "../../service/subject.ts";
import type { Draft, UsedPool } from "../draft/draft.ts";
import { namedFor } from "../draft/edits.ts";
import { internalAddresses, isControlPlane, isExcluded, nodeName } from "../draft/nodes.ts";
import { withAddresses, withoutAddresses } from "./address-pools.ts";
import { setOf } from "./basic.ts";
import { drainingIn } from "./drain-places.ts";
import { type NodePlacement, placeNodes } from "./placement.ts";
import { poolNodes } from "./pool-nodes.ts";

/**
 * Nodes that belong into pools: not excluded and, if configured so, not of the control plane. The nodes of an intent may
 * be older than those observed: a node that either excludes does not join, or it would alternately join and leave.
 */
function eligibleNodes(nodes: readonly Node[], { config }: Draft, excluded: ReadonlySet<string>): readonly Node[] {
  const withoutControlPlane = config.pools === "addresses" || config.excludeControlPlane;
  return filtered(
    nodes,
    (node) =>
      !isExcluded(node, config) &&
      !excluded.has(nodeName(node).toLowerCase()) &&
      !(withoutControlPlane && isControlPlane(node)),
  );
}

/** The list itself where all pass: what was computed of it is still known. */
function filtered(nodes: readonly Node[], passes: (node: Node) => boolean): readonly Node[] {
  const left = nodes.filter(passes);
  return left.length === nodes.length ? nodes : left;
}

interface MemberChanges {
  readonly join: readonly string[];
  readonly leave: readonly string[];
}

/**
 * Changes of one pool of network interfaces. Instances that are gone leave; so do those of excluded nodes, unless none
 * would remain. Source: upstream `getBackendIPConfigurationsToBeDeleted`.
 */
function memberChanges(
  draft: Draft,
  { pool, id, nodes }: Pick<PoolPlan, "pool" | "id" | "nodes">,
  excluded: ReadonlySet<string>,
): MemberChanges {
  const members = draft.observed.poolMembers.get(id.toLowerCase()) ?? [];
  const isOut = ({ node, gone }: PoolMember): boolean =>
    gone || (node !== undefined && excluded.has(node.toLowerCase()));
  const out = members.filter(isOut);
  const leaving = out.length === members.length ? out.filter(({ gone }) => gone) : out;
  const present = new Set(
    members.flatMap(({ node, complete, gone }) => (node && complete && !gone ? [node.toLowerCase()] : [])),
  );
  const elsewhere = draft.config.sku === "standard" ? nodesElsewhere(draft, pool.balancer.name) : new Set<string>();
  const join = nodes
    .map(nodeName)
    .filter((name) => !present.has(name.toLowerCase()) && !elsewhere.has(name.toLowerCase()));
  return { join: join.toSorted(), leave: leaving.map(({ ipConfigurationId }) => ipConfigurationId).toSorted() };
}

/** Lower-case names of nodes that are excluded, were deleted, or have the provider ID of an older one. */
function excludedNames({ observed, config }: Draft): ReadonlySet<string> {
  const excluded = excludedBy(config)(observed.nodes);
  return new Set([...excluded, ...observed.deletedNodes].map((name) => name.toLowerCase()));
}

const excludedBy = oncePer((config: PlannerConfig) =>
  oncePer((nodes: readonly Node[]) => {
    const byVm = config.pools === "interfaces" ? nodesByVm(nodes) : new Map<string, Node>();
    const isSecond = (node: Node): boolean => (byVm.get(vmKeyOf(node)) ?? node) !== node;
    return nodes.filter((node) => isExcluded(node, config) || isSecond(node)).map(nodeName);
  }),
);

/** A network interface can be in the pools of one external and one internal load balancer of the same name only. */
function nodesElsewhere({ observed }: Draft, balancer: string): ReadonlySet<string> {
  const here = withoutInternal(balancer);
  const names = new Set<string>();
  for (const [poolId, members] of observed.poolMembers) {
    const [, owner = ""] = /\/loadbalancers\/([^/]+)\//iu.exec(poolId) ?? [];
    if (withoutInternal(owner) === here) continue;
    for (const { node, gone } of members) if (node !== undefined && !gone) names.add(node.toLowerCase());
  }
  return names;
}

const none: MemberChanges = { join: [], leave: [] };

/** Changes of membership, for every pool that Services of the plan use. */
export interface PoolPlan {
  readonly pool: UsedPool;
  readonly id: string;
  readonly nodes: readonly Node[];
  /** For pools of network interfaces. */
  readonly changes: MemberChanges | undefined;
  /** Members to remove before the pool can have addresses. */
  readonly release: boolean;
}

/** Plans members of interface pools, and puts node addresses into the load balancers' other pools. */
export function planPools(draft: Draft): readonly PoolPlan[] {
  const excluded = excludedNames(draft);
  const nodesOf = poolNodes(draft);
  const placement =
    draft.config.loadBalancers.length === 0
      ? undefined
      : placeAllNodes(draft, nodesOf([...draft.pools.values()]), excluded);
  const draining = drainingIn(draft.observed, draft.config);
  // Most pools have the same.
  const eligible = oncePer((nodes: readonly Node[]) => eligibleNodes(nodes, draft, excluded));
  return [...draft.pools].map(([id, pool]) => {
    const nodes = filtered(eligible(nodesOf([pool])), isPlaced(draft, pool, placement));
    const plan = { pool, id, nodes, changes: undefined, release: false };
    if (isPreConfigured(draft, pool))
      return { ...plan, changes: draft.config.pools === "interfaces" ? none : undefined };
    if (draft.config.pools === "interfaces") {
      editPool(pool, withoutAddresses);
      return { ...plan, changes: memberChanges(draft, plan, excluded) };
    }
    const release = (draft.observed.poolMembers.get(id)?.length ?? 0) > 0;
    if (release) for (const key of pool.services) draft.pending.add(key);
    else editPool(pool, (current) => withAddresses(current, { nodes, pool, id, draining }, draft.config));
    return { ...plan, release };
  });
}

/** Assigns nodes to load balancers, and takes in the pools of those that no Service of the plan uses. */
function placeAllNodes(draft: Draft, nodes: readonly Node[], excluded: ReadonlySet<string>): NodePlacement | undefined {
  const services = new Set(draft.targets.keys());
  if (nodes.length === 0) return undefined;
  const placement = placeNodes(draft, eligibleNodes(nodes, draft, excluded));
  // Those of other shards, whose load balancers this configuration does not have.
  for (const name of draft.config.shardSuffix === undefined ? placement.homeless : [])
    draft.nodeEvents.set(name, [
      { type: "Warning", reason: "FailedToFindLoadBalancerForNode", message: `failed to find a lb for node ${name}` },
    ]);
  for (const balancer of draft.balancers.values())
    for (const { name = "" } of balancer.current?.backendAddressPools ?? []) {
      const id = childId(balancer.id, "backendAddressPools", name).toLowerCase();
      if (!placement.nodes.has(withoutInternal(balancer.name)) || !isClusterPool(name, draft.config.clusterName))
        continue;
      const family = isIPv6Name(name) ? "IPv6" : "IPv4";
      const known = draft.pools.get(id) ?? { balancer, name, family, local: false, services };
      draft.pools.set(id, { ...known, nodeLists: new Set([nodes]) });
    }
  return placement;
}

/** A load balancer that no node is assigned to takes all nodes, rather than none. */
function isPlaced(draft: Draft, pool: UsedPool, placement: NodePlacement | undefined) {
  const name = withoutInternal(pool.balancer.name);
  const assigned = new Set(placement?.nodes.get(name));
  const takesAll = assigned.size === 0 && placement?.awaiting.has(name) !== true;
  const endpoints = pool.local ? endpointsOf(draft, pool) : undefined;
  const set = draft.config.sku === "basic" ? setOf(draft, pool.balancer.name) : "";
  return (node: Node): boolean => {
    if (set !== "") return sameName(draft.observed.vmSets.get(nodeName(node)) ?? "", set);
    if (pool.local) return endpoints?.has(nodeName(node)) ?? true;
    return takesAll || assigned.has(node);
  };
}

/**
 * Names of the nodes with an endpoint of a local Service that uses the pool; undefined where those of any are not known.
 * Health probes take a node without an endpoint off the traffic of the other one.
 */
function endpointsOf({ observed }: Draft, { balancer, name, services }: UsedPool): ReadonlySet<string> | undefined {
  const id = childId(balancer.id, "backendAddressPools", name);
  const isUser = (service: Service): boolean =>
    namedFor(balancer.current?.loadBalancingRules, defaultLoadBalancerName(service)).some(({ backendAddressPool }) =>
      sameId(backendAddressPool?.id, id),
    );
  const others = (namesakesBy(observed.services).get(name.toLowerCase()) ?? []).filter(isUser).map(keyOf);
  const lists = [...new Set([...services, ...others])].map((key) => observed.endpointNodes.get(key));
  return lists.includes(undefined) ? undefined : new Set(lists.flatMap((list) => list ?? []));
}

/** Services by the name of their own pool: `a-b/c` and `a/b-c` have one of the same name. */
const namesakesBy = oncePer((services: readonly Service[]): ReadonlyMap<string, readonly Service[]> => {
  const found = new Map<string, Service[]>();
  for (const service of services)
    for (const family of ["IPv4", "IPv6"] as const)
      found.getOrInsertComputed(localPoolName(keyOf(service), family), () => []).push(service);
  return found;
});

/** Pools filled by another writer are left alone; a pool that did not exist yet is ours to fill. */
function isPreConfigured({ config, observed }: Draft, { balancer, name }: UsedPool): boolean {
  const id = childId(balancer.id, "backendAddressPools", name).toLowerCase();
  if (observed.createdPools?.has(id)) return false;
  const exists = balancer.observed?.backendAddressPools?.some((pool) => sameName(pool.name ?? "", name)) ?? false;
  const { internal, external } = config.preConfiguredPools;
  return exists && (isInternalName(balancer.name) ? internal : external);
}

function editPool(
  { balancer, name, services }: UsedPool,
  change: (pool: Readonly<BackendAddressPool>) => Readonly<BackendAddressPool>,
): void {
  const pools = balancer.current?.backendAddressPools ?? [];
  const index = pools.findIndex((pool) => sameName(pool.name ?? "", name));
  const present = pools[index];
  if (balancer.current === undefined || present === undefined) return;
  const next = change(present);
  if (next === present) return;
  balancer.current = { ...balancer.current, backendAddressPools: pools.with(index, next) };
  for (const key of services) balancer.services.add(key);
}

/**
 * Addresses of the nodes behind a Service's load balancer after the plan, for security rules without floating IP: all
 * addresses of nodes whose interfaces are members, or those in its pools. As in the Go provider, other families than the
 * Service's own are included.
 */
export function backendAddresses(draft: Draft, plans: readonly PoolPlan[], subject: Subject): readonly string[] {
  const target = draft.targets.get(subject.key);
  const used = plans.filter(({ pool }) => pool.balancer === target && pool.services.has(subject.key));
  const local = used.filter(({ pool }) => pool.local);
  const own = (local.length > 0 ? local : used).flatMap((plan) => addressesBehind(draft, plan));
  const others = target === undefined || local.length > 0 ? [] : addressesInPools(target, draft.config);
  return [...new Set([...own, ...others])];
}

const addressesInPools = (
  { current }: UsedPool["balancer"],
  { pools, clusterName }: PlannerConfig,
): readonly string[] =>
  (pools === "interfaces" ? [] : (current?.backendAddressPools ?? []))
    .filter(({ name = "" }) => isClusterPool(name, clusterName))
    .flatMap((pool) => pool.loadBalancerBackendAddresses ?? [])
    .flatMap(({ ipAddress }) => ipAddress ?? []);

function addressesBehind({ observed }: Draft, { pool, id, nodes, changes, release }: PoolPlan): readonly string[] {
  if (changes === undefined) {
    const present = pool.balancer.current?.backendAddressPools?.find((one) => sameName(one.name ?? "", pool.name));
    const addresses = present?.loadBalancerBackendAddresses?.flatMap(({ ipAddress }) => ipAddress ?? []) ?? [];
    return release ? nodes.flatMap((node) => internalAddresses(node, pool.family)) : addresses;
  }
  const leaving = new Set(changes.leave);
  const members = (observed.poolMembers.get(id) ?? []).filter(
    ({ ipConfigurationId }) => !leaving.has(ipConfigurationId),
  );
  const names = new Set(
    [...members.flatMap(({ node }) => node ?? []), ...changes.join].map((one) => one.toLowerCase()),
  );
  return observed.nodes
    .filter((node) => names.has(nodeName(node).toLowerCase()))
    .flatMap((node) => internalAddresses(node));
}
