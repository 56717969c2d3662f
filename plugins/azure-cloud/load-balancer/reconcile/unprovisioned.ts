import type { PublicIPAddress } from "@azure/arm-network";
import type { Clock } from "cloud-controller-host/sdk";

import { ArmError, isUnended, isUnprovisioned } from "../../arm/errors.ts";
import type { Resources } from "../../arm/writes/resources.ts";

const publicIPPattern = /\/subscriptions\/[^\s'"]+\/publicIPAddresses\/[^\s'"/.]+/iu;

/** Id of the public IP that an error of ARM names. */
export const publicIPIn = ({ message }: ArmError): string | undefined => publicIPPattern.exec(message)?.[0];

/** Id of the public IP for whose state ARM refuses a load balancer. */
export const unprovisionedIn = (error: unknown): string | undefined =>
  error instanceof ArmError && error.code === "ReferencedResourceNotProvisioned" ? publicIPIn(error) : undefined;

/** Pauses between reads of a public IP, and how long it is waited for. */
const firstPauseMs = 1_000;
const longestPauseMs = 8_000;
const limitMs = 30_000;

/**
 * Waits until the operation on a public IP has ended, which may be another writer's: a write would cancel it. One whose
 * last operation failed is written again unchanged, as upstream. False if the operation lasts.
 */
export async function provision(
  publicIPs: Resources<PublicIPAddress>,
  id: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<boolean> {
  const untilMs = clock.monotonic() + limitMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    const current = await publicIPs.read(id);
    if (!isUnended(current)) {
      if (current !== undefined && isUnprovisioned(current)) await publicIPs.put(id, current);
      return true;
    }
    if (clock.monotonic() >= untilMs) return false;
    await clock.sleep(pauseMs, signal);
    signal.throwIfAborted();
  }
}
