import {
  type Informer,
  type InformerHandler,
  keyOf,
  type KindRef,
  type KubeObject,
  type Store,
} from "cloud-controller-host/sdk";

import type { ProcessInformers } from "../generation/scope/scope.ts";
import type { GenerationInformers } from "../kube/informers/share.ts";
import type { WrittenObjects } from "./written-objects.ts";

/** The process's watches, with what the plan has written shown in place of what the API server holds. */
export function plannedInformers(inner: ProcessInformers, written: WrittenObjects): ProcessInformers {
  return {
    share: () => plannedShare(inner.share(), written),
    relist: (since) => inner.relist(since),
    showWrites: () => Promise.resolve(),
  };
}

function plannedShare(inner: GenerationInformers, written: WrittenObjects): GenerationInformers {
  const removals: (() => void)[] = [];
  return {
    of: (kind, options) => {
      const informer = new PlannedInformer(kind, inner.of(kind, options), written, options === undefined);
      removals.push(() => informer.end());
      return informer;
    },
    synced: (signal) => inner.synced(signal),
    refreshed: (since, signal) => inner.refreshed(since, signal),
    stale: (since) => inner.stale(since),
    get unsynced() {
      return inner.unsynced;
    },
    release() {
      for (const remove of removals) remove();
      inner.release();
    },
  };
}

class PlannedInformer<T extends KubeObject> implements Informer<T> {
  readonly store: Store<T>;
  readonly #kind: KindRef<T>;
  readonly #inner: Informer<T>;
  readonly #written: WrittenObjects;
  /** Without a selection, an object that the plan creates belongs to it. */
  readonly #isWhole: boolean;
  /** By handler, the keys of the objects that it has received as the plan has written them. */
  readonly #handlers = new Map<InformerHandler<T>, Set<string>>();
  readonly #subscription: { remove(): void };
  #listed: { readonly inner: readonly T[]; readonly items: readonly T[] } | undefined;

  constructor(kind: KindRef<T>, inner: Informer<T>, written: WrittenObjects, isWhole: boolean) {
    this.#kind = kind;
    this.#inner = inner;
    this.#written = written;
    this.#isWhole = isWhole;
    this.#subscription = written.subscribe(kind, (key, before, after) => this.#changed(key, before, after));
    const list = (): readonly T[] => this.#list();
    this.store = {
      get: (key) => this.#get(key),
      list,
      get size() {
        return list().length;
      },
    };
  }

  end(): void {
    this.#subscription.remove();
    this.#handlers.clear();
  }

  hasSynced(): boolean {
    return this.#inner.hasSynced();
  }

  /**
   * An object that the plan has written stays as written: the watch does not have that write. A handler that is registered
   * after the write gets the object as it is by then.
   */
  handle(handler: InformerHandler<T>, options?: { readonly resyncMs?: number }): { remove(): void } {
    const isPlanned = (object: T): boolean => this.#written.get(this.#kind, keyOf(object)) !== undefined;
    const received = new Set<string>();
    this.#handlers.set(handler, received);
    const bring = (key: string): void => {
      const shown = received.has(key) ? undefined : this.#get(key);
      if (shown !== undefined) handler.added?.(shown);
    };
    for (const object of this.#created(this.#inner.store.list()))
      queueMicrotask(() => this.#handlers.has(handler) && bring(keyOf(object)));
    const registered = this.#inner.handle(
      {
        added: (object) => (isPlanned(object) ? bring(keyOf(object)) : handler.added?.(object)),
        updated: (before, after) => (isPlanned(after) ? undefined : handler.updated?.(before, after)),
        deleted: (last) => (isPlanned(last) ? undefined : handler.deleted?.(last)),
      },
      options,
    );
    return {
      remove: () => {
        this.#handlers.delete(handler);
        registered.remove();
      },
    };
  }

  #get(key: string): T | undefined {
    const planned = this.#covers(key) ? this.#written.get(this.#kind, key) : undefined;
    if (planned === undefined) return this.#inner.store.get(key);
    return planned === "deleted" ? undefined : planned;
  }

  #list(): readonly T[] {
    const inner = this.#inner.store.list();
    if (this.#listed?.inner === inner) return this.#listed.items;
    const items = [...inner.flatMap((object) => this.#get(keyOf(object)) ?? []), ...this.#created(inner)];
    this.#listed = { inner, items };
    return items;
  }

  /** Objects that the plan has created. */
  #created(inner: readonly T[]): readonly T[] {
    if (!this.#isWhole) return [];
    const known = new Set(inner.map(keyOf));
    return this.#written.all(this.#kind).filter((object) => !known.has(keyOf(object)));
  }

  #covers(key: string): boolean {
    return this.#isWhole || this.#inner.store.get(key) !== undefined;
  }

  #changed(key: string, before: KubeObject | undefined, after: KubeObject | undefined): void {
    if (!this.#covers(key)) return;
    this.#listed = undefined;
    const shown = this.#get(key);
    const last = this.#inner.store.get(key);
    for (const [handler, received] of this.#handlers) {
      received.add(key);
      if (after === undefined) {
        if (last !== undefined) handler.deleted?.(last);
      } else if (shown !== undefined) {
        if (before === undefined) handler.added?.(shown);
        else handler.updated?.(last ?? shown, shown);
      }
    }
  }
}
