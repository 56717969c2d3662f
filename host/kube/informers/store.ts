import { keyOf, type KubeObject, type Store } from "cloud-controller-host/sdk";

/** One difference between the store and the API server. */
export type Change<T extends KubeObject> =
  | { readonly type: "added"; readonly object: T }
  | { readonly type: "updated"; readonly before: T; readonly object: T }
  | { readonly type: "deleted"; readonly object: T };

/** The last known state of one kind, by `namespace/name`. Each write returns its changes. */
export class ObjectStore<T extends KubeObject> implements Store<T> {
  #objects = new Map<string, T>();
  /** The result of `list`, until the next change. */
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

  /** The version of the object that has the key of this one. */
  versionOf(object: T): string | undefined {
    return this.get(keyOf(object))?.metadata?.resourceVersion;
  }

  /** The change carries the object's last state. */
  delete(object: T): Change<T> | undefined {
    this.#listed = undefined;
    return this.#objects.delete(keyOf(object)) ? { type: "deleted", object } : undefined;
  }

  /** Replaces the content of the store; a missing object is reported as deleted, with its last known state. */
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
