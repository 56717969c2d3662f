import type { Socket } from "node:net";

/** What of a socket tells one connection from another. HTTP/2 hands out stand-ins, so identity does not serve. */
export type Endpoints = Partial<Pick<Socket, "remoteAddress" | "remotePort" | "localAddress" | "localPort">>;

export interface ConnectionLimits {
  /** From the connection's start to its first complete request head. */
  readonly headerTimeMs: number;
  /** Without any request in work. */
  readonly idleTimeMs: number;
  readonly mostConnections: number;
}

interface Connection {
  readonly socket: Socket;
  /** Ends an HTTP/2 session in the polite way. */
  closeSession: (() => void) | undefined;
  requests: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** After the polite way the connection has this long before it is cut. */
const politeMs = 5_000;

/**
 * Bounds every connection in time, whatever it does or does not send: a handshake or a request head that never ends,
 * and silence. Node's own server timeouts do not reach the HTTP/1 connections of a `node:http2` server under Bun.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #open = new Map<string, Connection>();
  #closing = false;

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#open.size;
  }

  opened(socket: Socket): void {
    if (this.#closing || this.#open.size >= this.#limits.mostConnections) {
      socket.destroy();
      return;
    }
    const key = keyOf(socket);
    const connection: Connection = { socket, closeSession: undefined, requests: 0, timer: undefined };
    this.#open.set(key, connection);
    this.#arm(connection, this.#limits.headerTimeMs, () => socket.destroy());
    socket.setKeepAlive(true, 180_000);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      clearTimeout(connection.timer);
      if (this.#open.get(key) === connection) this.#open.delete(key);
    });
  }

  sessionBegan(endpoints: Endpoints, close: () => void): void {
    const connection = this.#open.get(keyOf(endpoints));
    if (connection !== undefined) connection.closeSession = close;
  }

  /** Call what it returns once, when the request is done with; `last` ends the connection after it. */
  requestBegan(endpoints: Endpoints): (end: { readonly last: boolean }) => void {
    const connection = this.#open.get(keyOf(endpoints));
    if (connection === undefined) return () => undefined;
    connection.requests++;
    clearTimeout(connection.timer);
    return ({ last }) => {
      if (last) connection.closeSession?.();
      if (--connection.requests > 0 || connection.socket.destroyed) return;
      if (this.#closing) this.#end(connection);
      else this.#arm(connection, this.#limits.idleTimeMs, () => this.#end(connection));
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

  #end(connection: Connection): void {
    if (connection.closeSession === undefined) {
      connection.socket.destroy();
      return;
    }
    this.#arm(connection, politeMs, () => connection.socket.destroy());
    connection.closeSession();
  }

  #arm(connection: Connection, ms: number, expired: () => void): void {
    clearTimeout(connection.timer);
    connection.timer = setTimeout(expired, ms);
  }
}

const keyOf = ({ remoteAddress, remotePort, localAddress, localPort }: Endpoints): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
