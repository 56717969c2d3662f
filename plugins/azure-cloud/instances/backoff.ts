import { type Clock, InstanceNotFoundError, RetryAfterError } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../config/decode.ts";

/** Repeats a look-up that failed. */
export type Repeat = <Value>(work: () => Promise<Value>) => Promise<Value>;

/**
 * Upstream's wait loop around look-ups of machines and addresses, on top of the retries of single requests: as many
 * tries as `cloudProviderBackoffRetries` says, and one where `cloudProviderBackoff` is off. What is certain (there is
 * no such machine, Azure asks to wait) is not tried again.
 */
export function repeating(config: AzureConfig, clock: Clock, signal: AbortSignal): Repeat {
  const tries = config.cloudProviderBackoff ? Math.max(1, config.cloudProviderBackoffRetries) : 1;
  return async (work) => {
    let pauseMs = config.cloudProviderBackoffDuration * 1000;
    for (let left = tries - 1; ; left--) {
      try {
        return await work();
      } catch (error) {
        const certain = error instanceof InstanceNotFoundError || error instanceof RetryAfterError;
        if (certain || left <= 0 || signal.aborted) throw error;
        await clock.sleep(pauseMs * (1 + Math.random() * config.cloudProviderBackoffJitter), signal);
        pauseMs *= config.cloudProviderBackoffExponent;
      }
    }
  };
}
