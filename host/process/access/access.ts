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
  /** Client for TokenReviews. Without one, bearer tokens are ignored and no client CA is looked up. */
  readonly authenticationClient: KubeClient | undefined;
  /** Client for SubjectAccessReviews. Without one, only always-allowed paths are authorized. */
  readonly authorizationClient: KubeClient | undefined;
  readonly featureEnabled: (gate: string) => boolean;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Delegated authentication and authorization: the cluster's API server decides on each request. */
export interface Access {
  /** Wraps a handler in authentication and authorization; the handler sees no credentials. */
  guard(handler: (request: Request) => Promise<Response>): Handler;
  /** Reloads the client CAs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** Loads the client CAs; rejects as `ClientCAs.open` does. */
export async function openAccess(options: AccessOptions): Promise<Access> {
  const { flags, authenticationClient, authorizationClient, featureEnabled, clock, log } = options;
  const metrics = accessMetrics(options.metrics);
  const cas = await ClientCAs.open({ flags, client: authenticationClient, clock, log });
  const expires = (inMs: number): void => metrics.certificateExpires(inMs / 1000);
  const authenticate = authenticateBy([
    requestHeaders(() => cas.proxies, { uids: featureEnabled("RemoteRequestHeaderUID") }),
    clientCertificates(() => cas.clients, {
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
    requestHeaderConfig: () => cas.proxies,
    closesAnonymous: featureEnabled("UnauthenticatedHTTP2DOSMitigation"),
    clock,
    log,
    metrics,
  };
  return {
    guard: (handler) => guarded(chain, handler),
    run: (signal) => cas.follow(signal),
  };
}
