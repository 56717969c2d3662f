import type { LoadBalancerStatus } from "cloud-controller-host/sdk";

type Ingress = NonNullable<LoadBalancerStatus["ingress"]>[number];

/**
 * Says each ingress in the words that the API server keeps it in: it fills in the mode of an address that comes
 * without one. Comparing without this would write the same status again after every ensure.
 */
export const asServed = (status: LoadBalancerStatus): LoadBalancerStatus => ({
  ingress: (status.ingress ?? []).map((entry) => (entry.ip && !entry.ipMode ? { ...entry, ipMode: "VIP" } : entry)),
});

/** Entry by entry, in order; an absent list is an empty one. */
export function sameStatus(left: LoadBalancerStatus, right: LoadBalancerStatus): boolean {
  return sameList(left.ingress ?? [], right.ingress ?? [], sameIngress);
}

const sameIngress = (left: Ingress, right: Ingress): boolean =>
  (left.ip ?? "") === (right.ip ?? "") &&
  (left.hostname ?? "") === (right.hostname ?? "") &&
  left.ipMode === right.ipMode &&
  sameList(
    left.ports ?? [],
    right.ports ?? [],
    (a, b) => a.port === b.port && a.protocol === b.protocol && a.error === b.error,
  );

const sameList = <T>(left: readonly T[], right: readonly T[], same: (left: T, right: T) => boolean): boolean =>
  left.length === right.length &&
  left.every((item, index) => {
    const other = right[index];
    return other !== undefined && same(item, other);
  });
