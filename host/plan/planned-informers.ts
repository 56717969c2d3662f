import {
  type Informer,
  type InformerHandler,
  keyOf,
  type KindRef,
  type KubeObject,
  type Store,
} from "cloud-controller-host/sdk";

import type { ProcessInformers } from "../generation/scope/scope.ts";
import type { GenerationInformers } from "../kube/informers/pool.ts";
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
  readonly #handlers = new Set<InformerHandler<T>>();
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

  /** An object that the plan has written stays as written: the watch does not have that write. */
  handle(handler: InformerHandler<T>, options?: { readonly resyncMs?: number }): { remove(): void } {
    const isPlanned = (object: T): boolean => this.#written.get(this.#kind, keyOf(object)) !== undefined;
    this.#handlers.add(handler);
    const registered = this.#inner.handle(
      {
        added: (object) => (isPlanned(object) ? undefined : handler.added?.(object)),
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
    const known = new Set(inner.map(keyOf));
    const created = this.#isWhole ? this.#written.all(this.#kind).filter((object) => !known.has(keyOf(object))) : [];
    const items = [...inner.flatMap((object) => this.#get(keyOf(object)) ?? []), ...created];
    this.#listed = { inner, items };
    return items;
  }

  #covers(key: string): boolean {
    return this.#isWhole || this.#inner.store.get(key) !== undefined;
  }

  #changed(key: string, before: KubeObject | undefined, after: KubeObject | undefined): void {
    if (!this.#covers(key)) return;
    this.#listed = undefined;
    const shown = this.#get(key);
    const last = this.#inner.store.get(key);
    for (const handler of this.#handlers)
      if (after === undefined) {
        if (last !== undefined) handler.deleted?.(last);
      } else if (shown !== undefined) {
        if (before === undefined) handler.added?.(shown);
        else handler.updated?.(last ?? shown, shown);
      }
  }
}
