import type { Node } from "cloud-controller-host/sdk";

import { isUnended, isUnprovisioned } from "../../../arm/errors.ts";
import { sameName } from "../../../arm/resource-id.ts";
import { isClusterPool, withoutInternal } from "../../model/names.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { isEmptySelector, matches } from "../../service/selectors.ts";
import type { Draft } from "../draft/draft.ts";
import { internalAddresses, nodeName } from "../draft/nodes.ts";

type Configuration = PlannerConfig["loadBalancers"][number];

export interface NodePlacement {
  /** Nodes by lower-case name of a configuration. One without nodes of its own takes all. */
  readonly nodes: ReadonlyMap<string, readonly Node[]>;
  /** Names of those whose nodes stay elsewhere for the moment. */
  readonly awaiting: ReadonlySet<string>;
  /** Names of nodes that no load balancer takes. */
  readonly homeless: readonly string[];
}

/**
 * Assigns every node to one of several load balancers: to that of its primary scale set or availability set, else to one
 * whose node selector matches, else to one without selector. Among equals a node stays where it is, or goes to the one
 * with the fewest nodes. Source: upstream `reconcileMultipleStandardLoadBalancerBackendNodes`. It stays in the pools of
 * another one until its own is there: ARM may refuse that for as long as a quota is reached.
 */
export function placeNodes(draft: Draft, nodes: readonly Node[]): NodePlacement {
  const existing = draft.config.loadBalancers.filter(({ name }) => exists(draft, name));
  const placed = new Map(existing.map(({ name }) => [name.toLowerCase(), new Array<Node>()]));
  const homeless: string[] = [];
  const members = membersOf(draft);
  const sorted = nodes.toSorted((left, right) => (nodeName(left) < nodeName(right) ? -1 : 1));
  const waiting: Node[] = [];
  for (const node of sorted) {
    const choices = candidates(draft, existing, node);
    const current = choices.find(({ name }) => isMember(members, name.toLowerCase(), node));
    const only = choices.length === 1 ? choices[0] : current;
    if (choices.length === 0) homeless.push(nodeName(node));
    else if (only === undefined) waiting.push(node);
    else placed.get(only.name.toLowerCase())?.push(node);
  }
  for (const node of waiting) fewest(candidates(draft, existing, node), placed)?.push(node);
  return { ...withStaying(draft, placed, members), homeless };
}

type Members = ReadonlyMap<string, ReadonlySet<string>>;

/** The nodes by where they are after this plan. */
function withStaying(
  draft: Draft,
  placed: ReadonlyMap<string, readonly Node[]>,
  members: Members,
): Omit<NodePlacement, "homeless"> {
  const awaiting = new Set<string>();
  const { internal, external } = draft.config.preConfiguredPools;
  // No node leaves a pool that another writer fills, and one that was created empty would not be filled any more.
  if (internal || external) return { nodes: placed, awaiting };
  // A load balancer that no node is assigned to keeps all.
  const left = [...placed].flatMap(([name, own]) => (own.length > 0 && isUsed(draft, name) ? [name] : []));
  const staying = new Map(left.map((name) => [name, new Array<Node>()]));
  const joining = new Map(placed);
  for (const [name, coming] of placed) {
    if (isReady(draft, name)) continue;
    const homesOf = (node: Node) => left.filter((other) => isMember(members, other, node));
    for (const node of coming) for (const home of homesOf(node)) staying.get(home)?.push(node);
    const now = coming.filter((node) => homesOf(node).length === 0);
    if (now.length < coming.length) awaiting.add(name);
    joining.set(name, now);
  }
  return {
    nodes: new Map([...joining].map(([name, own]) => [name, [...own, ...(staying.get(name) ?? [])]])),
    awaiting,
  };
}

const isMember = (members: Members, name: string, node: Node): boolean =>
  internalAddresses(node).some((ip) => members.get(name)?.has(ip));

/** True if a load balancer of the configuration is there, or is created by this plan. */
const exists = ({ balancers }: Draft, configuration: string): boolean =>
  balancers
    .values()
    .some(
      ({ name, observed, services }) =>
        withoutInternal(name) === configuration.toLowerCase() && (observed !== undefined || services.size > 0),
    );

/** True if a load balancer of the configuration was there before this plan, and no operation on it may still fail. */
const isReady = ({ observed }: Draft, configuration: string): boolean =>
  observed.loadBalancers.some(
    (one) => withoutInternal(one.name ?? "") === configuration && !isUnprovisioned(one) && !isUnended(one),
  );

/** True if a load balancer of the configuration has frontends after this plan. */
const isUsed = ({ balancers }: Draft, configuration: string): boolean =>
  balancers
    .values()
    .some(
      ({ name, current }) =>
        withoutInternal(name) === configuration && (current?.frontendIPConfigurations ?? []).length > 0,
    );

function candidates(draft: Draft, existing: readonly Configuration[], node: Node): readonly Configuration[] {
  const set = draft.observed.vmSets.get(nodeName(node)) ?? "";
  const primary = existing.filter(({ primaryVMSet }) => set !== "" && sameName(primaryVMSet, set));
  if (primary.length > 0) return primary;
  const labels = node.metadata?.labels ?? {};
  const selected = existing.filter(
    ({ nodeSelector }) => nodeSelector !== undefined && !isEmptySelector(nodeSelector) && matches(nodeSelector, labels),
  );
  return selected.length > 0 ? selected : existing.filter(({ nodeSelector }) => isEmptySelector(nodeSelector));
}

/** Addresses in the cluster's pools, by lower-case name of a configuration. */
function membersOf({ observed, config }: Draft): Members {
  const members = new Map<string, Set<string>>();
  for (const { name = "", backendAddressPools = [] } of observed.loadBalancers) {
    const addresses = members.get(withoutInternal(name)) ?? new Set();
    members.set(withoutInternal(name), addresses);
    for (const pool of backendAddressPools) {
      if (!isClusterPool(pool.name ?? "", config.clusterName)) continue;
      for (const { ipAddress } of pool.loadBalancerBackendAddresses ?? []) if (ipAddress) addresses.add(ipAddress);
    }
  }
  return members;
}

function fewest(choices: readonly Configuration[], placed: ReadonlyMap<string, Node[]>): Node[] | undefined {
  const lists = choices.flatMap(({ name }) => [placed.get(name.toLowerCase()) ?? []]);
  return lists.toSorted((left, right) => left.length - right.length)[0];
}
