import type { TLSSocket } from "node:tls";

/** Frames that a connection may send at any time, and how fast they come back. A browser sends a few dozen at its start. */
const burst = 1_000;
const perSecond = 100;
/** A request has its body, window updates and a priority; its HEADERS frame pays for those. */
const perRequest = 16;
/** Bytes, in either direction, that pay for one more frame: clients update their windows every 4 KiB or less often. */
const bytesPerFrame = 256;

const prefaceBytes = 24;
/** Length and type, of the nine bytes at the start of a frame. */
const headBytes = 4;
const restOfHeadBytes = 5;
const headersType = 1;

/** State of a connection when a chunk of it is read. */
interface Standing {
  readonly bytesWritten: number;
  readonly nowMs: number;
}

/**
 * Counts the frames of an HTTP/2 connection, to cut off one that sends many more than requests and data need: PRIORITY,
 * empty CONTINUATION and unknown ones, of which the runtime reads any number until a header or idle timeout.
 */
export class FrameMeter {
  #credit = burst;
  #last: Standing;
  #skip = prefaceBytes;
  /** The part of a frame's head that has been read, as a number. */
  #head = 0;
  #headBytes = 0;

  constructor(nowMs: number) {
    this.#last = { bytesWritten: 0, nowMs };
  }

  /** False once the connection has sent too many. */
  read(chunk: Uint8Array, standing: Standing): boolean {
    const { bytesWritten, nowMs } = this.#last;
    const refilled = Math.min(burst, this.#credit + ((standing.nowMs - nowMs) / 1_000) * perSecond);
    const bytes = chunk.length + standing.bytesWritten - bytesWritten;
    this.#credit = Math.max(this.#credit, refilled) + bytes / bytesPerFrame;
    this.#last = standing;
    for (let at = 0; at < chunk.length;) {
      const skipped = Math.min(this.#skip, chunk.length - at);
      at += skipped;
      this.#skip -= skipped;
      if (at < chunk.length) this.#readHead(chunk[at++] ?? 0);
    }
    return this.#credit >= 0;
  }

  #readHead(byte: number): void {
    this.#head = this.#head * 256 + byte;
    if (++this.#headBytes < headBytes) return;
    this.#credit += this.#head % 256 === headersType ? perRequest : -1;
    this.#skip = Math.floor(this.#head / 256) + restOfHeadBytes;
    [this.#head, this.#headBytes] = [0, 0];
  }
}

/**
 * Lets JavaScript read a socket that an HTTP/2 session is about to take: the runtime hands such a session the native
 * handle, and no byte reaches `data` listeners. Returns what gives the handle back, once the session is there.
 */
export function withoutHandle(socket: TLSSocket): () => void {
  const handle: unknown = Reflect.get(socket, "_handle");
  Reflect.set(socket, "_handle", undefined);
  return () => void Reflect.set(socket, "_handle", handle);
}
