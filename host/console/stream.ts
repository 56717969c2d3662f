import { kinds } from "cloud-controller-host/sdk";

import type { Source, StreamMessage } from "./schema.ts";
import type { ConsoleSources } from "./sources.ts";

/** Pages beyond this number poll on a timer. */
export const maxStreams = 20;
const lookMs = 1_000;
/** Queues and budgets change all the time. */
const tickMs = 5_000;
/** Shorter than the time limit of a request. The client then reconnects and is authorized again. */
const lifetimeMs = 100_000;

interface Stream {
  readonly send: (message: string) => void;
  readonly end: () => void;
  readonly endsAt: number;
}

/**
 * The server-sent events of all pages. A message says which data have changed, never what they are: it is small, a page
 * that missed some loses nothing, and a slow one gets only the latest.
 */
export class Streams {
  readonly #sources: ConsoleSources;
  readonly #open = new Set<Stream>();
  readonly #lists = new Map<Source, { readonly list: unknown; readonly version: number }>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #last = "";

  constructor(sources: ConsoleSources) {
    this.#sources = sources;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Undefined when there are too many. The first message comes at once, unless the client has seen it (`lastId`). */
  open(signal: AbortSignal, lastId: string | undefined): ReadableStream<Uint8Array> | undefined {
    if (this.#open.size >= maxStreams) return undefined;
    let stream: Stream | undefined;
    const forget = (): boolean => stream !== undefined && this.#forget(stream);
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          let waiting: string | undefined;
          const flush = (): void => {
            if (waiting === undefined || (controller.desiredSize ?? 0) <= 0) return;
            controller.enqueue(new TextEncoder().encode(waiting));
            waiting = undefined;
          };
          const end = (): void => {
            if (forget()) controller.close();
          };
          const send = (message: string): void => {
            if (message !== "") waiting = message;
            flush();
          };
          stream = { send, end, endsAt: this.#sources.clock.monotonic() + lifetimeMs };
          const message = this.#message();
          // A change that this page begins with is still news to the others.
          if (this.#open.size === 0) this.#last = message;
          this.#open.add(stream);
          this.#timer ??= setInterval(() => this.#look(), lookMs);
          send(`retry: ${lookMs}\n${lastId === idOf(message) ? ": nothing has changed\n\n" : message}`);
          signal.addEventListener("abort", end, { once: true });
          if (signal.aborted) end();
        },
        cancel: () => void forget(),
      },
      { highWaterMark: 2 },
    );
  }

  /** False when it has ended already. */
  #forget(stream: Stream): boolean {
    const isOpen = this.#open.delete(stream);
    if (this.#open.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    return isOpen;
  }

  #look(): void {
    const message = this.#message();
    const isNew = message !== this.#last;
    this.#last = message;
    const now = this.#sources.clock.monotonic();
    for (const stream of this.#open)
      if (now >= stream.endsAt) stream.end();
      else stream.send(isNew ? message : "");
  }

  #message(): string {
    const { status, writes, events, informers, plans, clock } = this.#sources;
    const { identity, ...rest } = status();
    // After a hand-over the counts of the next process may be those of the one before, of other data.
    const process = Bun.hash(`${identity} ${rest.startedAt}`).toString(36);
    const version = (value: string | number): string => `${process}.${value}`;
    const versions: StreamMessage["versions"] = {
      status: version(Bun.hash(JSON.stringify(rest)).toString(36)),
      services: version(this.#versionOf("services", informers.stored(kinds.Service)?.list())),
      nodes: version(this.#versionOf("nodes", informers.stored(kinds.Node)?.list())),
      writes: version(writes.count),
      events: version(events.count),
      plan: version(plans.revision),
      tick: version(Math.floor(clock.monotonic() / tickMs)),
    };
    const data: StreamMessage = { identity, versions };
    const id = Bun.hash(JSON.stringify(data)).toString(36);
    return `id: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  #versionOf(source: Source, list: unknown): string {
    const known = this.#lists.get(source);
    if (known?.list === list && known !== undefined) return `${known.version}`;
    const version = (known?.version ?? 0) + 1;
    this.#lists.set(source, { list, version });
    return `${version}`;
  }
}

const idOf = (message: string): string => /^id: (\S+)/u.exec(message)?.[1] ?? "";
