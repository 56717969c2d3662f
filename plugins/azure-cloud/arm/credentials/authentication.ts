import type { PipelinePolicy, SendRequest } from "@azure/core-rest-pipeline";
import type { Clock } from "cloud-controller-host/sdk";

import type { RenewableCredential } from "./credential.ts";

/** For all requests together: an identity that ARM refuses gets new tokens in vain. */
const minRenewalIntervalMs = 30_000;

/**
 * Signs requests with the SDK's policies, which use a token until shortly before it expires. A token that ARM refuses
 * earlier (it was revoked, or this machine's clock is slow) is discarded, and the refused request is sent once more with
 * a new one.
 */
export function authenticationPolicy(
  credentials: readonly RenewableCredential[],
  makeSigners: () => readonly PipelinePolicy[],
  clock: Clock,
): PipelinePolicy {
  let signers = makeSigners();
  const sign = (next: SendRequest): SendRequest =>
    signers.reduceRight((inner, policy) => (request) => policy.sendRequest(request, inner), next);
  let renewedMs = Number.NEGATIVE_INFINITY;
  return {
    name: "authentication",
    async sendRequest(request, next) {
      const used = signers;
      const response = await sign(next)(request);
      if (response.status !== 401) return response;
      if (used === signers) {
        if (clock.monotonic() - renewedMs < minRenewalIntervalMs) return response;
        renewedMs = clock.monotonic();
        for (const credential of credentials) credential.renew();
        signers = makeSigners();
      }
      return sign(next)(request);
    },
  };
}
