import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { type AddressRange, contains, parseCIDR } from "./cidr.ts";

const most = 2;

/** Reads `--cluster-cidr`: one CIDR, or one of each family joined by a comma. Error texts begin as upstream's. */
export function parseClusterCIDRs(flag: string): readonly AddressRange[] {
  const cidrs = flag
    .trim()
    .split(",")
    .map((text, index) => {
      try {
        return parseCIDR(text);
      } catch (error) {
        throw new CodedError("BadClusterCIDR", `invalid CIDR[${index}]: ${messageOf(error)} (${hint})`, {
          cause: error,
        });
      }
    });
  if (cidrs.length > 1 && new Set(cidrs.map(({ family }) => family)).size < 2)
    throw new CodedError(
      "BadClusterCIDR",
      `len of ClusterCIDRs==${cidrs.length} and they are not configured as dual stack (at least one from each IPFamily)`,
    );
  if (cidrs.length > most)
    throw new CodedError(
      "BadClusterCIDR",
      `length of clusterCIDRs is:${cidrs.length} more than max allowed of ${most} (--cluster-cidr)`,
    );
  return cidrs;
}

const hint =
  "set --cluster-cidr, or --configure-cloud-routes=false where routes are none of this controller's business";

/**
 * Whether a route is ours to remove: one end of its destination at least lies in a cluster CIDR. A destination that
 * cannot be read is somebody else's.
 */
export function isResponsibleFor(clusterCIDRs: readonly AddressRange[], destinationCIDR: string): boolean {
  const destination = tryParse(destinationCIDR);
  return (
    destination !== undefined &&
    clusterCIDRs.some((cidr) => contains(cidr, destination, "first") || contains(cidr, destination, "last"))
  );
}

function tryParse(text: string): AddressRange | undefined {
  try {
    return parseCIDR(text);
  } catch {
    return undefined;
  }
}
