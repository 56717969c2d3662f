import type { Node, Route } from "cloud-controller-host/sdk";

export const aNode = (name: string, podCIDRs: readonly string[], address?: string): Node => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name },
  spec: podCIDRs.length === 0 ? {} : { podCIDR: podCIDRs[0] ?? "", podCIDRs },
  status: address === undefined ? {} : { addresses: [{ type: "InternalIP", address }] },
});

/** A route under the name that the cloud in memory gives it. */
export const aRoute = (targetNode: string, destinationCIDR: string, address?: string): Route => ({
  name: `my-k8s-${targetNode}-${destinationCIDR}`,
  targetNode,
  destinationCIDR,
  ...(address === undefined ? {} : { targetNodeAddresses: [{ type: "InternalIP", address }] }),
});
