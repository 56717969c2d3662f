import { isObject } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import { excludedLabel, type GoldenCase, nodesAfter, type RecordedNode, type RecordedStep } from "./cases.ts";
import type { Snapshot } from "./snapshot.ts";

const isBalancer = (id: string): boolean => id.includes("/loadbalancers/");

/** Name of a load balancer's configuration, by the load balancer's id. */
const configurationIn = (id: string): string => id.slice(id.lastIndexOf("/") + 1).replace(/-internal$/u, "");

/** A snapshot in which every node is on the load balancer that it belongs to, and no load balancer is without nodes. */
export function withPlacedNodes(recorded: Snapshot, golden: GoldenCase, step: RecordedStep): Snapshot {
  const existing = new Set(Object.keys(recorded.arm).filter(isBalancer).map(configurationIn));
  const configurations = objectsAt(golden.cloudConfig, "multipleStandardLoadBalancerConfigurations").filter((one) =>
    existing.has(nameOf(one)),
  );
  const nodes = nodesAfter(golden, step).filter(isMember);
  const homes = new Map(nodes.map((node) => [node, candidates(node, configurations, golden).map(nameOf)]));
  // Among several a node stays where it happens to be.
  if (homes.values().some((names) => names.length !== 1)) return recorded;
  const nodesOf = (id: string): readonly RecordedNode[] => {
    const own = nodes.filter((node) => homes.get(node)?.[0] === configurationIn(id));
    return own.length === 0 ? nodes : own;
  };
  return {
    ...recorded,
    arm: Object.fromEntries(
      Object.entries(recorded.arm).map(([id, value]) => [
        id,
        isBalancer(id) && isObject(value) ? withMembers(value, nodesOf(id), golden) : value,
      ]),
    ),
  };
}

/** Pools of addresses never have nodes of the control plane. */
const isMember = ({ labels = {} }: RecordedNode): boolean =>
  [excludedLabel, "node-role.kubernetes.io/control-plane"].every((label) => labels[label] === undefined);

const nameOf = (configuration: JsonObject): string => (stringAt(configuration, "name") ?? "").toLowerCase();

function candidates(
  node: RecordedNode,
  configurations: readonly JsonObject[],
  { cloudConfig }: GoldenCase,
): readonly JsonObject[] {
  const parts = node.providerID.toLowerCase().split("/");
  const uniform = parts[parts.indexOf("virtualmachinescalesets") + 1];
  const other = stringAt(cloudConfig, "vmType") === "standard" ? "as0" : "flex0";
  const set = parts.includes("virtualmachinescalesets") ? uniform : other;
  const primary = configurations.filter((one) => stringAt(one, "primaryVMSet")?.toLowerCase() === set);
  const labelsOf = (one: JsonObject) => Object.entries(objectAt(objectAt(one, "nodeSelector"), "matchLabels") ?? {});
  const selected = configurations.filter(
    (one) => labelsOf(one).length > 0 && labelsOf(one).every(([key, value]) => node.labels?.[key] === value),
  );
  const open = configurations.filter((one) => labelsOf(one).length === 0);
  return [primary, selected, open].find((list) => list.length > 0) ?? [];
}

/** The cluster's pools with exactly the nodes that have an address of the pool's family, in the order of a snapshot. */
function withMembers(balancer: JsonObject, nodes: readonly RecordedNode[], { clusterName }: GoldenCase): JsonObject {
  const properties = objectAt(balancer, "properties") ?? {};
  const backendAddressPools = objectsAt(properties, "backendAddressPools").map((pool) => {
    const name = stringAt(pool, "name") ?? "";
    const isIPv6 = name.endsWith("-IPv6");
    const members = nodes.flatMap((node) =>
      node.addresses
        .filter(({ type, address }) => type === "InternalIP" && address.includes(":") === isIPv6)
        .map(({ address }) => ({ name: node.name, properties: { ipAddress: address } })),
    );
    if (name.replace(/-IPv6$/u, "") !== clusterName || members.length === 0) return pool;
    const loadBalancerBackendAddresses = members.toSorted((one, other) =>
      JSON.stringify(one) < JSON.stringify(other) ? -1 : 1,
    );
    return {
      ...pool,
      properties: { ...objectAt(pool, "properties"), loadBalancerBackendAddresses, virtualNetwork },
    };
  });
  return { ...balancer, properties: { ...properties, backendAddressPools } };
}

const virtualNetwork = "/subscriptions/sub0/resourcegroups/rg0/providers/microsoft.network/virtualnetworks/vnet0";
