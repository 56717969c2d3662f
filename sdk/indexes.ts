import type { KubeObject } from "./kinds.ts";
import type { Informer } from "./kube.ts";

/** The objects of a store by a value of theirs. upstream: `cache.Indexer`. */
export interface Index<T extends KubeObject> {
  /** The objects with this value, in no particular order; empty where none has it. */
  get(value: string): readonly T[];
}

/**
 * Indexes an informer's store by the values that `valuesOf` returns for an object, such as the name of a Pod's node. It is
 * always as the store is: the first lookup after a change reads all objects again, further ones are a read of a map.
 */
export function indexBy<T extends KubeObject>(
  { store }: Pick<Informer<T>, "store">,
  valuesOf: (object: T) => readonly string[],
): Index<T> {
  let indexed: readonly T[] | undefined;
  let byValue = new Map<string, T[]>();
  const rebuild = (objects: readonly T[]): void => {
    byValue = new Map();
    for (const object of objects)
      for (const value of new Set(valuesOf(object))) {
        const same = byValue.get(value);
        if (same === undefined) byValue.set(value, [object]);
        else same.push(object);
      }
    indexed = objects;
  };
  return {
    get(value) {
      const objects = store.list();
      if (objects !== indexed) rebuild(objects);
      return byValue.get(value) ?? [];
    },
  };
}
