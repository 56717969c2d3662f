import type { Node, Store } from "cloud-controller-host/sdk";

import { takesTraffic } from "./node-predicates.ts";

/** The nodes that take traffic, and what the cloud knows them by: name → provider ID. */
export interface NodeSet {
  readonly nodes: readonly Node[];
  readonly members: NodeMembers;
}

export type NodeMembers = ReadonlyMap<string, string>;

/** The same names with the same provider IDs, in whatever order. */
export function sameMembers(left: NodeMembers, right: NodeMembers): boolean {
  if (left === right) return true;
  return left.size === right.size && left.entries().every(([name, id]) => right.get(name) === id);
}

export function nodeSetOf(all: readonly Node[]): NodeSet {
  const nodes = all.filter(takesTraffic);
  return { nodes, members: new Map(nodes.map((node) => [node.metadata?.name ?? "", node.spec?.providerID ?? ""])) };
}

/**
 * The set as a store has it now. While the members are the same, they are the same map, so that a thousand Services
 * are compared with five thousand nodes at the cost of one comparison.
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
