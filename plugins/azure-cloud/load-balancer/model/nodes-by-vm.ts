import type { Node } from "cloud-controller-host/sdk";

import { vmIdOf } from "../../instances/provider-id.ts";
import { oncePer } from "./once-per.ts";

/** Lower-case id of the node's VM; empty for a node without one. */
export const vmKeyOf = oncePer((node: Node): string => vmIdOf(node)?.toLowerCase() ?? "");

/**
 * Nodes by the lower-case ids of their VMs. A kubelet chooses its provider ID: of several nodes with one, the oldest has
 * the VM, so that a later one does not decide about the traffic of another node.
 */
export const nodesByVm = oncePer((nodes: readonly Node[]): ReadonlyMap<string, Node> => {
  const found = new Map<string, Node>();
  for (const node of nodes) {
    const id = vmKeyOf(node);
    const known = found.get(id);
    if (id !== "" && (known === undefined || createdAt(node) < createdAt(known))) found.set(id, node);
  }
  return found;
});

const createdAt = ({ metadata }: Node): string => metadata?.creationTimestamp ?? "";
