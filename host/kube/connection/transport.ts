import { isDeepStrictEqual } from "node:util";

import { ApiError, type Clock, CodedError, isObject } from "cloud-controller-host/sdk";

import { systemClock } from "../../async/clock.ts";
import { unlessAborted } from "../../async/timeout.ts";
import { Turns } from "../../async/turns.ts";
import { TokenBucket } from "../queue/rate-limit.ts";
import type { ApiServer, Credentials } from "./credentials.ts";
import { dedicatedSession, type Session } from "./dedicated-session.ts";
import { type Answer, sendOnce } from "./send-once.ts";

export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With a leading slash. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string;
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
  /** The body is passed through as it arrives; the time limit covers only its beginning. Always read or cancel it. */
  readonly stream?: boolean;
  /** Called right before each attempt is sent, after every wait; an exception ends the call. */
  readonly guard?: () => void;
}

/** Description of one call to `send`, for metrics and traces. */
export interface CallFacts {
  readonly verb: string;
  /** `host:port` of the API server. */
  readonly host: string;
  readonly path: string;
  readonly stream: boolean;
}

/** `code` is the HTTP status of the reply, or `<error>` without one. Sizes are in bytes. */
export interface CallObserver {
  rateLimited?(waitMs: number): void;
  /** Called for each attempt, retries included. */
  answered?(code: string): void;
  retrying?(code: string): void;
  ended?(outcome: {
    readonly durationMs: number;
    readonly requestSize: number;
    readonly responseSize?: number | undefined;
  }): void;
}

export type TransportObserver = (call: CallFacts) => CallObserver;

export interface TransportOptions {
  readonly userAgent: string;
  /** Requests per second: below 0 unlimited, 0 is 5. upstream: `rest.Config.QPS`. */
  readonly qps?: number;
  /** 0 is 10. */
  readonly burst?: number;
  /** Time limit of each attempt; by default slightly longer than the API server's own 60 s. */
  readonly timeoutMs?: number;
  readonly observer?: TransportObserver | undefined;
  readonly clock?: Clock;
  /** Kinds that can be read from protobuf are requested in it. */
  readonly protobuf?: boolean;
  /** Sends outside of the limit that all `fetch` requests of the process share; no streams. Not through a proxy. */
  readonly dedicated?: boolean;
  /** Follows the message of a denial by the authorizer; default: the command that prints the roles of the host. */
  readonly permissionHint?: string | undefined;
}

/** Requests to one API server under one user agent, with its own connections and rate limit. */
export interface Transport {
  readonly url: string;
  readonly userAgent: string;
  readonly protobuf?: boolean;
  /**
   * Resolves with a 2xx reply. Rejects with `ApiError` for any other reply, with a `CodedError` of code
   * `ApiServerUnreachable` or `Timeout` without a reply, and with the signal's reason when it aborts.
   */
  send(request: ApiRequest): Promise<Response>;
  /** Closes idle connections; requests in flight continue. */
  close(): void;
}

export function createTransport(api: ApiServer, options: TransportOptions): Transport {
  return new FetchTransport(api, options);
}

/** upstream: client-go `rest/with_retry.go`. */
const maxRetries = 10;
const resetRetryMs = 1000;
/** A proxy in maintenance may ask for a day, and a caller holds a worker meanwhile. client-go has no limit. */
const maxRetryMs = 60_000;
const noReply = "<error>";
const defaultTimeoutMs = 65_000;
/**
 * The event loop hands over replies for as long as further ones come, before any timer. What follows a reply costs about
 * a millisecond: its record, and the next request of the same worker.
 */
const repliesPerTurn = 4;

class FetchTransport implements Transport {
  readonly url: string;
  readonly userAgent: string;
  readonly protobuf: boolean;
  readonly #host: string;
  readonly #api: ApiServer;
  readonly #bucket: TokenBucket | undefined;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #observer: TransportObserver | undefined;
  #session: { readonly tls: Credentials["tls"]; readonly session: Session } | undefined;
  readonly #dedicated: boolean;
  readonly #permissionHint: string | undefined;
  readonly #replies = new Turns(repliesPerTurn);

  constructor(api: ApiServer, options: TransportOptions) {
    this.url = api.url;
    this.userAgent = options.userAgent;
    this.protobuf = options.protobuf ?? false;
    this.#host = new URL(api.url).host;
    this.#api = api;
    this.#clock = options.clock ?? systemClock;
    this.#timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    this.#observer = options.observer;
    this.#dedicated = options.dedicated === true && api.proxy === undefined;
    this.#permissionHint = options.permissionHint;
    const perSecond = options.qps || 5;
    if (perSecond > 0) this.#bucket = new TokenBucket({ perSecond, burst: options.burst || 10, clock: this.#clock });
  }

  async send(request: ApiRequest): Promise<Response> {
    try {
      return await this.#send(request);
    } finally {
      await new Promise<void>((resolve) => this.#replies.start(false, resolve));
    }
  }

  close(): void {
    this.#session?.session.close();
  }

  async #send(request: ApiRequest): Promise<Response> {
    const { method: verb, path, stream = false } = request;
    const call = this.#observer?.({ verb, host: this.#host, path, stream });
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    const startedAt = performance.now();
    let responseSize: number | undefined;
    try {
      const answer = await this.#sendUntilAnswered(request, body, call);
      responseSize = answer.size;
      return answer.response;
    } finally {
      const requestSize = body === undefined ? 0 : Buffer.byteLength(body);
      call?.ended?.({ durationMs: performance.now() - startedAt, requestSize, responseSize });
    }
  }

  async #sendUntilAnswered(
    request: ApiRequest,
    body: string | undefined,
    call: CallObserver | undefined,
  ): Promise<Extract<Answer, { ok: true }>> {
    // Read for all requests, they may take a plugin or a token request minutes: a stop does not wait for them.
    let credentials = await unlessAborted(this.#api.credentials(), request.signal);
    let renewed = false;
    for (let retries = 0; ; retries++) {
      const waited = await this.#bucket?.take(request.signal);
      if (waited !== undefined) call?.rateLimited?.(waited);
      request.guard?.();
      const answer = await this.#try(request, body, credentials);
      const code = String(answer.status ?? noReply);
      call?.answered?.(code);
      if (answer.ok) return answer;
      if (answer.status === 401 && !renewed) {
        renewed = true;
        credentials = await unlessAborted(this.#api.credentials({ rejected: credentials }), request.signal);
      } else {
        const wait = retryDelayMs(request, answer.error);
        if (wait === undefined || retries >= maxRetries) throw answer.error;
        await this.#clock.sleep(wait, request.signal);
        request.signal?.throwIfAborted();
      }
      call?.retrying?.(code);
    }
  }

  #try(request: ApiRequest, body: string | undefined, credentials: Credentials): Promise<Answer> {
    return sendOnce({
      session: this.#sessionFor(credentials.tls),
      method: request.method,
      server: this.url,
      target: targetOf(request),
      headers: this.#headersOf(request, credentials),
      body,
      signal: request.signal,
      timeoutMs: this.#timeoutMs,
      stream: request.stream ?? false,
      permissionHint: this.#permissionHint,
    });
  }

  #headersOf(request: ApiRequest, credentials: Credentials): Record<string, string> {
    return {
      "User-Agent": this.userAgent,
      Accept: request.accept ?? "application/json",
      // Within a cluster, compression costs both sides more than the network. upstream: `rest.Config.DisableCompression`.
      "Accept-Encoding": "identity",
      ...(request.body !== undefined && { "Content-Type": request.contentType ?? "application/json" }),
      ...credentials.headers,
    };
  }

  /** Connections are kept while the certificates stay the same. */
  #sessionFor(tls: Credentials["tls"]): Session {
    if (this.#session !== undefined && isDeepStrictEqual(this.#session.tls, tls)) return this.#session.session;
    this.#session?.session.close();
    const session = this.#dedicated ? dedicatedSession(tls) : this.#pooledSession(tls);
    this.#session = { tls, session };
    return session;
  }

  #pooledSession(tls: Credentials["tls"]): Session {
    const { proxy: url } = this.#api;
    // It has been chosen: the environment does not change it.
    return new Bun.FetchSession({ tls, proxy: url === undefined ? false : { url, respectNoProxy: false } });
  }
}

/**
 * The delay before a retry: as the server asks, or, for reads, after a connection reset; undefined for no retry.
 * upstream: client-go `rest/with_retry.go`.
 */
function retryDelayMs(request: ApiRequest, failure: unknown): number | undefined {
  if (failure instanceof ApiError) {
    const mayRetry = failure.retryAfterMs !== undefined && (failure.status === 429 || failure.status >= 500);
    return mayRetry ? Math.min(failure.retryAfterMs, maxRetryMs) : undefined;
  }
  const reset = failure instanceof CodedError && isObject(failure.cause) && failure.cause["code"] === "ECONNRESET";
  return reset && request.method === "GET" && !request.stream ? resetRetryMs : undefined;
}

function targetOf(request: ApiRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) if (value !== undefined) query.set(name, value);
  return query.size === 0 ? request.path : `${request.path}?${query.toString()}`;
}
