import { labelOf, labels, type Node, type Store, taints, taintsOf } from "cloud-controller-host/sdk";

/** Values that Go's `strconv.ParseBool` parses as false. Any other value of the label, also an empty one, excludes. */
const falseWords = new Set(["0", "f", "F", "false", "FALSE", "False"]);

const included = (node: Node): boolean => {
  const value = labelOf(node, labels.excludeFromLoadBalancers);
  return value === undefined || falseWords.has(value);
};

/**
 * All must be true for a node to receive traffic, for any traffic policy. Readiness is not among them: the load
 * balancer's own probes notice sooner than the API when a node stops answering.
 */
const predicates: readonly ((node: Node) => boolean)[] = [
  (node) => node.metadata?.deletionTimestamp === undefined,
  included,
  (node) => !taintsOf(node).some((taint) => taint.key === taints.toBeDeletedByAutoscaler),
];

export const takesTraffic = (node: Node): boolean => predicates.every((allows) => allows(node));

/**
 * True when a change of a node triggers a node sync. Taints and deletion do not: such a node leaves with the next sync,
 * at the latest when it is gone.
 */
export const changesNodeSets = (before: Node, after: Node): boolean =>
  included(before) !== included(after) || targetOf(before) !== targetOf(after);

/** Targets of a load balancer: the provider ID, which may come before the addresses, and the internal addresses. */
function targetOf({ spec, status }: Node): string {
  const internal = (status?.addresses ?? []).filter(({ type }) => type === "InternalIP");
  return [spec?.providerID ?? "", ...internal.map(({ address }) => address)].join(" ");
}

/** The nodes that receive traffic, and what a load balancer sends to by their names. */
export interface NodeSet {
  readonly nodes: readonly Node[];
  readonly members: NodeMembers;
}

export type NodeMembers = ReadonlyMap<string, string>;

/** True for the same names with the same provider IDs and addresses, in any order. */
export function sameMembers(left: NodeMembers, right: NodeMembers): boolean {
  if (left === right) return true;
  return left.size === right.size && left.entries().every(([name, id]) => right.get(name) === id);
}

export function nodeSetOf(all: readonly Node[]): NodeSet {
  const nodes = all.filter(takesTraffic);
  return { nodes, members: new Map(nodes.map((node) => [node.metadata?.name ?? "", targetOf(node)])) };
}

/**
 * Returns the node set of the store's current content. Equal members are the same map object, so that comparing five
 * thousand nodes for each of a thousand Services costs one comparison.
 */
export function currentNodes(store: Store<Node>): () => NodeSet {
  let listed: readonly Node[] | undefined;
  let known = nodeSetOf([]);
  return () => {
    const all = store.list();
    if (all !== listed) {
      const { nodes, members } = nodeSetOf(all);
      known = { nodes, members: sameMembers(known.members, members) ? known.members : members };
      listed = all;
    }
    return known;
  };
}
