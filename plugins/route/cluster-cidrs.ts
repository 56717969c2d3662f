import { type CIDR, containsAddress, lastAddress, parseCIDR, parseClusterCIDRs } from "cloud-controller-host/sdk";

/** Reads `--cluster-cidr`. */
export const readClusterCIDRs = (flag: string): readonly CIDR[] =>
  parseClusterCIDRs(flag, {
    hint: "set --cluster-cidr, or --configure-cloud-routes=false if the cloud needs no routes",
    tooMany: (count, max) => `length of clusterCIDRs is:${count} more than max allowed of ${max} (--cluster-cidr)`,
  });

/**
 * True when the controller may remove a route: the first or the last address of its destination lies in a cluster CIDR.
 * A route with an unparsable destination is not ours.
 */
export function isResponsibleFor(clusterCIDRs: readonly CIDR[], destinationCIDR: string): boolean {
  const ends = endsOf(destinationCIDR);
  return clusterCIDRs.some((cidr) => ends?.some((address) => containsAddress(cidr, address)));
}

/** True when every address of a node's CIDR lies in one cluster CIDR. */
export function isWithin(clusterCIDRs: readonly CIDR[], text: string): boolean {
  const ends = endsOf(text);
  return clusterCIDRs.some((cidr) => ends?.every((address) => containsAddress(cidr, address)));
}

/** The first and the last address of a CIDR; undefined for a text that is not one. */
function endsOf(text: string): readonly CIDR["bytes"][] | undefined {
  try {
    const cidr = parseCIDR(text);
    return [cidr.bytes, lastAddress(cidr)];
  } catch {
    return undefined;
  }
}
