import type { EventRecorder, Node } from "cloud-controller-host/sdk";

import type { PodCidrProblem } from "./pod-cidrs.ts";

/** Upstream's events, with its types and messages. */
export type NodeStatusEvent = "CIDRNotAvailable" | "CIDRAssignmentFailed";

export interface IpamEvents {
  status(node: Node, reason: NodeStatusEvent): void;
  /** A problem with the node's CIDRs; the controller does not change them. */
  problem(node: Node, problem: PodCidrProblem): void;
  /** Another writer sets CIDRs of nodes. */
  otherAllocator(node: Node, message: string): void;
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
    otherAllocator: (node, message) => record(node, "Warning", "OtherCIDRAllocator", message),
  };
}
