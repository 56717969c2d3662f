import type { Socket } from "node:net";

import type { PeerCertificate } from "./peer.ts";

/** Identifies a connection. HTTP/2 hands out stand-ins for its socket, so the object does not identify it. */
export type Endpoints = Partial<Pick<Socket, "remoteAddress" | "remotePort" | "localAddress" | "localPort">>;

export interface ConnectionLimits {
  /** From the connection's start to its first complete request head. */
  readonly headerTimeMs: number;
  /** Without any request in progress. */
  readonly idleTimeMs: number;
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  /** Of all requests in progress together: headers, bodies, unread replies, and `requestBytes` for each. */
  readonly maxHeldBytes: number;
}

/** Fate of the connection after a request: `last` ends it with GOAWAY, `cut` destroys it. */
export type AfterRequest = "keep" | "last" | "cut";

/** Memory of a request in progress besides its bytes: parser, streams, timers. */
const requestBytes = 32 * 1024;

/** A request in progress, and the connection that it came on. */
export interface RequestInProgress {
  /** An earlier request of the connection was authenticated. */
  readonly isAuthenticated: boolean;
  /** The client's certificate, read once per connection. */
  certificate(read: () => PeerCertificate | undefined): PeerCertificate | undefined;
  /** The client is known: its connection is not closed to make room for others. */
  authenticated(): void;
  /** Counts bytes in memory until they are released, by a negative number, or the request ends. */
  hold(bytes: number): void;
  /** To be called once. */
  ended(after: AfterRequest): void;
}

interface Connection {
  readonly socket: Socket;
  readonly address: string;
  /** Ends an HTTP/2 session with GOAWAY. */
  closeSession: (() => void) | undefined;
  certificate: PeerCertificate | "none" | undefined;
  isAuthenticated: boolean;
  requests: number;
  heldBytes: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** From GOAWAY until the connection is cut. */
const goawayMs = 5_000;

/**
 * Bounds connections in number, time and memory, whatever they send or do not send. When there are too many, the oldest
 * unauthenticated one of the busiest address is closed: a liveness probe comes from an address with few connections, and
 * is newer than what an attacker holds open. When their requests hold too much memory, one of the largest is closed. Node's
 * own server timeouts do not apply to the HTTP/1 connections of a `node:http2` server under Bun.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  /** Oldest first. */
  readonly #open = new Map<string, Connection>();
  #heldBytes = 0;
  #closing = false;

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  opened(socket: Socket): void {
    const address = socket.remoteAddress ?? "";
    if (this.#closing || !this.#makeRoom(address)) {
      socket.destroy();
      return;
    }
    const key = keyOf(socket);
    // A client may use its port again before the end of its last connection is noticed here.
    const previous = this.#open.get(key);
    if (previous !== undefined) this.#evict(key, previous);
    const connection: Connection = {
      socket,
      address,
      closeSession: undefined,
      certificate: undefined,
      isAuthenticated: false,
      requests: 0,
      heldBytes: 0,
      timer: undefined,
    };
    this.#open.set(key, connection);
    this.#arm(connection, this.#limits.headerTimeMs, () => socket.destroy());
    socket.setKeepAlive(true, 180_000);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => this.#forget(key, connection));
  }

  sessionBegan(endpoints: Endpoints, close: () => void): void {
    const connection = this.#open.get(keyOf(endpoints));
    if (connection !== undefined) connection.closeSession = close;
  }

  requestBegan(endpoints: Endpoints, headerBytes: number): RequestInProgress {
    const connection = this.#open.get(keyOf(endpoints));
    if (connection === undefined) return ofClosedConnection;
    connection.requests++;
    clearTimeout(connection.timer);
    let heldBytes = 0;
    const hold = (bytes: number): void => {
      heldBytes += bytes;
      this.#hold(connection, bytes);
    };
    hold(headerBytes + requestBytes);
    return {
      isAuthenticated: connection.isAuthenticated,
      certificate: (read) => {
        connection.certificate ??= read() ?? "none";
        return connection.certificate === "none" ? undefined : connection.certificate;
      },
      authenticated: () => {
        connection.isAuthenticated = true;
      },
      hold,
      ended: (after) => {
        hold(-heldBytes);
        if (after === "last") connection.closeSession?.();
        if (--connection.requests > 0 || connection.socket.destroyed) return;
        if (after === "cut") connection.socket.destroy();
        else if (this.#closing) this.#end(connection);
        else this.#arm(connection, this.#limits.idleTimeMs, () => this.#end(connection));
      },
    };
  }

  /** Ends idle connections now and the others after their request, or at `graceMs`. */
  closeAll(graceMs: number): void {
    this.#closing = true;
    for (const connection of this.#open.values()) {
      if (connection.requests === 0) this.#end(connection);
      else if (graceMs === 0) connection.socket.destroy();
      else this.#arm(connection, graceMs, () => connection.socket.destroy());
    }
  }

  /** False when every connection that could be closed for this one is authenticated. */
  #makeRoom(address: string): boolean {
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    const count = this.#perAddress().get(address) ?? 0;
    if (count >= maxConnectionsPerAddress && !this.#evictOldest(address)) return false;
    return this.#open.size < maxConnections || this.#evictOldest(this.#busiestAddress()) || this.#evictOldest();
  }

  /** Counted when it is needed: a counter per address would have to follow every way in which connections end. */
  #perAddress(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { address } of this.#open.values()) counts.set(address, (counts.get(address) ?? 0) + 1);
    return counts;
  }

  #busiestAddress(): string | undefined {
    return [...this.#perAddress()].toSorted(([, a], [, b]) => b - a)[0]?.[0];
  }

  #evictOldest(address?: string): boolean {
    for (const [key, connection] of this.#open) {
      if (connection.isAuthenticated || (address !== undefined && connection.address !== address)) continue;
      this.#evict(key, connection);
      return true;
    }
    return false;
  }

  #evict(key: string, connection: Connection): void {
    connection.socket.destroy();
    this.#forget(key, connection);
  }

  #forget(key: string, connection: Connection): void {
    clearTimeout(connection.timer);
    if (this.#open.get(key) !== connection) return;
    this.#open.delete(key);
    this.#heldBytes -= connection.heldBytes;
  }

  #hold(connection: Connection, bytes: number): void {
    // A connection that is forgotten no longer counts; its requests may end later.
    if (connection.socket.destroyed) return;
    connection.heldBytes += bytes;
    this.#heldBytes += bytes;
    while (this.#heldBytes > this.#limits.maxHeldBytes && this.#evictHolder()) continue;
  }

  /** Unauthenticated connections first: the oldest of those that hold about the average or more. */
  #evictHolder(): boolean {
    const holders = [...this.#open].filter(([, { heldBytes }]) => heldBytes > 0);
    const strangers = holders.filter(([, { isAuthenticated }]) => !isAuthenticated);
    const candidates = strangers.length > 0 ? strangers : holders;
    const average = candidates.reduce((sum, [, { heldBytes }]) => sum + heldBytes, 0) / candidates.length;
    const victim = candidates.find(([, { heldBytes }]) => heldBytes >= 0.9 * average);
    if (victim !== undefined) this.#evict(...victim);
    return victim !== undefined;
  }

  #end(connection: Connection): void {
    if (connection.closeSession === undefined) {
      connection.socket.destroy();
      return;
    }
    this.#arm(connection, goawayMs, () => connection.socket.destroy());
    connection.closeSession();
  }

  #arm(connection: Connection, ms: number, expired: () => void): void {
    clearTimeout(connection.timer);
    connection.timer = setTimeout(expired, ms);
  }
}

const ofClosedConnection: RequestInProgress = {
  isAuthenticated: false,
  certificate: (read) => read(),
  authenticated: () => undefined,
  hold: () => undefined,
  ended: () => undefined,
};

const keyOf = ({ remoteAddress, remotePort, localAddress, localPort }: Endpoints): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
