import { keyOf, type KindRef, type KubeObject } from "cloud-controller-host/sdk";

import { isObjectOf, objectOf } from "../kube/connection/wire.ts";

type Listener = (key: string, before: KubeObject | undefined, after: KubeObject | undefined) => void;

interface KindState {
  /** By the key of stores; undefined where the plan has deleted the object. */
  readonly objects: Map<string, KubeObject | undefined>;
  readonly listeners: Set<Listener>;
}

/** Objects as a plan has written them, shared by its clients and its informers. */
export class WrittenObjects {
  readonly #kinds = new Map<string, KindState>();

  /** The object, `deleted`, or undefined where the plan has not written it. */
  get<T extends KubeObject>(kind: KindRef<T>, key: string): T | "deleted" | undefined {
    const { objects } = this.#state(kind);
    if (!objects.has(key)) return undefined;
    const object = objects.get(key);
    return object === undefined ? "deleted" : typed(kind, object);
  }

  /** Every object of the kind that was written and still exists. */
  all<T extends KubeObject>(kind: KindRef<T>): readonly T[] {
    return [...this.#state(kind).objects.values()].flatMap((object) =>
      object === undefined ? [] : [typed(kind, object)],
    );
  }

  /** Stores a write and notifies the informers of the kind, after the writer has its result. */
  set<T extends KubeObject>(kind: KindRef<T>, before: T | undefined, after: T | undefined): T | undefined {
    const { objects, listeners } = this.#state(kind);
    const key = keyOf(after ?? before ?? {});
    const written =
      after && objectOf(kind, { ...after, metadata: { ...after.metadata, resourceVersion: next(before) } });
    objects.set(key, written);
    for (const listener of listeners) queueMicrotask(() => listener(key, before, written));
    return written;
  }

  subscribe(kind: KindRef, listener: Listener): { remove(): void } {
    const { listeners } = this.#state(kind);
    listeners.add(listener);
    return { remove: () => void listeners.delete(listener) };
  }

  #state({ group, plural }: KindRef): KindState {
    const name = `${plural}.${group}`;
    const known = this.#kinds.get(name);
    if (known !== undefined) return known;
    const created: KindState = { objects: new Map(), listeners: new Set() };
    this.#kinds.set(name, created);
    return created;
  }
}

/** Returns the object itself and not a copy: values cached per object stay valid. */
function typed<T extends KubeObject>(kind: KindRef<T>, object: KubeObject): T {
  if (isObjectOf(kind, object)) return object;
  throw new TypeError(`the written object is not a ${kind.kind}`);
}

/** A version that no watch has shown: handlers take an object with a known one for a resync. */
const next = (before: KubeObject | undefined): string => `${before?.metadata?.resourceVersion ?? "0"}1`;
