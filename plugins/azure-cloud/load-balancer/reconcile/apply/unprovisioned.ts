import type { PublicIPAddress } from "@azure/arm-network";
import type { Clock } from "cloud-controller-host/sdk";

import { ArmError, isUnended, isUnprovisioned } from "../../../arm/errors.ts";
import { idIn } from "../../../arm/resource-id.ts";
import type { Resources } from "../../../arm/writes/resources.ts";

/** Id of the public IP that an error of ARM names. */
export const publicIPIn = ({ message }: ArmError): string | undefined => idIn(message, "publicIPAddresses");

/** Id of the public IP for whose state ARM refuses a load balancer. */
export const unprovisionedIn = (error: unknown): string | undefined =>
  error instanceof ArmError && error.code === "ReferencedResourceNotProvisioned" ? publicIPIn(error) : undefined;

/** Pauses between reads of a public IP, and how long it is waited for. */
const firstPauseMs = 1_000;
const longestPauseMs = 8_000;
const limitMs = 30_000;

export interface ProvisionOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** True if an operation on the public IP is this deployment's. */
  readonly isOwn: (publicIP: PublicIPAddress) => boolean;
}

/**
 * Upstream's fix for a public IP whose last operation failed, or is not followed any more: it is written again unchanged.
 * A write would cancel the operation of another deployment: that is waited for. False if it lasts.
 */
export async function provision(
  publicIPs: Resources<PublicIPAddress>,
  id: string,
  { clock, signal, isOwn }: ProvisionOptions,
): Promise<boolean> {
  const untilMs = clock.monotonic() + limitMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    const current = await publicIPs.read(id);
    if (current === undefined) return true;
    if (isOwn(current) || isUnprovisioned(current)) await publicIPs.put(id, current);
    if (isOwn(current) || !isUnended(current)) return true;
    if (clock.monotonic() >= untilMs) return false;
    await clock.sleep(pauseMs, signal);
    signal.throwIfAborted();
  }
}
