import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { TLSSocket } from "node:tls";

import { defineKind, keyOf, type KindRef, type KubeObject } from "cloud-controller-host/sdk";

import type { ApiServer } from "../../../host/kube/connection/credentials.ts";
import { selfSigned } from "../../../host/process/serving/self-signed.ts";

const { certPem, keyPem } = await selfSigned("127.0.0.1", Date.now());
const [leafPem = "", caPem = ""] = certPem.split(/(?<=-----END CERTIFICATE-----)\n/);

/** A certificate, its key and the CA of the stub's server certificate; PEM. */
export const pem = { ca: caPem, cert: leafPem, key: keyPem };

export type Widget = KubeObject & { readonly spec?: { readonly size?: number } };
export const widgets = defineKind<Widget>({
  group: "test.io",
  version: "v1",
  kind: "Widget",
  plural: "widgets",
  namespaced: true,
});

export interface StubRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Common name of the client's certificate. */
  readonly clientName: string | undefined;
}

export interface StubReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

interface Watch {
  readonly plural: string;
  readonly response: Http2ServerResponse;
}

interface StoredEvent {
  readonly plural: string;
  readonly version: number;
  readonly line: string;
}

/** A stateful API server of the least kind: lists in pages, watches from a version, forgets its past on request. */
export class StubApi implements AsyncDisposable {
  readonly requests: StubRequest[] = [];
  /** Answers in place of the server. `hang` leaves the request unanswered, `reset` closes its connection. */
  intercept: ((request: StubRequest) => StubReply | "hang" | "reset" | undefined) | undefined;
  /** How many connections were ever opened. */
  connections = 0;
  pageSize = Number.POSITIVE_INFINITY;
  expireTokens = false;
  /** How it answers a streaming list: `cut` ends the stream before its bookmark. */
  streamingLists: "supported" | "unsupported" | "cut" = "unsupported";
  /** Changes are not sent to the watches. */
  muted = false;
  /** Streaming lists that it has rejected; they are not in `requests`. */
  rejectedStreams = 0;
  #server: Http2SecureServer | undefined;
  #port = 0;
  #version = 100;
  #oldest = 0;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Set<Watch>();
  readonly #events: StoredEvent[] = [];
  readonly #objects = new Map<string, Map<string, KubeObject>>();

  static async start(): Promise<StubApi> {
    const api = new StubApi();
    await api.listen();
    return api;
  }

  /** Starts, or starts again on the port that it had. */
  async listen(): Promise<void> {
    const options = { cert: leafPem, key: keyPem, allowHTTP1: true, requestCert: true, rejectUnauthorized: false };
    const server = createSecureServer(options, (request, response) => void this.#serve(request, response));
    server.on("connection", (socket: Socket) => {
      this.connections += 1;
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
      socket.on("error", () => undefined);
    });
    server.on("sessionError", () => undefined);
    await new Promise<void>((resolve) => server.listen(this.#port, "127.0.0.1", resolve));
    const address = server.address();
    if (isAddress(address)) this.#port = address.port;
    this.#server = server;
  }

  /** Stops listening and cuts every connection. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#watches.clear();
    for (const socket of this.#sockets) socket.destroy();
    if (server !== undefined) await new Promise((resolve) => server.close(resolve));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  get url(): string {
    return `https://127.0.0.1:${this.#port}`;
  }

  /** How to reach it, with headers and certificates of the test's choosing. */
  access(extra: { readonly headers?: Record<string, string>; readonly withCertificate?: boolean } = {}): ApiServer {
    const { cert, key } = pem;
    const tls = { ca: caPem, ...(extra.withCertificate && { cert, key }) };
    return {
      url: this.url,
      proxy: undefined,
      credentials: () => Promise.resolve({ tls, headers: extra.headers ?? {} }),
    };
  }

  get openConnections(): number {
    return this.#sockets.size;
  }

  get watches(): number {
    return this.#watches.size;
  }

  /** Requests so far: lists, reads of a version by a list of one object, and watches with the version that each began from. */
  get reads(): readonly string[] {
    return this.requests
      .filter((request) => request.method === "GET")
      .map(({ query }) =>
        query.has("sendInitialEvents")
          ? "STREAM"
          : query.has("watch")
            ? `WATCH ${query.get("resourceVersion")}`
            : query.get("limit") === "1"
              ? "VERSION"
              : "LIST",
      );
  }

  /** What it holds of a kind, by key. */
  objects(kind: KindRef): ReadonlyMap<string, KubeObject> {
    return this.#of(kind.plural);
  }

  /** Makes or changes an object and tells the watches. */
  put<T extends KubeObject>(kind: KindRef<T>, object: T): void {
    const known = this.#of(kind.plural).has(keyOf(object));
    this.#record(kind, known ? "MODIFIED" : "ADDED", object);
  }

  remove<T extends KubeObject>(kind: KindRef<T>, object: T): void {
    this.#record(kind, "DELETED", object);
  }

  bookmark(kind: KindRef): void {
    this.#version += 1;
    const metadata = { resourceVersion: String(this.#version) };
    this.send(kind, { type: "BOOKMARK", object: { kind: kind.kind, metadata } });
  }

  /** Sends a watch event, or any text, as it is. */
  send(kind: KindRef, event: unknown): void {
    const line = typeof event === "string" ? event : `${JSON.stringify(event)}\n`;
    for (const watch of this.#watches) if (watch.plural === kind.plural && !this.muted) watch.response.write(line);
  }

  /** Forgets its history: a watch from an earlier version gets 410 Gone. */
  compact(): void {
    this.#oldest = this.#version;
    this.#events.length = 0;
  }

  endWatches(): void {
    for (const watch of this.#watches) watch.response.end();
    this.#watches.clear();
  }

  #of(plural: string): Map<string, KubeObject> {
    const objects = this.#objects.get(plural) ?? new Map<string, KubeObject>();
    this.#objects.set(plural, objects);
    return objects;
  }

  #record(kind: KindRef, type: string, object: KubeObject): void {
    this.#version += 1;
    const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
    const stored = { ...object, metadata };
    if (type === "DELETED") this.#of(kind.plural).delete(keyOf(object));
    else this.#of(kind.plural).set(keyOf(object), stored);
    const event = { type, object: { apiVersion: `${kind.group}/${kind.version}`, kind: kind.kind, ...stored } };
    this.#events.push({ plural: kind.plural, version: this.#version, line: `${JSON.stringify(event)}\n` });
    this.send(kind, event);
  }

  async #serve(incoming: Http2ServerRequest, response: Http2ServerResponse): Promise<void> {
    let body = "";
    incoming.setEncoding("utf8");
    for await (const piece of incoming) body += String(piece);
    const request = requestOf(incoming, body);
    const streamed = request.query.has("sendInitialEvents");
    if (streamed && this.streamingLists === "unsupported") this.rejectedStreams += 1;
    else this.requests.push(request);
    const answer = this.intercept?.(request);
    if (answer === "hang") return;
    if (answer === "reset") incoming.socket.destroy();
    else if (answer !== undefined) reply(response, answer);
    else if (streamed) this.#streamList(request, response);
    else if (request.query.has("watch")) this.#watch(request, response);
    else if (request.method === "GET") reply(response, this.#list(request));
    else reply(response, { status: 200, body: { kind: "Status", metadata: {}, status: "Success" } });
  }

  #list({ path, query }: StubRequest): StubReply {
    const all = [...this.#of(pluralOf(path)).values()];
    const token = query.get("continue");
    if (token !== null && this.expireTokens) return status(410, "Expired", "the continue token is too old");
    const start = Number(token ?? 0);
    const limit = query.has("limit") ? Math.min(this.pageSize, Number(query.get("limit"))) : Number.POSITIVE_INFINITY;
    const end = Math.min(all.length, start + limit);
    const metadata = { resourceVersion: String(this.#version), ...(end < all.length && { continue: String(end) }) };
    return { status: 200, body: { kind: "WidgetList", metadata, items: all.slice(start, end) } };
  }

  #streamList({ path }: StubRequest, response: Http2ServerResponse): void {
    if (this.streamingLists === "unsupported") {
      reply(response, status(422, "Invalid", "sendInitialEvents is forbidden"));
      return;
    }
    response.writeHead(200, { "content-type": "application/json" });
    for (const object of this.#of(pluralOf(path)).values())
      response.write(`${JSON.stringify({ type: "ADDED", object })}\n`);
    if (this.streamingLists === "cut") {
      response.end();
      return;
    }
    const metadata = { resourceVersion: String(this.#version), annotations: { "k8s.io/initial-events-end": "true" } };
    response.write(`${JSON.stringify({ type: "BOOKMARK", object: { metadata } })}\n`);
  }

  #watch({ path, query }: StubRequest, response: Http2ServerResponse): void {
    const plural = pluralOf(path);
    const from = Number(query.get("resourceVersion"));
    response.writeHead(200, { "content-type": "application/json" });
    response.write("\n");
    if (from < this.#oldest) {
      response.end(`${JSON.stringify({ type: "ERROR", object: status(410, "Expired", "too old").body })}\n`);
      return;
    }
    for (const event of this.#events) if (event.plural === plural && event.version > from) response.write(event.line);
    const watch = { plural, response };
    this.#watches.add(watch);
    response.on("close", () => this.#watches.delete(watch));
  }
}

export const status = (code: number, reason: string, message: string): StubReply => ({
  status: code,
  body: { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", code, reason, message },
});

function requestOf(incoming: Http2ServerRequest, body: string): StubRequest {
  const url = new URL(incoming.url, "https://stub");
  const { socket } = incoming.stream?.session ?? incoming;
  const peer = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
  const headers = Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]);
  return {
    method: incoming.method,
    path: url.pathname,
    query: url.searchParams,
    headers: Object.fromEntries(headers),
    body,
    clientName: typeof peer?.subject?.CN === "string" ? peer.subject.CN : undefined,
  };
}

function reply(response: Http2ServerResponse, { status: code, headers, body }: StubReply): void {
  response.writeHead(code, { "content-type": "application/json", ...headers });
  const isWritten = typeof body === "string" || body instanceof Uint8Array;
  response.end(body === undefined ? "" : isWritten ? body : JSON.stringify(body));
}

const pluralOf = (path: string): string =>
  path
    .replace(/^\/(api|apis\/[^/]+)\/[^/]+\//, "")
    .replace(/^namespaces\/[^/]+\//, "")
    .split("/")[0] ?? "";

const isAddress = (address: AddressInfo | string | null): address is AddressInfo =>
  typeof address === "object" && address !== null;
