import type { RouteTable } from "@azure/arm-network";
import { isBeingDeleted, type KubeClient, type Node, type Store } from "cloud-controller-host/sdk";

import { itemsNamed, type OwnedType } from "../load-balancer/removals/drifts.ts";
import type { Removals } from "../load-balancer/removals/guarded-round.ts";
import { confirmGone } from "../removal-guard/confirm-gone.ts";
import type { Cause, HeldChange, ResourceChange } from "../removal-guard/guard.ts";
import type { Item, ItemOf } from "../removal-guard/items.ts";
import type { RouteTableWrite } from "./plan-routes.ts";
import { nodeNameOf, routeNameOf } from "./route-names.ts";

export interface RouteRemovals extends Removals {
  readonly client: Pick<KubeClient, "get" | "list">;
  readonly nodes: Pick<Store<Node>, "get">;
}

const ownedRoutes: OwnedType = {
  type: "routetables",
  partOf: itemsNamed({ routes: (name) => nodeNameOf(name) !== name }),
};

/** Looks for changes that another writer made to routes of nodes. */
export function findDrift(table: RouteTable, { drifts, nodes }: RouteRemovals): void {
  const routesIn = (text: string): readonly string[] => text.match(/(?<="routes\/)[^"]+/gu) ?? [];
  drifts.see(table, ownedRoutes, (text) => routesIn(text).flatMap((name) => nodes.get(nodeNameOf(name)) ?? []));
}

/** The routes that a write of the table must not remove: those of nodes that are there, or that only a list lacks. */
export async function heldRoutes(
  {
    id,
    name,
    before,
    after,
  }: { readonly id: string; readonly name: string } & Record<"before" | "after", RouteTableWrite>,
  { guard, client, nodes }: RouteRemovals,
): Promise<HeldChange | undefined> {
  const change: ResourceChange = {
    id,
    title: `route table ${name}`,
    before: itemsOf(before),
    after: itemsOf(after),
    writers: [],
    isVolatile: true,
    lastsUntilPlanned: true,
  };
  const [held] = await guard.review([change], {
    causeOf: (item) => causeOf(item, nodes),
    confirmGone: (owners) => confirmGone(client, owners),
  });
  return held;
}

/** Routes of nodes. Others are never removed. */
const itemsOf = ({ routes = [] }: RouteTableWrite): readonly ItemOf<"routes">[] =>
  routes.flatMap(({ name = "", addressPrefix = "" }) => {
    const node = nodeNameOf(name);
    if (name.toLowerCase() !== routeNameOf(node, addressPrefix).toLowerCase()) return [];
    return [{ kind: "routes", node, cidr: addressPrefix, owners: [{ kind: "Node", name: node }], services: [] }];
  });

/** Routes of unmanaged nodes are never planned to go. */
function causeOf(item: Item, nodes: RouteRemovals["nodes"]): Cause {
  if (item.kind !== "routes") return "none";
  const found = nodes.get(item.node);
  if (found === undefined) return "unconfirmed";
  const isOut = isBeingDeleted(found) || !(found.spec?.podCIDRs ?? []).includes(item.cidr);
  return isOut ? "known" : "none";
}
