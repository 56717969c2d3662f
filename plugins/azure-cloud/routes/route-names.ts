/** Stands between the node and the CIDR in the name of a route. Source: upstream `routeNameSeparator`. */
const separator = "____";

/** `<node>____<CIDR without . : />`. upstream: `mapNodeNameToRouteName` in dual-stack mode, which is always on. */
export const routeNameOf = (nodeName: string, cidr: string): string =>
  `${nodeName}${separator}${cidr.replaceAll(/[./:]/gu, "")}`;

/** The node of a route; the whole name where it has no CIDR. upstream: `mapRouteNameToNodeName`. */
export const nodeNameOf = (routeName: string): string => routeName.split(separator, 1)[0] ?? "";
