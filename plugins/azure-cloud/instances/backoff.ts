import { type Clock, InstanceNotFoundError, RetryAfterError } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../config/decode.ts";

/** Runs a lookup and repeats it after a failure. */
export type RetryLookup = <Value>(lookup: () => Promise<Value>) => Promise<Value>;

/**
 * upstream: the provider's wait loop around lookups of addresses, on top of the retries of single requests:
 * `cloudProviderBackoffRetries` attempts, or one where `cloudProviderBackoff` is off. Certain answers (no such
 * instance, ARM asks to wait) are not retried.
 */
export function retryLookups(config: AzureConfig, clock: Clock, signal: AbortSignal): RetryLookup {
  const attempts = config.cloudProviderBackoff ? Math.max(1, config.cloudProviderBackoffRetries) : 1;
  return async (lookup) => {
    let pauseMs = config.cloudProviderBackoffDuration * 1000;
    for (let left = attempts - 1; ; left--) {
      try {
        return await lookup();
      } catch (error) {
        const certain = error instanceof InstanceNotFoundError || error instanceof RetryAfterError;
        if (certain || left <= 0 || signal.aborted) throw error;
        await clock.sleep(pauseMs * (1 + Math.random() * config.cloudProviderBackoffJitter), signal);
        pauseMs *= config.cloudProviderBackoffExponent;
      }
    }
  };
}
