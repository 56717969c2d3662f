import { type Clock, CodedError, InstanceNotFoundError, RetryAfterError } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../config/decode.ts";

/** Runs a lookup and repeats it after a failure. */
export type RetryLookup = <Value>(lookup: () => Promise<Value>) => Promise<Value>;

/**
 * upstream: the provider's wait loop around lookups of addresses, on top of the retries of single requests:
 * `cloudProviderBackoffRetries` attempts, or one where `cloudProviderBackoff` is off. Certain answers (no such
 * instance, one without a primary interface or address, ARM asks to wait) are not retried: other nodes would wait for
 * a minute or two, and the caller tries again anyway.
 */
export function retryLookups(config: AzureConfig, clock: Clock, signal: AbortSignal): RetryLookup {
  const attempts = config.cloudProviderBackoff ? Math.max(1, config.cloudProviderBackoffRetries) : 1;
  return async (lookup) => {
    let pauseMs = config.cloudProviderBackoffDuration * 1000;
    for (let left = attempts - 1; ; left--) {
      try {
        return await lookup();
      } catch (error) {
        if (isCertain(error) || left <= 0 || signal.aborted) throw error;
        await clock.sleep(pauseMs * (1 + Math.random() * config.cloudProviderBackoffJitter), signal);
        pauseMs *= config.cloudProviderBackoffExponent;
      }
    }
  };
}

const isCertain = (error: unknown): boolean =>
  error instanceof InstanceNotFoundError ||
  error instanceof RetryAfterError ||
  (error instanceof CodedError && error.code === "IncompleteVM");
