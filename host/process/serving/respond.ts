import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { finished, pipeline } from "node:stream/promises";

import { CodedError, type Logger } from "cloud-controller-host/sdk";

import { headerValues, type PeerCertificate, type PeerInfo } from "../access/peer.ts";

export type Handler = (request: Request, peer: PeerInfo) => Promise<Response>;

/** What HTTP/1 and HTTP/2 requests have in common. */
export interface Incoming extends Readable {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly httpVersionMajor: number;
  readonly complete: boolean;
  readonly socket: Socket;
}

/** What HTTP/1 and HTTP/2 replies have in common. */
export interface Outgoing extends Writable {
  readonly headersSent: boolean;
  writeHead(status: number, headers: OutgoingHttpHeaders): unknown;
}

export interface RespondOptions {
  readonly handler: Handler;
  readonly log: Logger;
  readonly certificate: PeerCertificate | undefined;
  /** Of a request body. */
  readonly mostBodyBytes: number;
  /** From the end of the request's head to the last byte of the reply. */
  readonly requestTimeMs: number;
}

/** Headers that belong to a connection: HTTP/2 has none of them. */
const connectionHeaders = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]);

/**
 * Answers one request; resolves when it is done with, whichever way, and never rejects. True asks for the connection
 * to be ended: HTTP/2 has no header that says so.
 */
export async function respond(incoming: Incoming, outgoing: Outgoing, options: RespondOptions): Promise<boolean> {
  const { log, requestTimeMs } = options;
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(new CodedError("RequestTimeout", "took too long")), requestTimeMs);
  const gone = (): void => over.abort(new CodedError("ClientGone", "the client is gone"));
  outgoing.on("error", gone);
  outgoing.once("close", () => {
    if (!outgoing.writableEnded) gone();
  });
  incoming.on("error", gone);
  const cut = rejectionOf(over.signal);
  try {
    const response = await Promise.race([answer(incoming, over.signal, options), cut]);
    await Promise.race([send(response, incoming, outgoing, over.signal), cut]);
    await Promise.race([drained(incoming), cut]);
    return response.headers.get("connection") === "close";
  } catch (error) {
    if (!over.signal.aborted) log.error("a request failed", { path: pathOf(incoming), error });
    refuse(incoming, outgoing, over.signal.aborted ? 504 : 500);
    return false;
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}

async function answer(incoming: Incoming, signal: AbortSignal, options: RespondOptions): Promise<Response> {
  if (Number(incoming.headers["content-length"] ?? 0) > options.mostBodyBytes)
    return plain(413, "the body is too large\n");
  const request = toRequest(incoming, signal, options.mostBodyBytes);
  if (request === undefined) return plain(400, "the request cannot be read\n");
  return options.handler(request, {
    address: incoming.socket.remoteAddress ?? "",
    port: incoming.socket.remotePort ?? 0,
    httpVersion: incoming.httpVersionMajor,
    certificate: options.certificate,
    headerValues: headerValues(incoming.rawHeaders),
  });
}

/** The host part is ours, whatever the client wrote: nothing may depend on it, and Elysia wants one of usual length. */
function toRequest(incoming: Incoming, signal: AbortSignal, mostBodyBytes: number): Request | undefined {
  const { method = "GET", url = "" } = incoming;
  if (!url.startsWith("/")) return undefined;
  const bodiless = method === "GET" || method === "HEAD";
  try {
    return new Request(`https://localhost:10258${url}`, {
      method,
      headers: requestHeaders(incoming),
      signal,
      ...(bodiless ? {} : { body: bodyOf(incoming, mostBodyBytes), duplex: "half" }),
    });
  } catch {
    return undefined;
  }
}

function requestHeaders({ rawHeaders }: Incoming): Headers {
  const headers = new Headers();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] ?? "");
  }
  return headers;
}

function bodyOf(incoming: Incoming, mostBytes: number): ReadableStream<Uint8Array> {
  let bytes = 0;
  const chunks = incoming[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done) {
        controller.close();
        return;
      }
      const chunk = Buffer.from(value);
      bytes += chunk.length;
      if (bytes > mostBytes) controller.error(new CodedError("BodyTooLarge", `a body of more than ${mostBytes} bytes`));
      else controller.enqueue(chunk);
    },
  });
}

async function send(response: Response, incoming: Incoming, outgoing: Outgoing, signal: AbortSignal): Promise<void> {
  const overHttp2 = incoming.httpVersionMajor === 2;
  outgoing.writeHead(response.status, responseHeaders(response.headers, overHttp2));
  if (response.body === null || incoming.method === "HEAD") {
    await response.body?.cancel();
    const done = finished(outgoing, { readable: false, signal });
    outgoing.end();
    await done;
  } else await pipeline(response.body, outgoing, { signal });
}

function responseHeaders(headers: Headers, overHttp2: boolean): OutgoingHttpHeaders {
  const cookies = headers.getSetCookie();
  return {
    ...Object.fromEntries([...headers].filter(([name]) => !overHttp2 || !connectionHeaders.has(name))),
    ...(cookies.length > 0 && { "set-cookie": cookies }),
  };
}

/** Reads and forgets what the handler left of the body, so that the connection can be used again. */
async function drained(incoming: Incoming): Promise<void> {
  const bodiless = incoming.method === "GET" || incoming.method === "HEAD";
  if (bodiless || incoming.complete || incoming.destroyed) return;
  incoming.resume();
  await finished(incoming, { writable: false });
}

function refuse(incoming: Incoming, outgoing: Outgoing, status: number): void {
  if (outgoing.headersSent || outgoing.destroyed) {
    outgoing.destroy();
    return;
  }
  const close = incoming.httpVersionMajor === 2 ? {} : { connection: "close" };
  outgoing.writeHead(status, { "content-type": "text/plain; charset=utf-8", ...close });
  outgoing.end(status === 504 ? "the request took too long\n" : "the request failed; the log says why\n");
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
