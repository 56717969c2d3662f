import { type Clock, type Logger, messageOf } from "cloud-controller-host/sdk";

import type { Handler } from "../serving/respond.ts";
import { forbidden, unauthorized, undecided } from "../serving/status-reply.ts";
import type { Authorizer } from "./authorization.ts";
import type { AccessMetrics } from "./metrics.ts";
import type { PeerInfo } from "./peer.ts";
import { identityHeaders, type RequestHeaderConfig } from "./request-header.ts";
import { anonymous, type User } from "./user.ts";

export interface FilterChainOptions {
  readonly authenticate: (request: Request, peer: PeerInfo) => Promise<User>;
  readonly authorize: Authorizer;
  readonly requestHeaderConfig: () => RequestHeaderConfig | undefined;
  /** Over HTTP/2 nobody unknown keeps a connection. upstream: gate `UnauthenticatedHTTP2DOSMitigation`. */
  readonly closesUnknown: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: AccessMetrics;
}

/**
 * Puts who may ask before what is answered: request log, authentication, authorization, then the handler, which sees
 * no credentials. Source: kubernetes/apiserver `server/config.go` and `endpoints/filters`.
 */
export function guarded(options: FilterChainOptions, handler: (request: Request) => Promise<Response>): Handler {
  return async (request, peer) => {
    const { clock, log } = options;
    const startedMs = clock.monotonic();
    const { pathname, search } = new URL(request.url);
    const response = await answer(options, request, peer, handler);
    if (!response.headers.has("cache-control")) response.headers.set("cache-control", "no-cache, private");
    log.debug(3, "HTTP", {
      verb: request.method,
      URI: `${pathname}${search}`,
      latencyMs: Math.round(clock.monotonic() - startedMs),
      userAgent: request.headers.get("user-agent") ?? "",
      srcIP: `${peer.address}:${peer.port}`,
      resp: response.status,
    });
    return response;
  };
}

async function answer(
  options: FilterChainOptions,
  request: Request,
  peer: PeerInfo,
  handler: (request: Request) => Promise<Response>,
): Promise<Response> {
  const user = await identify(options, request, peer);
  if (user === undefined) return closing(options, await unauthorized(request), peer);
  for (const header of identityHeaders(options.requestHeaderConfig(), request.headers)) request.headers.delete(header);
  const response = (await refusal(options, request, user)) ?? (await handler(request));
  return user.name === anonymous.name ? closing(options, response, peer) : response;
}

/** Undefined: what the request carries does not hold. */
async function identify(
  { authenticate, clock, log, metrics }: FilterChainOptions,
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
    log.error("a request could not be authenticated", { error });
    return undefined;
  }
}

async function refusal(
  { authorize, clock, log, metrics }: FilterChainOptions,
  request: Request,
  user: User,
): Promise<Response | undefined> {
  const startedMs = clock.monotonic();
  const seconds = (): number => (clock.monotonic() - startedMs) / 1000;
  const { pathname: path, search } = new URL(request.url);
  const verb = request.method.toLowerCase();
  try {
    const { result, reason } = await authorize(user, { verb, path });
    metrics.authorized(result, seconds());
    if (result === "allowed") return undefined;
    log.debug(4, "forbidden", { URI: `${path}${search}`, reason });
    return await forbidden(request, user.name, `cannot ${verb} path ${JSON.stringify(path)}`, reason);
  } catch (error) {
    metrics.authorized("error", seconds());
    log.error("a request could not be authorized", { error });
    return undecided(`${path}${search}`, messageOf(error));
  }
}

function closing({ closesUnknown }: FilterChainOptions, response: Response, { httpVersion }: PeerInfo): Response {
  if (closesUnknown && httpVersion === 2) response.headers.set("connection", "close");
  return response;
}
