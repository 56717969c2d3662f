import type { Clock } from "cloud-controller-host/sdk";

import { unlessAbsent } from "../errors.ts";
import { SharedRead } from "./shared-read.ts";

export interface CachedResource {
  readonly id?: string;
  readonly etag?: string;
}

export interface ResourceCacheOptions<Item> {
  readonly clock: Clock;
  /** Time to live of a list; with 0 every read is sent to ARM. */
  readonly ttlMs: number;
  /** Lists the resources of the scope. */
  readonly list: () => Promise<readonly Item[]>;
  /** Gets one of them by the id under which it was listed or stored. */
  readonly get: (id: string) => Promise<Item>;
}

/** For so long, a read may lag behind a write whose reply has come. */
export const lagMs = 60_000;

/** A write that a list may not contain: the new resource, or undefined after its deletion. */
interface Change<Item> {
  readonly item: Item | undefined;
  readonly number: number;
}

/** A resource that was written: a read may lag behind that. */
interface Written<Item> {
  readonly atMs: number;
  /** The etags that it had before, and when a write has replaced each. Older ones no read shows any more. */
  readonly former: ReadonlyMap<string, number>;
  /** As it was written or, later, shown. It outlives a `forget`. */
  readonly item: Item;
}

/**
 * The resources of one type in one resource group. Replies to writes update the cache, so that a write costs no further
 * read; a list that began before a write does not undo it. A resource that another write may have changed is read again
 * by itself.
 */
export class ResourceCache<Item extends CachedResource> {
  readonly #options: ResourceCacheOptions<Item>;
  readonly #read: SharedRead<Map<string, Item>>;
  /** When each resource that must be read again was invalidated last, as a number of `#events`. */
  readonly #stale = new Map<string, number>();
  readonly #written = new Map<string, Written<Item>>();
  readonly #changes = new Map<string, Change<Item>>();
  /** Counts writes, invalidations and single reads, to know which came later. */
  #events = 0;

  constructor(options: ResourceCacheOptions<Item>) {
    this.#options = options;
    this.#read = new SharedRead({ clock: options.clock, ttlMs: options.ttlMs, read: () => this.#list() });
  }

  /** Every resource, with the replies to all writes applied. */
  async all(): Promise<readonly Item[]> {
    const list = this.#read.get("cached");
    // Beside the list, and after it what was invalidated meanwhile.
    const early = new Set(this.#stale.keys());
    await Promise.all([list, ...[...early].map((key) => this.#refresh(list, key))]);
    const later = [...this.#stale.keys()].filter((key) => !early.has(key));
    await Promise.all(later.map((key) => this.#refresh(list, key)));
    return [...(await list).values()];
  }

  /** A resource as it was last read or written, however long ago. */
  last(id: string): Item | undefined {
    return this.#read.last?.get(keyOf(id)) ?? this.#changes.get(keyOf(id))?.item;
  }

  /** Stores the reply to a write: the resource exists, whatever a read says that lags behind. */
  written(item: Item): void {
    const key = keyOf(item.id);
    const atMs = this.#options.clock.monotonic();
    const before = [...(this.#written.get(key)?.former ?? [])];
    const former = new Map(before.filter(([, replacedMs]) => atMs - replacedMs < lagMs));
    const { etag } = this.last(key) ?? {};
    if (etag !== undefined && etag !== item.etag) former.set(etag, atMs);
    this.#written.set(key, { atMs, former, item });
    this.store(item);
  }

  /** Stores what is known of a resource otherwise. */
  store(item: Item): void {
    const key = keyOf(item.id);
    this.#stale.delete(key);
    this.#note(key, item);
    this.#shown(key, item);
    this.#read.last?.set(key, item);
  }

  remove(id: string): void {
    const key = keyOf(id);
    this.#written.delete(key);
    this.#stale.delete(key);
    this.#note(key, undefined);
    this.#read.last?.delete(key);
  }

  /** Makes the next reader get the resource by its id, because a list may lag behind. */
  invalidate(id: string): void {
    const key = keyOf(id);
    this.#changes.delete(key);
    this.#stale.set(key, this.#nextEvent());
  }

  /** Makes the next reader list again. */
  forget(): void {
    this.#read.forget();
  }

  #note(key: string, item: Item | undefined): void {
    this.#changes.set(key, { item, number: this.#nextEvent() });
  }

  #nextEvent(): number {
    this.#events += 1;
    return this.#events;
  }

  async #list(): Promise<Map<string, Item>> {
    const since = this.#events;
    const listed = await this.#options.list();
    const items = new Map(listed.map((item) => [keyOf(item.id), item]));
    for (const [key, { item, number }] of this.#changes) {
      if (number <= since) this.#changes.delete(key);
      else if (item === undefined) items.delete(key);
      else items.set(key, item);
    }
    for (const key of this.#written.keys()) {
      const known = this.#known(key);
      const item = items.get(key);
      if (known === undefined) this.#written.delete(key);
      else if (item === undefined || this.#isOutdated(key, item)) items.set(key, known);
      else this.#shown(key, item);
    }
    return items;
  }

  async #refresh(list: Promise<Map<string, Item>>, key: string): Promise<void> {
    const began = this.#nextEvent();
    const read = unlessAbsent(this.#options.get(this.last(key)?.id ?? key));
    const [items, item] = await Promise.all([list, read]);
    // A write that ended meanwhile is newer.
    if ((this.#changes.get(key)?.number ?? 0) > began) return;
    // A write that failed meanwhile may have been applied after this reply.
    if ((this.#stale.get(key) ?? 0) < began) this.#stale.delete(key);
    const current = this.current(key, item);
    if (current === undefined) items.delete(key);
    else items.set(key, current);
    if (current !== undefined) this.#shown(key, current);
  }

  /**
   * The resource as a read has found it or, if that may lag behind the last write, as it is known: the read has not found
   * it, or has found the version before that write.
   */
  current(id: string, read: Item | undefined): Item | undefined {
    const key = keyOf(id);
    return this.#isOutdated(key, read) ? this.#known(key) : read;
  }

  #isOutdated(key: string, read: Item | undefined): boolean {
    if (this.#known(key) === undefined) return false;
    return read === undefined || (this.#written.get(key)?.former.has(read.etag ?? "") ?? false);
  }

  #shown(key: string, item: Item): void {
    const written = this.#written.get(key);
    if (written !== undefined) this.#written.set(key, { ...written, item });
  }

  /** The resource, if it was written less than a minute ago. */
  #known(key: string): Item | undefined {
    const { atMs = Number.NEGATIVE_INFINITY, item } = this.#written.get(key) ?? {};
    return this.#options.clock.monotonic() - atMs < lagMs ? item : undefined;
  }
}

const keyOf = (id: string | undefined): string => (id ?? "").toLowerCase();
