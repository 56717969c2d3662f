import type { EventRecorder, Node } from "cloud-controller-host/sdk";

import type { PodCidrProblem } from "./nodes/pod-cidrs.ts";

/** Upstream's events, type and message to the letter. */
export type NodeStatusEvent = "CIDRNotAvailable" | "CIDRAssignmentFailed";

export interface IpamEvents {
  status(node: Node, reason: NodeStatusEvent): void;
  /** Something is wrong with the CIDRs that a node has; the controller leaves them alone. */
  problem(node: Node, problem: PodCidrProblem): void;
  /** Somebody else gives CIDRs to nodes. */
  secondAllocator(node: Node, message: string): void;
}

export function ipamEvents({ events }: { readonly events: EventRecorder }): IpamEvents {
  const record = (node: Node, type: "Normal" | "Warning", reason: string, message: string): void => {
    const { name = "", uid = "" } = node.metadata ?? {};
    events.event({ apiVersion: "v1", kind: "Node", metadata: { name, uid } }, type, reason, message);
  };
  return {
    status: (node, reason) => record(node, "Normal", reason, `Node ${node.metadata?.name} status is now: ${reason}`),
    problem: (node, { fault, message }) =>
      record(node, "Warning", fault, `Pod CIDRs of node ${node.metadata?.name}: ${message}`),
    secondAllocator: (node, message) => record(node, "Warning", "SecondCIDRAllocator", message),
  };
}
