import { ArmError } from "../../arm/errors.ts";
import { idIn, sameName } from "../../arm/resource-id.ts";
import type { PoolEdit } from "./pool-edits.ts";

/** Id of the pool that ARM does not find, to which the written resource refers. */
function missingPoolIn(error: unknown): string | undefined {
  if (!(error instanceof ArmError) || error.code !== "InvalidResourceReference") return undefined;
  return idIn(error.message, "loadBalancers", "backendAddressPools");
}

/** More of them in one resource are left to its owner. */
const maxMissing = 5;

/**
 * Writes an instance, interface or model that may be in pools which do not exist any more: one whose load balancer was
 * deleted while the operation that adds it was in progress. ARM refuses every write that leaves it there. A pool that it
 * is to join is another matter: its load balancer is read and planned again.
 */
export async function leavingMissing<T>(
  edits: readonly PoolEdit[],
  write: (edits: readonly PoolEdit[]) => Promise<T>,
): Promise<T> {
  for (let all = edits; ;) {
    try {
      return await write(all);
    } catch (error) {
      const poolId = missingPoolIn(error);
      const isKnown = poolId === undefined || all.some((one) => sameName(one.poolId, poolId));
      if (isKnown || all.length >= edits.length + maxMissing) throw error;
      all = [...all, { poolId, family: "IPv4", change: "leave" }];
    }
  }
}
