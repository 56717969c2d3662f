import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";

import { CodedError, type ErrorCode, type Logger, messageOf } from "cloud-controller-host/sdk";

import type { AfterRequest, RequestInProgress } from "./connections.ts";
import { eventStream, sendEvents } from "./event-stream.ts";
import { headerValues, peerCertificate, type PeerInfo } from "./peer.ts";

export type Handler = (request: Request, peer: PeerInfo) => Promise<Response>;

/** The common part of HTTP/1 and HTTP/2 requests. */
export interface Incoming extends Readable {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly complete: boolean;
  readonly socket: Socket;
  /** Over HTTP/2. */
  readonly stream?: Pick<Readable, "destroyed"> & { readonly rstCode?: number };
}

/** The common part of HTTP/1 and HTTP/2 replies. */
export interface Outgoing extends Writable {
  readonly headersSent: boolean;
  writeHead(status: number, headers: OutgoingHttpHeaders): unknown;
}

export interface RespondOptions {
  readonly handler: Handler;
  readonly log: Logger;
  readonly request: Pick<RequestInProgress, "certificate" | "authenticated" | "hold">;
  readonly limits: RequestLimits;
}

export interface RequestLimits {
  readonly maxBodyBytes: number;
  /** From the handler's first read of the body to its end. */
  readonly bodyTimeMs: number;
  /** From the end of the request's head to the last byte of the reply. */
  readonly requestTimeMs: number;
}

/** Headers of a connection, which HTTP/2 does not have. */
const connectionHeaders = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]);

/** For the rest of a body that the handler did not read, after the reply; the bytes are those of Go's `net/http`. */
const drainTimeMs = 1_000;
const maxDrainBytes = 256 * 1024;

/** Answers one request. It resolves when the request is over, and never rejects. */
export async function respond(incoming: Incoming, outgoing: Outgoing, options: RespondOptions): Promise<AfterRequest> {
  const { log, limits, request } = options;
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(tooSlow("the request took too long")), limits.requestTimeMs);
  const gone = (): void => over.abort(new CodedError("ClientGone", "the client closed the connection"));
  outgoing.on("error", gone);
  outgoing.once("close", () => {
    if (!outgoing.writableEnded) gone();
  });
  incoming.on("error", gone);
  const cut = rejectionOf(over.signal);
  try {
    const response = await Promise.race([answer(incoming, over, options), cut]);
    const discarded = discardRest(incoming);
    await Promise.race([send(response, incoming, outgoing, { signal: over.signal, request }), cut]);
    if (!isComplete(incoming)) {
      const timeout = rejectionOf(AbortSignal.timeout(drainTimeMs));
      if (!(await Promise.race([discarded, timeout]).catch(() => false))) return cutOff(incoming);
    }
    return response.headers.get("connection") === "close" ? "last" : "keep";
  } catch (error) {
    if (!over.signal.aborted) log.error("Request failed", { path: pathOf(incoming), error });
    refuse(incoming, outgoing, over.signal);
    return "keep";
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}

async function answer(incoming: Incoming, over: AbortController, options: RespondOptions): Promise<Response> {
  const {
    handler,
    limits,
    request: { certificate, authenticated },
  } = options;
  if (Number(incoming.headers["content-length"] ?? 0) > limits.maxBodyBytes)
    return plain(413, "the body is too large\n");
  const request = toRequest(incoming, over, options);
  if (request === undefined) return plain(400, "invalid request\n");
  return handler(request, {
    address: incoming.socket.remoteAddress ?? "",
    port: incoming.socket.remotePort ?? 0,
    httpVersion: isHttp2(incoming) ? 2 : 1,
    certificate: certificate(() => peerCertificate(incoming.socket)),
    headerValues: headerValues(incoming.rawHeaders),
    authenticated,
  });
}

/** The host is ours, whatever the client wrote: nothing may depend on it, and Elysia needs one of ordinary length. */
function toRequest(incoming: Incoming, over: AbortController, options: RespondOptions): Request | undefined {
  const { method = "GET", url = "" } = incoming;
  if (!isHttp2(incoming) && incoming.httpVersionMajor !== 1) return undefined;
  // A fragment would be part of the path to the router and not to the authorizer.
  if (!url.startsWith("/") || url.includes("#") || !hasOneHost(incoming)) return undefined;
  const bodiless = method === "GET" || method === "HEAD";
  try {
    return new Request(`https://localhost:10258${url}`, {
      method,
      headers: requestHeaders(incoming),
      signal: over.signal,
      ...(bodiless ? {} : { body: bodyOf(incoming, over, options), duplex: "half" }),
    });
  } catch {
    return undefined;
  }
}

/** Not by the version, which an HTTP/1 client may set to anything. */
const isHttp2 = ({ stream }: Incoming): boolean => stream !== undefined;

/** Required by HTTP/1.1: with two, a proxy in front and this server may mean different hosts. */
const hasOneHost = (incoming: Incoming): boolean =>
  isHttp2(incoming) || incoming.httpVersionMinor === 0 || headerValues(incoming.rawHeaders)("host").length === 1;

function requestHeaders({ rawHeaders }: Incoming): Headers {
  const headers = new Headers();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] ?? "");
  }
  return headers;
}

/** Reads the body only when the handler does; a body that does not arrive in time ends the request. */
function bodyOf(
  incoming: Incoming,
  over: AbortController,
  { limits: { maxBodyBytes, bodyTimeMs }, request }: RespondOptions,
): ReadableStream<Uint8Array> {
  let bytes = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const chunks = incoming[Symbol.asyncIterator]();
  over.signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        timer ??= setTimeout(() => over.abort(tooSlow("the request body did not arrive in time")), bodyTimeMs);
        const { done, value } = await chunks.next();
        if (done) {
          clearTimeout(timer);
          // Of a stream that was reset, the runtime ends the body as if it were complete.
          if (isReset(incoming)) controller.error(new DOMException("the stream was reset", "AbortError"));
          else controller.close();
          return;
        }
        const chunk = Buffer.from(value);
        bytes += chunk.length;
        request.hold(chunk.length);
        if (bytes > maxBodyBytes)
          controller.error(new CodedError("BodyTooLarge", `the body exceeds ${maxBodyBytes} bytes`));
        else controller.enqueue(chunk);
      },
    },
    // Without this, the stream would read a first chunk that no handler asked for.
    { highWaterMark: 0 },
  );
}

/**
 * A reply is whole in memory, and counts until the client has read it; a stream of events is passed on as the client
 * reads it.
 */
async function send(
  response: Response,
  incoming: Incoming,
  outgoing: Outgoing,
  { signal, request }: Pick<RespondOptions, "request"> & { readonly signal: AbortSignal },
): Promise<void> {
  const isBodiless = response.body === null || incoming.method === "HEAD";
  if (!isBodiless && response.headers.get("content-type") === eventStream)
    return sendEvents(
      response.body,
      outgoing,
      () => outgoing.writeHead(response.status, headersOf(response, incoming)),
      signal,
    );
  const body = isBodiless ? undefined : await response.bytes();
  request.hold(body?.length ?? 0);
  outgoing.writeHead(response.status, {
    ...headersOf(response, incoming),
    ...(body !== undefined && { "content-length": body.length }),
  });
  const done = finished(outgoing, { readable: false, signal });
  outgoing.end(body);
  await done;
}

const headersOf = (response: Response, incoming: Incoming): OutgoingHttpHeaders => ({
  ...Object.fromEntries([...response.headers].filter(([name]) => !isHttp2(incoming) || !connectionHeaders.has(name))),
  ...(isLast(incoming) && { connection: "close" }),
});

/** The reply must declare it too: otherwise the runtime half-closes and reads whatever the client still sends. */
const isLast = (incoming: Incoming): boolean =>
  !isHttp2(incoming) && /close|upgrade/i.test(incoming.headers.connection ?? "");

/**
 * Discards what the handler left of the body, so that the connection can be reused; false when that is too much, and
 * over HTTP/2, where only the stream ends. It begins before the reply ends: after that the runtime itself would read and
 * discard, without a limit.
 */
async function discardRest(incoming: Incoming): Promise<boolean> {
  if (isComplete(incoming)) return true;
  if (isHttp2(incoming)) return false;
  const tooMuch = Promise.withResolvers<boolean>();
  let bytes = 0;
  incoming.on("data", (chunk: Uint8Array) => {
    bytes += chunk.length;
    if (bytes <= maxDrainBytes) return;
    incoming.pause();
    tooMuch.resolve(false);
  });
  incoming.resume();
  const ended = finished(incoming, { writable: false }).then(
    () => true,
    () => false,
  );
  return Promise.race([ended, tooMuch.promise]);
}

const isComplete = ({ method, complete, destroyed }: Incoming): boolean =>
  method === "GET" || method === "HEAD" || complete || destroyed;

const isReset = ({ stream }: Incoming): boolean => (stream?.rstCode ?? 0) !== 0;

/** Over HTTP/2 only the stream is closed. */
function cutOff(incoming: Incoming): AfterRequest {
  if (!isHttp2(incoming)) return "cut";
  incoming.destroy();
  return "keep";
}

const timeoutCode: ErrorCode = "RequestTimeout";
const tooSlow = (message: string): CodedError => new CodedError(timeoutCode, message);

function refuse(incoming: Incoming, outgoing: Outgoing, { aborted, reason }: AbortSignal): void {
  if (outgoing.headersSent || outgoing.destroyed) {
    outgoing.destroy();
    return;
  }
  const close = isHttp2(incoming) ? {} : { connection: "close" };
  outgoing.writeHead(aborted ? 504 : 500, { "content-type": "text/plain; charset=utf-8", ...close });
  outgoing.end(aborted ? `${messageOf(reason)}\n` : "the request failed; see the log\n");
}

const plain = (status: number, body: string): Response =>
  new Response(body, { status, headers: { "Content-Type": "text/plain; charset=utf-8", Connection: "close" } });

const pathOf = ({ url = "" }: Incoming): string => url.split("?")[0] ?? "";

/** Rejects with the signal's reason when it aborts; never otherwise. */
function rejectionOf(signal: AbortSignal): Promise<never> {
  const rejection = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  rejection.catch(() => undefined);
  return rejection;
}
