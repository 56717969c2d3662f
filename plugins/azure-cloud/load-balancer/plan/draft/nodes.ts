import { labelOf, labels, type Node } from "cloud-controller-host/sdk";

import { familyOf } from "../../model/addresses.ts";
import type { Family } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";

export const nodeName = (node: Node): string => node.metadata?.name ?? "";

/**
 * Labels that keep a node out of pools: another resource group only out of those of network interfaces. Source: upstream
 * `ShouldNodeExcludedFromLoadBalancer`, and `excludeLoadBalancerNodes` for pools of addresses.
 */
export function isExcluded(node: Node, { resourceGroup, pools }: PlannerConfig): boolean {
  const label = pools === "interfaces" ? labelOf(node, "kubernetes.azure.com/resource-group") : undefined;
  const group = label?.toLowerCase() ?? "";
  return (
    labelOf(node, labels.excludeFromLoadBalancers) !== undefined ||
    labelOf(node, "kubernetes.azure.com/managed")?.toLowerCase() === "false" ||
    (group !== "" && group !== resourceGroup)
  );
}

/** On-premises nodes: their addresses are not Azure's. */
export const isUnmanaged = (node: Node): boolean =>
  labelOf(node, "kubernetes.azure.com/managed")?.toLowerCase() === "false";

export const isControlPlane = (node: Node): boolean =>
  labelOf(node, "node-role.kubernetes.io/control-plane") !== undefined ||
  labelOf(node, "node-role.kubernetes.io/master") !== undefined ||
  labelOf(node, "kubernetes.io/role") === "master";

/** Each plan asks for those of all nodes, several times. */
const addressesOf = oncePer(({ status }: Node) => {
  const internal = (status?.addresses ?? []).flatMap(({ type, address }) => (type === "InternalIP" ? [address] : []));
  const families = Map.groupBy(internal, familyOf);
  return { all: internal.filter((one) => familyOf(one) !== undefined), families };
});

export const internalAddresses = (node: Node, family?: Family): readonly string[] => {
  const { all, families } = addressesOf(node);
  return family === undefined ? all : (families.get(family) ?? []);
};

/**
 * The address of a node in pools of addresses: the first of the family, which Kubernetes takes for the primary one. Others
 * may be of a network that takes no traffic to node ports, and a pool has one entry of each name. upstream:
 * `getNodePrivateIPAddress`.
 */
export const memberAddress = (node: Node, family: Family): string | undefined => internalAddresses(node, family)[0];
