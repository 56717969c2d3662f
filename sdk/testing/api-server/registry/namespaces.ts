import { forbidden, type Named, notFound } from "../access/status.ts";
import { isList, objectAt } from "../json.ts";
import { clusterFinalizer, namespaceKind } from "../kinds/namespace.ts";
import type { Collection } from "../store/collection.ts";
import type { Stored } from "../store/stored.ts";
import type { Registry } from "./registry.ts";

/** The namespaces, and the deletion of their contents. */
export class Namespaces {
  readonly #collection: Collection;
  readonly #contents: Registry[] = [];

  constructor(collection: Collection) {
    this.#collection = collection;
  }

  /** Throws a 404 for a namespace that is not there, a 403 for one that is being deleted. */
  assertOpen(namespace: string, resource: Named, name: string): void {
    const stored = this.#collection.get(namespace);
    if (stored === undefined) throw notFound(namespaceKind, namespace);
    if (!stored.object.metadata.deletionTimestamp) return;
    throw forbidden(
      resource,
      name,
      `unable to create new content in namespace ${namespace} because it is being terminated`,
      [
        {
          reason: "NamespaceTerminating",
          message: `namespace ${namespace} is being terminated`,
          field: "metadata.namespace",
        },
      ],
    );
  }

  /** Deletes the contents of each namespace that is being deleted, and removes its finalizer once it is empty. */
  follow(own: Registry): void {
    this.#collection.subscribe(({ type, after }) => {
      if (type !== "DELETED" && after.object.metadata.deletionTimestamp)
        queueMicrotask(() => this.#empty(own, after.name));
    });
  }

  /** Counts the objects of a kind among the contents of namespaces; `own` is the registry of namespaces. */
  contain(own: Registry, registry: Registry): void {
    this.#contents.push(registry);
    registry.collection.subscribe(({ type, after: { namespace } }) => {
      if (type !== "DELETED" || !this.#collection.get(namespace)?.object.metadata.deletionTimestamp) return;
      queueMicrotask(() => this.#release(own, namespace));
    });
  }

  #empty(own: Registry, namespace: string): void {
    for (const registry of this.#contents) {
      for (const stored of registry.collection.list(namespace)) {
        if (!stored.object.metadata.deletionTimestamp) registry.delete(stored);
      }
    }
    this.#release(own, namespace);
  }

  #release(own: Registry, namespace: string): void {
    const stored = this.#collection.get(namespace);
    if (stored === undefined || !finalizersOf(stored).includes(clusterFinalizer)) return;
    if (this.#contents.some(({ collection }) => collection.list(namespace).length > 0)) return;
    const finalizers = finalizersOf(stored).filter((name) => name !== clusterFinalizer);
    own.update(stored, (before) => ({ ...before, spec: { finalizers } }), { subresource: "finalize" });
  }
}

const finalizersOf = ({ object }: Stored): readonly string[] => {
  const { finalizers } = objectAt(object, "spec");
  return isList(finalizers) ? finalizers.filter((name) => typeof name === "string") : [];
};
