import { expired, statusOf } from "../access/status.ts";
import type { Selection } from "../selectors.ts";
import type { Collection, Revisions } from "../store/collection.ts";
import { type Change, Stored } from "../store/stored.ts";
import { type WatchOptions, WatchStream } from "./watch-stream.ts";

const bytes = new TextEncoder();
const line = (type: string, object: string): Uint8Array => bytes.encode(`{"type":"${type}","object":${object}}\n`);

interface Fanout {
  readonly streams: Set<WatchStream>;
  readonly unsubscribe: () => void;
}

/** All watch connections. Each change is written once, however many of them it goes to. */
export class Watchers {
  readonly #revisions: Revisions;
  readonly #bookmarkMs: number;
  readonly #fanouts = new Map<Collection, Fanout>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #paused = false;

  constructor(revisions: Revisions, bookmarkMs: number) {
    this.#revisions = revisions;
    this.#bookmarkMs = bookmarkMs;
  }

  /** Number of open connections. */
  get size(): number {
    return this.#all().length;
  }

  /** Opens a watch. It starts with the changes since `since`, or with all existing objects. */
  open(collection: Collection, options: WatchOptions): WatchStream {
    const lastWords = (stream: WatchStream): void => {
      if (options.bookmarks) this.#bookmark(stream);
    };
    const stream = new WatchStream(options, lastWords, () => this.#remove(collection, stream));
    const { since } = options;
    const history = since === undefined ? undefined : collection.since(since);
    if (since !== undefined && history === undefined) {
      const error = expired(`too old resource version: ${since} (${this.#revisions.current})`);
      stream.write(line("ERROR", JSON.stringify(statusOf(error))));
      stream.end();
      return stream;
    }
    // The initial objects of a streaming list are a list, which a pause of the events does not hold back.
    if (this.#paused && !options.markInitialEnd) stream.pause();
    if (history === undefined) this.#begin(stream, collection);
    else for (const change of history) deliver(stream, change, new Map());
    if (this.#paused) stream.pause();
    this.#add(collection, stream);
    return stream;
  }

  /** Buffers every event until `resume`. */
  pause(): void {
    this.#paused = true;
    for (const stream of this.#all()) stream.pause();
  }

  resume(): void {
    this.#paused = false;
    for (const stream of this.#all()) stream.resume();
  }

  /** Ends every connection, or breaks it in the middle. */
  drop(how: "end" | "abort"): void {
    for (const stream of this.#all()) stream[how]();
  }

  /** Sends a bookmark now to every watch that requested bookmarks. */
  bookmark(): void {
    for (const { streams } of this.#fanouts.values()) {
      for (const stream of streams) if (stream.options.bookmarks) this.#bookmark(stream);
    }
  }

  #all(): readonly WatchStream[] {
    return [...this.#fanouts.values()].flatMap(({ streams }) => [...streams]);
  }

  #begin(stream: WatchStream, collection: Collection): void {
    const { selection, markInitialEnd } = stream.options;
    for (const stored of collection.list(selection.namespace)) {
      if (selects(selection, stored)) stream.write(eventLine(stream, "ADDED", stored, new Map()));
    }
    if (markInitialEnd) this.#bookmark(stream, { "k8s.io/initial-events-end": "true" });
  }

  #bookmark(stream: WatchStream, annotations?: Readonly<Record<string, string>>): void {
    const metadata = {
      resourceVersion: String(this.#revisions.current),
      creationTimestamp: null,
      ...(annotations === undefined ? {} : { annotations }),
    };
    stream.write(line("BOOKMARK", stream.options.encoding.bookmark(JSON.stringify(metadata))));
  }

  #add(collection: Collection, stream: WatchStream): void {
    const known = this.#fanouts.get(collection);
    if (known !== undefined) known.streams.add(stream);
    else {
      const streams = new Set([stream]);
      const unsubscribe = collection.subscribe((change) => {
        const written = new Map<string, Uint8Array>();
        for (const each of streams) deliver(each, change, written);
      });
      this.#fanouts.set(collection, { streams, unsubscribe });
    }
    this.#timer ??= setTimeout(() => this.#regularBookmark(), this.#bookmarkMs);
  }

  #remove(collection: Collection, stream: WatchStream): void {
    const fanout = this.#fanouts.get(collection);
    if (!fanout?.streams.delete(stream) || fanout.streams.size > 0) return;
    fanout.unsubscribe();
    this.#fanouts.delete(collection);
    if (this.#fanouts.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #regularBookmark(): void {
    this.#timer = setTimeout(() => this.#regularBookmark(), this.#bookmarkMs);
    this.bookmark();
  }
}

const selects = ({ namespace, matches }: Selection, stored: Stored): boolean =>
  (namespace === "" || namespace === stored.namespace) && (matches === undefined || matches(stored.object));

/** Writes a change as the watch sees it: an object that starts or stops matching is added or deleted. */
function deliver(stream: WatchStream, change: Change, written: Map<string, Uint8Array>): void {
  const { selection } = stream.options;
  const { before, after, type } = change;
  const was = before !== undefined && selects(selection, before);
  const is = type !== "DELETED" && selects(selection, after);
  if (is) stream.write(eventLine(stream, was ? "MODIFIED" : "ADDED", after, written));
  else if (was) stream.write(eventLine(stream, "DELETED", lastSeen(before, change), written));
}

/** The DELETED event of an object that left the selection: its last known state, under the latest revision. */
function lastSeen(before: Stored, { type, after }: Change): Stored {
  if (type === "DELETED") return after;
  const metadata = { ...before.object.metadata, resourceVersion: String(after.revision) };
  return new Stored({ ...before.object, metadata }, after.revision);
}

function eventLine(stream: WatchStream, type: string, stored: Stored, written: Map<string, Uint8Array>): Uint8Array {
  const { encoding } = stream.options;
  const first = stream.isFirst();
  const key = `${encoding.name} ${type} ${String(first)}`;
  const known = written.get(key);
  if (known !== undefined) return known;
  const encoded = line(type, encoding.event(stored, first));
  written.set(key, encoded);
  return encoded;
}
