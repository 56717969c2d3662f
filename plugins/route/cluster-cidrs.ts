import { type CIDR, CodedError, containsAddress, lastAddress, messageOf, parseCIDR } from "cloud-controller-host/sdk";

const maxCIDRs = 2;

/** Reads `--cluster-cidr`: one CIDR, or one of each family joined by a comma. Error texts begin as upstream's. */
export function parseClusterCIDRs(flag: string): readonly CIDR[] {
  const cidrs = flag
    .trim()
    .split(",")
    .map((text, index) => {
      try {
        return parseCIDR(text);
      } catch (error) {
        throw new CodedError("InvalidClusterCIDR", `invalid CIDR[${index}]: ${messageOf(error)} (${hint})`, {
          cause: error,
        });
      }
    });
  if (cidrs.length > 1 && new Set(cidrs.map(({ family }) => family)).size < 2)
    throw new CodedError(
      "InvalidClusterCIDR",
      `len of ClusterCIDRs==${cidrs.length} and they are not configured as dual stack (at least one from each IPFamily)`,
    );
  if (cidrs.length > maxCIDRs)
    throw new CodedError(
      "InvalidClusterCIDR",
      `length of clusterCIDRs is:${cidrs.length} more than max allowed of ${maxCIDRs} (--cluster-cidr)`,
    );
  return cidrs;
}

const hint = "set --cluster-cidr, or --configure-cloud-routes=false if the cloud needs no routes";

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
