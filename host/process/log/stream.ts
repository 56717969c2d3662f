import { systemClock } from "../../async/clock.ts";

/** Beyond this, a stream whose reader has stopped reading loses lines rather than the process its memory. */
const mostPendingBytes = 8 * 1024 * 1024;

/**
 * Writes lines to a stream of the process without ever waiting for its reader, and knows what has not yet left. Bun's
 * own count (`writableLength`) is always 0 there, and the callback of an empty write comes before those of earlier ones.
 */
export class LogStream {
  readonly #stream: NodeJS.WriteStream;
  readonly #lostLine: (lost: number) => string;
  readonly #waiting = new Set<() => void>();
  /** Lines of this turn of the event loop: a busy moment costs one write and not one a line. */
  #batch = "";
  #pendingBytes = 0;
  #lost = 0;

  /** `lostLine` says, in the log's own format, how many lines are missing. */
  constructor(stream: NodeJS.WriteStream, lostLine: (lost: number) => string) {
    this.#stream = stream;
    this.#lostLine = lostLine;
    stream.on("error", () => undefined);
  }

  write(line: string): void {
    if (this.#pendingBytes > mostPendingBytes || this.#stream.destroyed) {
      this.#lost++;
      return;
    }
    const text = this.#lost === 0 ? line : `${this.#lostLine(this.#lost)}\n${line}`;
    this.#lost = 0;
    if (this.#batch === "") setImmediate(() => this.#writeBatch());
    this.#batch += text;
    this.#pendingBytes += Buffer.byteLength(text);
  }

  #writeBatch(): void {
    const text = this.#batch;
    this.#batch = "";
    const bytes = Buffer.byteLength(text);
    this.#stream.write(text, () => {
      this.#pendingBytes -= bytes;
      if (this.#pendingBytes > 0) return;
      for (const done of this.#waiting) done();
    });
  }

  /** Resolves once all has left, or after `limitMs`. */
  async flush(limitMs: number): Promise<void> {
    if (this.#pendingBytes === 0) return;
    const done = new AbortController();
    const finish = (): void => done.abort();
    this.#waiting.add(finish);
    await systemClock.sleep(limitMs, done.signal);
    this.#waiting.delete(finish);
  }
}
