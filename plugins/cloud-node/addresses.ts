import { annotationOf, annotations, type Node, type NodeAddress } from "cloud-controller-host/sdk";

import { addressesFromNodeIP } from "./provided-node-ip.ts";

export const addressesOf = (node: Node): readonly NodeAddress[] => node.status?.addresses ?? [];

/**
 * The addresses that the node's status must have, or undefined when the cloud returned none and the present ones stay.
 * Throws when kubelet's node IP is not among the cloud's addresses.
 */
export function wantedAddresses(node: Node, fromCloud: readonly NodeAddress[]): readonly NodeAddress[] | undefined {
  if (fromCloud.length === 0) return undefined;
  const nodeIP = annotationOf(node, annotations.providedNodeIP);
  const all = withoutDuplicates(withHostname(fromCloud, addressesOf(node)));
  return nodeIP === undefined ? all : addressesFromNodeIP(nodeIP, all);
}

/** A cloud without host names must not remove the one that kubelet reported. */
function withHostname(fromCloud: readonly NodeAddress[], observed: readonly NodeAddress[]): readonly NodeAddress[] {
  if (fromCloud.some(isHostname)) return fromCloud;
  return [...fromCloud, ...observed.filter(isHostname)];
}

const isHostname = ({ type }: NodeAddress): boolean => type === "Hostname";

/** Compares two lists. Order matters among the addresses of one type, where the first is the primary one, and not across types. */
export function addressesDiffer(observed: readonly NodeAddress[], wanted: readonly NodeAddress[]): boolean {
  if (observed.length !== wanted.length) return true;
  const before = byType(observed);
  const after = byType(wanted);
  return [...after].some(([type, list]) => list.join("\n") !== before.get(type)?.join("\n"));
}

function byType(addresses: readonly NodeAddress[]): ReadonlyMap<string, readonly string[]> {
  return new Map(
    [...Map.groupBy(addresses, ({ type }) => type)].map(([type, group]) => [type, group.map(({ address }) => address)]),
  );
}

/** The API rejects a status with a duplicate address. Source: kubernetes/cloud-provider `node/helpers/address.go`. */
export function withoutDuplicates(addresses: readonly NodeAddress[]): readonly NodeAddress[] {
  return addresses.filter(
    ({ type, address }, index) =>
      addresses.findIndex((other) => other.type === type && other.address === address) === index,
  );
}
