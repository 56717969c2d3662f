import type { Selection } from "../selectors.ts";
import type { Encoding } from "./encoding.ts";

/** A watch with more unread bytes is closed; its client resumes it. */
const maxUnreadBytes = 256 * 1024 * 1024;

/** Whitespace between documents, which readers of JSON pass over. */
const blankLine = new TextEncoder().encode("\n");

export interface WatchOptions {
  readonly selection: Selection;
  readonly encoding: Encoding;
  readonly bookmarks: boolean;
  /** Start after this revision; undefined starts with all existing objects. */
  readonly since: number | undefined;
  /** Marks the end of the initial objects with a bookmark. */
  readonly markInitialEnd: boolean;
  readonly timeoutMs: number;
}

/** One watch connection: it turns changes into lines, in order, until it is closed from either side. */
export class WatchStream {
  readonly body: ReadableStream<Uint8Array>;
  readonly options: WatchOptions;
  readonly #closed: () => void;
  readonly #timer: ReturnType<typeof setTimeout>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #held: Uint8Array[] | undefined;
  #first = true;

  /** `lastWords` is called before the watch ends by its own timeout, `closed` whenever and however it ends. */
  constructor(options: WatchOptions, lastWords: (stream: WatchStream) => void, closed: () => void) {
    this.options = options;
    this.#closed = closed;
    this.#timer = setTimeout(() => {
      lastWords(this);
      this.end();
    }, options.timeoutMs);
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
          // Bun sends the headers with the first chunk: without this a watch on a quiet kind would not seem to begin.
          controller.enqueue(blankLine);
        },
        cancel: () => this.#release(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: maxUnreadBytes }),
    );
  }

  /** True once: a table names its columns in the first event only. */
  isFirst(): boolean {
    const first = this.#first;
    this.#first = false;
    return first;
  }

  /** Keeps lines back until `resume`. */
  pause(): void {
    this.#held ??= [];
  }

  resume(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const line of held) this.write(line);
  }

  write(line: Uint8Array): void {
    if (this.#held !== undefined) {
      this.#held.push(line);
      return;
    }
    const controller = this.#controller;
    if (controller === undefined) return;
    controller.enqueue(line);
    if ((controller.desiredSize ?? 0) <= 0) this.end();
  }

  /** Ends the reply as the server does when a watch has run its time. */
  end(): void {
    const controller = this.#controller;
    this.#release();
    controller?.close();
  }

  /** Breaks the connection in the middle, as when the server goes away. Without a reason nothing is printed. */
  abort(): void {
    const controller = this.#controller;
    this.#release();
    controller?.error();
  }

  #release(): void {
    if (this.#controller === undefined) return;
    this.#controller = undefined;
    clearTimeout(this.#timer);
    this.#closed();
  }
}
