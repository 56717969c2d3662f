import { createWriteStream } from "node:fs";

import { systemClock } from "../../async/clock.ts";

/** Above this, lines are dropped: a reader that has stopped must not cost the process its memory. */
const maxPendingBytes = 8 * 1024 * 1024;

export type ProcessStream = NodeJS.WriteStream & { readonly fd: number };

/** Bun writes to a terminal at once, and a suspended one would block the event loop. Files are written beside it. */
export const beside = (stream: ProcessStream): NodeJS.WritableStream & { readonly destroyed?: boolean } =>
  stream.isTTY ? createWriteStream("", { fd: stream.fd, autoClose: false }) : stream;

/**
 * Writes lines to a stream of the process without waiting for its reader, and counts the bytes still pending: Bun's own
 * count (`writableLength`) is always 0 there, and the callback of an empty write precedes those of earlier writes.
 */
export class LogStream {
  readonly #stream: ReturnType<typeof beside>;
  readonly #lostLine: (lost: number) => string;
  readonly #waiting = new Set<() => void>();
  /** Lines of this turn of the event loop: one write for all of them. */
  #batch = "";
  #pendingBytes = 0;
  #lost = 0;

  /** `lostLine` reports the number of dropped lines in the log's own format. */
  constructor(stream: ProcessStream, lostLine: (lost: number) => string) {
    this.#stream = beside(stream);
    this.#lostLine = lostLine;
    this.#stream.on("error", () => undefined);
  }

  write(line: string): void {
    if (this.#pendingBytes > maxPendingBytes || this.#stream.destroyed) {
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

  /** Resolves once everything is written, or after `limitMs`. */
  async flush(limitMs: number): Promise<void> {
    if (this.#pendingBytes === 0) return;
    const done = new AbortController();
    const finish = (): void => done.abort();
    this.#waiting.add(finish);
    await systemClock.sleep(limitMs, done.signal);
    this.#waiting.delete(finish);
  }
}
