import type { Clock, KubeClient, Logger, Metrics } from "cloud-controller-host/sdk";

import type { Handler } from "../serving/respond.ts";
import { authorizeBy } from "./authorization.ts";
import { bearerTokens } from "./bearer-token.ts";
import { type ClientCAFlags, ClientCAs } from "./client-ca.ts";
import { clientCertificates } from "./client-certificate.ts";
import { guarded } from "./filter-chain.ts";
import { accessMetrics } from "./metrics.ts";
import { requestHeaders } from "./request-header.ts";
import { authenticateBy } from "./user.ts";

/** The flags of authentication and authorization. Durations are in milliseconds. */
export interface AccessFlags extends ClientCAFlags {
  readonly authenticationTokenWebhookCacheTtl: number;
  readonly authorizationWebhookCacheAuthorizedTtl: number;
  readonly authorizationWebhookCacheUnauthorizedTtl: number;
  readonly authorizationAlwaysAllowPaths: readonly string[];
}

export interface AccessOptions {
  readonly flags: AccessFlags;
  /** Whoever answers TokenReviews and holds the client CA; undefined: bearer tokens are ignored. */
  readonly authenticationClient: KubeClient | undefined;
  /** Whoever answers SubjectAccessReviews; undefined: all that is not always allowed is forbidden. */
  readonly authorizationClient: KubeClient | undefined;
  /** Whether a feature gate is on. */
  readonly featureEnabled: (gate: string) => boolean;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Who may ask what of this process, decided by the cluster's API server. */
export interface Access {
  /** Puts the decision before a handler; the handler sees no credentials. */
  guard(handler: (request: Request) => Promise<Response>): Handler;
  /** Follows what is trusted, until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** Reads what is trusted. Rejects as `ClientCAs.open` does. */
export async function openAccess(options: AccessOptions): Promise<Access> {
  const { flags, authenticationClient, authorizationClient, featureEnabled, clock, log } = options;
  const metrics = accessMetrics(options.metrics);
  const trust = await ClientCAs.open({ flags, client: authenticationClient, clock, log });
  const expires = (inMs: number): void => metrics.certificateExpires(inMs / 1000);
  const authenticate = authenticateBy([
    requestHeaders(() => trust.proxies, { uids: featureEnabled("RemoteRequestHeaderUID") }),
    clientCertificates(() => trust.clients, {
      uids: featureEnabled("AllowParsingUserUIDFromCertAuth"),
      expires,
      clock,
    }),
    ...(authenticationClient === undefined
      ? []
      : [
          bearerTokens({
            client: authenticationClient,
            clock,
            metrics,
            ttlMs: flags.authenticationTokenWebhookCacheTtl,
          }),
        ]),
  ]);
  const authorize = authorizeBy({
    client: authorizationClient,
    clock,
    metrics,
    alwaysAllowPaths: flags.authorizationAlwaysAllowPaths,
    allowedTtlMs: flags.authorizationWebhookCacheAuthorizedTtl,
    deniedTtlMs: flags.authorizationWebhookCacheUnauthorizedTtl,
  });
  const chain = {
    authenticate,
    authorize,
    requestHeaderConfig: () => trust.proxies,
    closesUnknown: featureEnabled("UnauthenticatedHTTP2DOSMitigation"),
    clock,
    log,
    metrics,
  };
  return {
    guard: (handler) => guarded(chain, handler),
    run: (signal) => trust.follow(signal),
  };
}
