import type { Route, RouteTable } from "@azure/arm-network";

import { sameName } from "../arm/resource-id.ts";
import { limits } from "../load-balancer/model/limits.ts";
import { reconcileTags } from "../load-balancer/model/tags.ts";
import { routeNameOf } from "./route-names.ts";

/** A change of the route table that one caller waits for. */
export type RouteChange =
  | { readonly kind: "create"; readonly node: string; readonly cidr: string; readonly nextHop: string }
  /** `name` is the name in the table; a route of the node without a CIDR in its name goes too. */
  | { readonly kind: "delete"; readonly node: string; readonly cidr: string; readonly name: string }
  /** See `reconcileTags`; planned on the tags that the table has when it is written. */
  | {
      readonly kind: "tags";
      readonly desired: ReadonlyMap<string, string>;
      readonly systemTags: readonly string[];
    }
  /** The table is written again as it is, because its last operation failed. */
  | { readonly kind: "repeat" };

/** The fields of a route table that are written; all others are read-only. */
export type RouteTableWrite = Pick<
  RouteTable,
  "location" | "tags" | "routes" | "disableBgpRoutePropagation" | "disablePeeringRoute"
>;

const nextHopType = "VirtualAppliance";

/**
 * The route table with all changes applied, or undefined when nothing changes. Routes of other owners stay, in their
 * order. With every change, routes of known nodes that still have a name without CIDR are removed, as upstream does.
 * Pure. Source: upstream `delayedRouteUpdater.updateRoutes`.
 */
export function planRoutes(
  table: RouteTableWrite,
  changes: readonly RouteChange[],
  isKnownNode: (name: string) => boolean,
): RouteTableWrite | undefined {
  const routes = new Map((table.routes ?? []).map((route) => [keyOf(route.name ?? ""), route]));
  let changed = false;
  let tags = table.tags;
  const remove = (name: string): void => {
    changed = routes.delete(keyOf(name)) || changed;
  };
  // No name with a CIDR is a node's: node names have no underscores.
  for (const { name = "" } of routes.values()) if (isKnownNode(name)) remove(name);
  for (const change of changes)
    switch (change.kind) {
      case "create": {
        const route = routeOf(change);
        const existing = routes.get(keyOf(route.name));
        if (existing !== undefined && isSameRoute(existing, route)) break;
        routes.set(keyOf(route.name), route);
        changed = true;
        break;
      }
      case "delete":
        for (const name of [change.name, routeNameOf(change.node, change.cidr), change.node]) remove(name);
        break;
      case "tags": {
        const before = tags;
        tags = reconcileTags(before, change.desired, change.systemTags);
        changed ||= tags !== before;
        break;
      }
      case "repeat":
        break;
      default:
        change satisfies never;
    }
  return changed ? { ...table, ...(tags === undefined ? {} : { tags }), routes: [...routes.values()] } : undefined;
}

export const maxRoutes = limits.routesPerTable;

/**
 * The creations that the table has no room for: the last ones. A table that has more routes already has a limit of its
 * own, which only ARM knows. Pure.
 */
export function excessRoutes(
  { routes = [] }: Pick<RouteTableWrite, "routes">,
  changes: readonly RouteChange[],
): ReadonlySet<RouteChange> {
  const names = new Set(routes.map(({ name = "" }) => keyOf(name)));
  if (names.size > maxRoutes) return new Set();
  const created: RouteChange[] = [];
  for (const change of changes) {
    if (!("node" in change)) continue;
    const name = keyOf(routeNameOf(change.node, change.cidr));
    if (change.kind === "delete") for (const one of [keyOf(change.name), name, keyOf(change.node)]) names.delete(one);
    else if (!names.has(name)) {
      names.add(name);
      created.push(change);
    }
  }
  return new Set(created.slice(created.length - Math.max(0, names.size - maxRoutes)));
}

const keyOf = (name: string): string => name.toLowerCase();

const routeOf = ({ node, cidr, nextHop }: Extract<RouteChange, { kind: "create" }>) => ({
  name: routeNameOf(node, cidr),
  addressPrefix: cidr,
  nextHopType,
  nextHopIpAddress: nextHop,
});

const isSameRoute = (existing: Route, wanted: Route): boolean =>
  (["addressPrefix", "nextHopType", "nextHopIpAddress"] as const).every((field) =>
    sameName(existing[field] ?? "", wanted[field] ?? ""),
  );
