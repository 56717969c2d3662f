import type { TLSSocket } from "node:tls";

import type { Incoming } from "./respond.ts";

/** Of the ends of a head and of a chunked body; the parser accepts no other. */
const blankLine = Buffer.from("\r\n\r\n");
/** Received behind a request in progress. Only clients that pipeline send any. */
const maxBacklogBytes = 16 * 1024;

/**
 * Passes the bytes of an HTTP/1 connection to the runtime's parser one request at a time. The runtime itself parses and
 * starts every request of a read, up to 29,000 of them. While a request is in progress what follows it waits here, and
 * the socket is paused; a client that sends much more than that is cut off.
 *
 * The parser alone decides where a request ends: a piece that is cut elsewhere costs time, never correctness.
 */
export class RequestGate {
  readonly #socket: TLSSocket;
  readonly #parse: readonly Function[];
  #backlog: Buffer = Buffer.alloc(0);
  /** The last bytes passed to the parser: a blank line may be split across two reads. */
  #tail: Buffer = Buffer.alloc(0);
  #current: Incoming | undefined;
  /** Bytes of the current body that the parser has yet to receive. */
  #bodyBytes = 0;

  /** Of a socket that the runtime already listens to. */
  constructor(socket: TLSSocket) {
    this.#socket = socket;
    this.#parse = socket.listeners("data");
    socket.removeAllListeners("data");
    socket.on("data", (chunk: Buffer) => {
      this.#backlog = this.#backlog.length === 0 ? chunk : Buffer.concat([this.#backlog, chunk]);
      this.#feed();
    });
  }

  began(incoming: Incoming): void {
    this.#current = incoming;
    this.#bodyBytes = Number(incoming.headers["content-length"] ?? 0);
  }

  /** The reply to the current request is written. */
  ended(): void {
    this.#current = undefined;
    this.#bodyBytes = 0;
    if (this.#backlog.length === 0) return;
    this.#feed();
    if (this.#backlog.length === 0) this.#socket.resume();
  }

  #feed(): void {
    while (this.#backlog.length > 0 && this.#socket.writable && this.#current?.complete !== true) this.#parsePiece();
    if (this.#backlog.length > maxBacklogBytes) this.#socket.destroy();
    // A copy: a slice, even an empty one, would keep the whole read in memory.
    this.#backlog = this.#socket.writable ? Buffer.from(this.#backlog) : Buffer.alloc(0);
    if (this.#backlog.length > 0) this.#socket.pause();
  }

  #parsePiece(): void {
    const length = this.#bodyBytes > 0 ? Math.min(this.#bodyBytes, this.#backlog.length) : this.#endOfBlankLine();
    const piece = this.#backlog.subarray(0, length);
    this.#backlog = this.#backlog.subarray(length);
    if (this.#bodyBytes > 0) this.#bodyBytes -= length;
    this.#tail = Buffer.concat([this.#tail, piece.subarray(-3)]).subarray(-3);
    for (const parse of this.#parse) Reflect.apply(parse, this.#socket, [piece]);
  }

  #endOfBlankLine(): number {
    const seam = Buffer.concat([this.#tail, this.#backlog.subarray(0, 3)]).indexOf(blankLine);
    if (seam >= 0) return seam + blankLine.length - this.#tail.length;
    const start = this.#backlog.indexOf(blankLine);
    return start < 0 ? this.#backlog.length : start + blankLine.length;
  }
}
