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
 * The set as the store has it now. It is made anew only after a node changed, so that a thousand Services that share
 * it are compared by identity; `changed` must be called for every change of the store.
 */
export interface CurrentNodes {
  get(): NodeSet;
  changed(): void;
}

export function currentNodes(store: Store<Node>): CurrentNodes {
  let known: NodeSet | undefined;
  return {
    get: () => (known ??= nodeSetOf(store.list())),
    changed() {
      known = undefined;
    },
  };
}
