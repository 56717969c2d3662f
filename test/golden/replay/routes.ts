import { isObject } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

import { type JsonObject, objectAt, objectsAt, stringAt, stringsAt } from "../../../plugins/azure-cloud/json.ts";
import { type GoldenCase, type RecordedNode, type RecordedStep, stepsOf } from "./cases.ts";

/** A node as in a snapshot, whose network is available if it has routes. */
export const withAvailableNetwork = (node: unknown): unknown =>
  isObject(node) && stringsAt(node, "podCIDRs").length > 0
    ? { ...node, conditions: ["NetworkUnavailable=False RouteCreated"] }
    : node;

/** True if this is the id of the cluster's route table. */
export function isRouteTable(id: string, { cloudConfig }: GoldenCase): boolean {
  const group = stringAt(cloudConfig, "routeTableResourceGroup") ?? stringAt(cloudConfig, "resourceGroup") ?? "";
  const name = stringAt(cloudConfig, "routeTableName") ?? "";
  const ending = `/resourceGroups/${group}${routeTables}${name}`;
  return id.toLowerCase().endsWith(ending.toLowerCase());
}

const routeTables = "/providers/Microsoft.Network/routeTables/";

/**
 * A route table with the routes of exactly the nodes of a step, beside those of users and of other clusters;
 * `<node>____<CIDR>` is the name of a node's route. Those of nodes that are not managed stay as they are.
 */
export function withCurrentRoutes(table: unknown, golden: GoldenCase, { nodes = [] }: RecordedStep): unknown {
  if (!isObject(table) || nodes.length === 0) return table;
  const properties = objectAt(table, "properties") ?? {};
  const cidrs = (golden.clusterCIDR ?? "").split(",");
  const names = new Set(stepsOf(golden).flatMap(([, step]) => (step.nodes ?? []).map(({ name }) => name)));
  const isOfCluster = (route: JsonObject): boolean => {
    const name = stringAt(route, "name") ?? "";
    const prefix = stringAt(objectAt(route, "properties"), "addressPrefix") ?? "";
    return names.has(name) || (name.includes("____") && contains(cidrs, prefix));
  };
  const unmanaged = nodes.filter((node) => !isManaged(node)).map(({ name }) => `${name}____`);
  const isUnmanaged = (route: JsonObject): boolean =>
    unmanaged.some((prefix) => stringAt(route, "name")?.startsWith(prefix) === true);
  const present = objectsAt(properties, "routes");
  const current = nodes.filter(isManaged).flatMap((node) => routesOf(node, present));
  const others = present.filter((route) => isUnmanaged(route) || !isOfCluster(route));
  const { routes: _before, ...rest } = properties;
  const routes = [...others, ...current].toSorted(byText);
  // A snapshot has no empty arrays.
  return { ...table, properties: routes.length === 0 ? rest : { ...rest, routes } };
}

const isManaged = ({ labels = {} }: RecordedNode): boolean => labels["kubernetes.azure.com/managed"] !== "false";

const contains = (cidrs: readonly string[], prefix: string): boolean => {
  const [address] = ipaddr.parseCIDR(prefix);
  return cidrs.some((text) => {
    const cidr = ipaddr.parseCIDR(text);
    return address.kind() === cidr[0].kind() && address.match(cidr);
  });
};

/** The order of items in a snapshot. */
const byText = (one: unknown, other: unknown): number => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1);

/** A recorded route keeps its next hop: Azure knows more addresses of an instance than its Node object. */
function routesOf(
  { name, podCIDRs = [], addresses }: RecordedNode,
  present: readonly JsonObject[],
): readonly JsonObject[] {
  return podCIDRs.map((addressPrefix) => {
    const routeName = `${name}____${addressPrefix.replaceAll(/[.:/]/gu, "")}`;
    const isOfFamily = (address: string): boolean => address.includes(":") === addressPrefix.includes(":");
    const internal = addresses.find(({ type, address }) => type === "InternalIP" && isOfFamily(address));
    const properties = { addressPrefix, nextHopIpAddress: internal?.address, nextHopType: "VirtualAppliance" };
    return present.find((route) => route["name"] === routeName) ?? { name: routeName, properties };
  });
}
