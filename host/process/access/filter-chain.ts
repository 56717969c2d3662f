import { type Clock, type Logger, messageOf } from "cloud-controller-host/sdk";

import { ThrottledLog } from "../log/throttled-log.ts";
import type { PeerInfo } from "../serving/peer.ts";
import type { Handler } from "../serving/respond.ts";
import { forbidden, unauthorized, undecided } from "../serving/status-reply.ts";
import type { Authorizer } from "./authorization.ts";
import type { AccessMetrics } from "./metrics.ts";
import { identityHeaders, type RequestHeaderConfig } from "./request-header.ts";
import { anonymous, type User } from "./user.ts";

export interface FilterChainOptions {
  readonly authenticate: (request: Request, peer: PeerInfo) => Promise<User>;
  readonly authorize: Authorizer;
  readonly requestHeaderConfig: () => RequestHeaderConfig | undefined;
  /** Closes HTTP/2 connections of anonymous clients. upstream: gate `UnauthenticatedHTTP2DOSMitigation`. */
  readonly closesAnonymous: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: AccessMetrics;
}

/**
 * Wraps a handler in the request log, authentication and authorization; the handler sees no credentials. Source: kubernetes/apiserver `server/config.go` and `endpoints/filters`.
 */
export function guarded(options: FilterChainOptions, handler: (request: Request) => Promise<Response>): Handler {
  const { clock, log } = options;
  const failures = new ThrottledLog(log, clock);
  return async (request, peer) => {
    const startedMs = clock.monotonic();
    const { pathname, search } = new URL(request.url);
    const response = await answer({ ...options, failures }, request, peer, handler);
    if (!response.headers.has("cache-control")) response.headers.set("cache-control", "no-cache, private");
    log.debug(3, "HTTP", {
      verb: request.method,
      URI: `${pathname}${search}`,
      latencyMs: Math.round(clock.monotonic() - startedMs),
      userAgent: request.headers.get("user-agent") ?? "",
      srcIP: sourceOf(peer),
      resp: response.status,
    });
    return response;
  };
}

interface Filters extends FilterChainOptions {
  /** Throttled: unauthenticated clients can cause these lines. */
  readonly failures: ThrottledLog;
}

async function answer(
  options: Filters,
  request: Request,
  peer: PeerInfo,
  handler: (request: Request) => Promise<Response>,
): Promise<Response> {
  const user = await identify(options, request, peer);
  if (user === undefined) return closing(options, await unauthorized(request), peer);
  for (const header of identityHeaders(options.requestHeaderConfig(), request.headers)) request.headers.delete(header);
  if (user.name !== anonymous.name) peer.authenticated();
  const response = (await refusal(options, request, user, peer)) ?? (await handler(request));
  return user.name === anonymous.name ? closing(options, response, peer) : response;
}

/** Undefined when the request has invalid credentials. */
async function identify(
  { authenticate, clock, failures, metrics }: Filters,
  request: Request,
  peer: PeerInfo,
): Promise<User | undefined> {
  const startedMs = clock.monotonic();
  const seconds = (): number => (clock.monotonic() - startedMs) / 1000;
  try {
    const user = await authenticate(request, peer);
    metrics.authenticated("success", seconds(), user.name);
    return user;
  } catch (error) {
    metrics.authenticated("error", seconds());
    failures.error("Unable to authenticate the request", { error, srcIP: sourceOf(peer) });
    return undefined;
  }
}

async function refusal(
  { authorize, clock, log, failures, metrics }: Filters,
  request: Request,
  user: User,
  peer: PeerInfo,
): Promise<Response | undefined> {
  const startedMs = clock.monotonic();
  const seconds = (): number => (clock.monotonic() - startedMs) / 1000;
  const { pathname: path, search } = new URL(request.url);
  const verb = request.method.toLowerCase();
  try {
    const { result, reason } = await authorize(user, { verb, path }, request.signal);
    metrics.authorized(result, seconds());
    if (result === "allowed") return undefined;
    log.debug(4, "Forbidden", { URI: `${path}${search}`, reason });
    return await forbidden(request, user.name, `cannot ${verb} path ${JSON.stringify(path)}`, reason);
  } catch (error) {
    metrics.authorized("error", seconds());
    failures.error("Unable to authorize the request", { error, srcIP: sourceOf(peer) });
    return undecided(`${path}${search}`, messageOf(error));
  }
}

function closing({ closesAnonymous }: FilterChainOptions, response: Response, { httpVersion }: PeerInfo): Response {
  if (closesAnonymous && httpVersion === 2) response.headers.set("connection", "close");
  return response;
}

const sourceOf = ({ address, port }: PeerInfo): string => `${address}:${port}`;
