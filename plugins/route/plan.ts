import type { CIDR, Node, NodeAddress, Route } from "cloud-controller-host/sdk";

import { isResponsibleFor } from "./cluster-cidrs.ts";

/** A route that a node lacks, or that must be recreated with other addresses. */
export interface Creation {
  readonly node: Node;
  /** Without a name: the cloud derives it from the node and the destination. */
  readonly route: Route;
}

/** The actions of one pass, and the nodes whose condition it updates. */
export interface RoutePlan {
  readonly deletions: readonly Route[];
  readonly creations: readonly Creation[];
  /** Nodes with a pod CIDR or a route. Other nodes get no condition. */
  readonly nodes: readonly { readonly node: Node; readonly cidrs: readonly string[] }[];
}

type Action = "keep" | "add" | "update";

const nameOf = (node: Node): string => node.metadata?.name ?? "";
const addressesOf = (node: Node): readonly NodeAddress[] => node.status?.addresses ?? [];

/** Compares the cloud's routes with those that the nodes need: one per node and pod CIDR. Pure. */
export function planRoutes(nodes: readonly Node[], routes: readonly Route[], clusterCIDRs: readonly CIDR[]): RoutePlan {
  const byNode = Map.groupBy(routes, ({ targetNode }) => targetNode);
  const wanted = nodes.map((node) => {
    const actions = new Map<string, Action>();
    for (const cidr of node.spec?.podCIDRs ?? []) actions.set(cidr, choose(node, cidr, byNode.get(nameOf(node))));
    return { node, actions };
  });
  const actionsOf = new Map(wanted.map(({ node, actions }) => [nameOf(node), actions]));
  return {
    deletions: routes.filter((route) => {
      const action = actionsOf.get(route.targetNode)?.get(route.destinationCIDR);
      const stale = route.blackhole === true || action === undefined || action === "update";
      return stale && isResponsibleFor(clusterCIDRs, route.destinationCIDR);
    }),
    creations: wanted.flatMap(({ node, actions }) =>
      [...actions].filter(([, action]) => action !== "keep").map(([cidr]) => creation(node, cidr)),
    ),
    nodes: wanted
      .filter(({ node, actions }) => actions.size > 0 || byNode.has(nameOf(node)))
      .map(({ node, actions }) => ({ node, cidrs: [...actions.keys()] })),
  };
}

/** CIDRs are compared as text: the cloud must return them as it received them. A blackhole carries no traffic. */
function choose(node: Node, cidr: string, routes: readonly Route[] = []): Action {
  const existing = routes.find(({ destinationCIDR, blackhole }) => destinationCIDR === cidr && blackhole !== true);
  if (existing === undefined) return "add";
  if (existing.enableNodeAddresses !== true) return "keep";
  return sameAddresses(addressesOf(node), existing.targetNodeAddresses ?? []) ? "keep" : "update";
}

const sameAddresses = (ofNode: readonly NodeAddress[], ofRoute: readonly NodeAddress[]): boolean =>
  ofNode.length === ofRoute.length &&
  ofNode.every(({ type, address }) => ofRoute.some((other) => other.type === type && other.address === address));

const creation = (node: Node, destinationCIDR: string): Creation => ({
  node,
  route: { name: "", targetNode: nameOf(node), targetNodeAddresses: addressesOf(node), destinationCIDR },
});
