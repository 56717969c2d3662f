import type { Node } from "cloud-controller-host/sdk";

/** Names of the programs that have written a node's CIDRs. The API server tells them to a list, not to the watch. */
export function writersOfPodCidrs(node: Node): ReadonlySet<string> {
  const owners = (node.metadata?.managedFields ?? []).flatMap((entry) => {
    const fields: unknown = entry.fieldsV1;
    return fieldOf(fieldOf(fields, "f:spec"), "f:podCIDRs") === undefined ? [] : [entry.manager ?? ""];
  });
  return new Set(owners);
}

const fieldOf = (fields: unknown, name: string): unknown =>
  typeof fields === "object" && fields !== null ? Object.entries(fields).find(([key]) => key === name)?.[1] : undefined;
