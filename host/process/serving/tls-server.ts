import { createSecureServer, type Http2SecureServer } from "node:http2";
import type { Socket } from "node:net";
import { createSecureContext, type SecureContext, type SecureVersion, type TLSSocket } from "node:tls";

import { Turns } from "../../async/turns.ts";
import { type ConnectionLimits, Connections, type RequestInProgress } from "./connections.ts";
import { FrameMeter, withoutHandle } from "./frame-meter.ts";
import { affordableConnections, listen, type ListenOptions } from "./listener.ts";
import { RequestGate } from "./request-gate.ts";
import { type Handler, type Incoming, type Outgoing, type RequestLimits, respond } from "./respond.ts";
import type { KeyPair } from "./self-signed.ts";

export interface ServeOptions extends ListenOptions {
  readonly certificate: KeyPair;
  readonly handler: Handler;
  readonly tls?: TlsOptions;
  readonly limits?: Partial<ServeLimits>;
  /** Default true: offer `h2` beside `http/1.1`. */
  readonly http2?: boolean;
}

export interface TlsOptions {
  /** Default TLS 1.2. */
  readonly minVersion?: SecureVersion;
  /** OpenSSL names; default: the runtime's. */
  readonly ciphers?: readonly string[];
  readonly curves?: readonly string[];
  /** The pair for the host name that the client requested; undefined selects the default one. */
  readonly byServerName?: (name: string) => KeyPair | undefined;
}

export interface ServeLimits extends ConnectionLimits, RequestLimits {
  /** Per request. */
  readonly maxHeaderBytes: number;
  /** Requests in progress per HTTP/2 connection. */
  readonly maxStreams: number;
}

export interface Served {
  readonly address: string;
  readonly port: number;
  /** Applies from the next connection on. */
  setCertificate(pair: KeyPair): void;
  /** Accepts no more connections, lets requests in progress end for up to `graceMs` (default 0), then cuts them. */
  close(graceMs?: number): Promise<void>;
}

/** One request costs about 0.2 ms. What a burst's client has canceled by its turn costs almost nothing. */
const startsPerTurn = 16;

/**
 * Times are those of kubernetes/apiserver `server/secure_serving.go`. Numbers and bytes, which Go leaves open, keep 256
 * connections with the largest headers below 200 MB: a token needs less than 32 KiB. A scraper or the API server has a
 * few streams at a time; Go allows 100.
 */
const defaultLimits: ServeLimits = {
  headerTimeMs: 32_000,
  idleTimeMs: 90_000,
  requestTimeMs: 120_000,
  bodyTimeMs: 10_000,
  maxConnections: 256,
  maxConnectionsPerAddress: 64,
  maxBodyBytes: 1024 * 1024,
  maxHeaderBytes: 64 * 1024,
  maxHeldBytes: 16 * 1024 * 1024,
  maxStreams: 16,
};

/** Serves HTTP/2 and HTTP/1.1 over TLS; client certificates are requested, never required. */
export async function serve(options: ServeOptions): Promise<Served> {
  const maxConnections = Math.min(defaultLimits.maxConnections, affordableConnections());
  const limits: ServeLimits = { ...defaultLimits, maxConnections, ...options.limits };
  const connections = new Connections(limits);
  const server = createSecureServer(serverOptions(options, limits));
  attach(server, connections, options, limits);
  const listener = await listen(server, options);
  return {
    address: listener.address,
    port: listener.port,
    setCertificate: ({ certPem, keyPem }) =>
      server.setSecureContext({ ...contextOptions(options.tls), cert: certPem, key: keyPem }),
    async close(graceMs = 0) {
      const closed = listener.close();
      connections.closeAll(graceMs);
      await closed;
    },
  };
}

const contextOptions = (tls: TlsOptions = {}): { minVersion: SecureVersion; ciphers?: string; ecdhCurve?: string } => ({
  minVersion: tls.minVersion ?? "TLSv1.2",
  ...(tls.ciphers && { ciphers: tls.ciphers.join(":") }),
  ...(tls.curves && { ecdhCurve: tls.curves.join(":") }),
});

function serverOptions(
  { certificate, tls, http2 = true }: ServeOptions,
  limits: ServeLimits,
): Parameters<typeof createSecureServer>[0] {
  const byServerName = tls?.byServerName;
  const contexts = new WeakMap<KeyPair, SecureContext>();
  const contextOf = (pair: KeyPair): SecureContext => {
    const context =
      contexts.get(pair) ?? createSecureContext({ ...contextOptions(tls), cert: pair.certPem, key: pair.keyPem });
    contexts.set(pair, context);
    return context;
  };
  return {
    ...contextOptions(tls),
    cert: certificate.certPem,
    key: certificate.keyPem,
    allowHTTP1: true,
    requestCert: true,
    rejectUnauthorized: false,
    ...http1Options(limits),
    // A client may cancel all that it has in progress. Each cancelled stream costs a request: more of them in one read
    // would delay all other clients.
    streamResetBurst: limits.maxStreams,
    streamResetRate: 33,
    settings: {
      maxConcurrentStreams: limits.maxStreams,
      maxFrameSize: 256 * 1024,
      maxHeaderListSize: limits.maxHeaderBytes,
    },
    ...(!http2 && { ALPNCallback: () => "http/1.1" }),
    ...(byServerName && {
      SNICallback: (name, done) => {
        const pair = byServerName(name);
        done(null, pair && contextOf(pair));
      },
    }),
  };
}

/** The HTTP/1 side reads options that the types of `node:http2` do not know. */
const http1Options = ({ maxHeaderBytes }: ServeLimits): { maxHeaderSize: number } => ({
  maxHeaderSize: maxHeaderBytes,
});

function attach(
  server: Http2SecureServer,
  connections: Connections,
  { handler, log }: ServeOptions,
  limits: ServeLimits,
): void {
  const gates = new WeakMap<Socket, RequestGate>();
  const turns = new Turns(startsPerTurn);
  const answer = async (incoming: Incoming, outgoing: Outgoing, request: RequestInProgress): Promise<void> => {
    request.ended(isGone(incoming) ? "keep" : await respond(incoming, outgoing, { handler, log, request, limits }));
    gates.get(incoming.socket)?.ended();
  };
  const asked = (incoming: Incoming, outgoing: Outgoing): void => {
    gates.get(incoming.socket)?.began(incoming);
    const request = connections.requestBegan(incoming.socket, headerBytesOf(incoming));
    turns.start(request.isAuthenticated, () => void answer(incoming, outgoing, request));
  };
  const seen = (what: string) => (error: Error) => log.debug(5, what, { error });
  server.on("connection", (socket: Socket) => connections.opened(socket));
  const handles = new WeakMap<TLSSocket, () => void>();
  // Before and after the runtime's own listener, which makes the session.
  server.prependListener("secureConnection", (socket: TLSSocket) => {
    if (socket.alpnProtocol !== "h2") return;
    handles.set(socket, withoutHandle(socket));
    const meter = new FrameMeter(performance.now());
    socket.on("data", (chunk: Buffer) => {
      const isFair = meter.read(chunk, { bytesWritten: socket.bytesWritten, nowMs: performance.now() });
      if (!isFair) socket.destroy();
    });
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    if (socket.alpnProtocol !== "h2") gates.set(socket, new RequestGate(socket));
    handles.get(socket)?.();
  });
  server.on("session", (session) => {
    connections.sessionBegan(session.socket, () => session.close());
    session.on("error", seen("HTTP/2 session error"));
  });
  server.on("sessionError", seen("HTTP/2 session error"));
  server.on("tlsClientError", seen("TLS handshake error"));
  server.on("clientError", (error: Error & { code?: string }, socket: Socket) => {
    seen("HTTP/1 error")(error);
    if (!socket.writable) return;
    const status = error.code === "HPE_HEADER_OVERFLOW" ? "431 Request Header Fields Too Large" : "400 Bad Request";
    // A client may ignore the end of its connection and continue to send.
    socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () => socket.destroy());
  });
  server.on("request", asked);
  // Without this, the runtime answers 417 by itself, to any number of requests.
  server.on("checkExpectation", asked);
}

/** The client has canceled it, or closed the connection. */
const isGone = ({ destroyed, stream }: Incoming): boolean => destroyed || stream?.destroyed === true;

const headerBytesOf = ({ url = "", rawHeaders }: Incoming): number =>
  rawHeaders.reduce((bytes, text) => bytes + text.length, url.length);
