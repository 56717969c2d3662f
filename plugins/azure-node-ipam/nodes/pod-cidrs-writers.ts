import type { Node } from "cloud-controller-host/sdk";

/** Field manager of our own writes: the first word of the user agent. The Go binary has the same one. */
const ownManager = "cloud-controller-manager";

/** Field managers of a node's pod CIDRs. Reads and lists return them; the informer's objects do not have them. */
export function writersOfPodCidrs({ metadata }: Node): ReadonlySet<string> {
  return new Set((metadata?.managedFields ?? []).filter(ownsPodCidrs).map(({ manager = "" }) => manager));
}

/** True for an entry of `metadata.managedFields` that covers `spec.podCIDRs`. */
export const ownsPodCidrs = ({ fieldsV1 }: { readonly fieldsV1?: unknown }): boolean =>
  fieldOf(fieldOf(fieldsV1, "f:spec"), "f:podCIDRs") !== undefined;

/** True when this process or a predecessor of it has written the node's pod CIDRs. */
export const isWrittenByUs = (node: Node): boolean => writersOfPodCidrs(node).has(ownManager);

const fieldOf = (fields: unknown, name: string): unknown =>
  typeof fields === "object" && fields !== null ? Object.entries(fields).find(([key]) => key === name)?.[1] : undefined;
