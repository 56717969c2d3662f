import { keyOf, type KubeObject, type Store } from "cloud-controller-host/sdk";

/** One difference between what the store held and what the API server says. */
export type Change<T extends KubeObject> =
  | { readonly type: "added"; readonly object: T }
  | { readonly type: "updated"; readonly before: T; readonly object: T }
  | { readonly type: "deleted"; readonly object: T };

/** The last known state of one kind, by `namespace/name`. Each write tells what it changed. */
export class ObjectStore<T extends KubeObject> implements Store<T> {
  #objects = new Map<string, T>();
  /** The answer of `list`, until the next change. */
  #listed: readonly T[] | undefined;

  get size(): number {
    return this.#objects.size;
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  list(): readonly T[] {
    this.#listed ??= [...this.#objects.values()];
    return this.#listed;
  }

  set(object: T): Change<T> | undefined {
    const key = keyOf(object);
    const before = this.#objects.get(key);
    this.#listed = undefined;
    this.#objects.set(key, object);
    if (before === undefined) return { type: "added", object };
    return sameVersion(before, object) ? undefined : { type: "updated", before, object };
  }

  /** The change carries the state that the object had when it was deleted. */
  delete(object: T): Change<T> | undefined {
    this.#listed = undefined;
    return this.#objects.delete(keyOf(object)) ? { type: "deleted", object } : undefined;
  }

  /** Makes the store hold these objects and no others; an object that has gone is told with its last known state. */
  replace(objects: readonly T[]): readonly Change<T>[] {
    const gone = this.#objects;
    const changes: Change<T>[] = [];
    this.#objects = new Map();
    this.#listed = undefined;
    for (const object of objects) {
      const key = keyOf(object);
      const before = gone.get(key);
      gone.delete(key);
      this.#objects.set(key, object);
      if (before === undefined) changes.push({ type: "added", object });
      else if (!sameVersion(before, object)) changes.push({ type: "updated", before, object });
    }
    for (const object of gone.values()) changes.push({ type: "deleted", object });
    return changes;
  }
}

const sameVersion = (before: KubeObject, after: KubeObject): boolean =>
  before.metadata?.resourceVersion !== undefined && before.metadata.resourceVersion === after.metadata?.resourceVersion;
