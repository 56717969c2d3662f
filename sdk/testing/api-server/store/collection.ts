import type { ApiObject } from "../json.ts";
import { type Change, Stored } from "./stored.ts";

/** The resourceVersion counter of the server. */
export class Revisions {
  #current = 1;

  get current(): number {
    return this.#current;
  }

  next(): number {
    this.#current += 1;
    return this.#current;
  }
}

/** All objects of one kind, their recent history, and the subscribers to changes. */
export class Collection {
  readonly #revisions: Revisions;
  readonly #historyLimit: number;
  readonly #objects = new Map<string, Stored>();
  readonly #listeners = new Set<(change: Change) => void>();
  #sorted: readonly string[] | undefined;
  #history: Change[] = [];
  #forgotten: number;

  constructor(revisions: Revisions, historyLimit: number) {
    this.#revisions = revisions;
    this.#historyLimit = historyLimit;
    this.#forgotten = revisions.current;
  }

  get(key: string): Stored | undefined {
    return this.#objects.get(key);
  }

  get size(): number {
    return this.#objects.size;
  }

  /** The objects in the order of their keys. */
  list(namespace = ""): readonly Stored[] {
    this.#sorted ??= [...this.#objects.keys()].toSorted();
    const found: Stored[] = [];
    for (const key of this.#sorted) {
      const stored = this.#objects.get(key);
      if (stored !== undefined && (namespace === "" || stored.namespace === namespace)) found.push(stored);
    }
    return found;
  }

  /** Writes a new object or a new version of one, under the next revision. */
  put(object: ApiObject): Stored {
    const stored = this.#stamp(object);
    const before = this.#objects.get(stored.key);
    this.#objects.set(stored.key, stored);
    if (before === undefined) this.#sorted = undefined;
    this.#tell({ type: before === undefined ? "ADDED" : "MODIFIED", revision: stored.revision, before, after: stored });
    return stored;
  }

  /** Removes the object; `last` is its final state if it differs from the stored one. */
  remove(before: Stored, last: ApiObject = before.object): Stored {
    const after = this.#stamp(last);
    this.#objects.delete(before.key);
    this.#sorted = undefined;
    this.#tell({ type: "DELETED", revision: after.revision, before, after });
    return after;
  }

  /** The changes after `revision`, oldest first; undefined when some are no longer in the history. */
  since(revision: number): readonly Change[] | undefined {
    if (revision < this.#forgotten) return undefined;
    let from = this.#history.length;
    while (from > 0 && (this.#history[from - 1]?.revision ?? 0) > revision) from -= 1;
    return this.#history.slice(from);
  }

  /** Forgets the history: a watch from before the latest revision gets an expired error. */
  compact(): void {
    this.#history = [];
    this.#forgotten = this.#revisions.current;
  }

  /** Calls `listener` for each change, in order, until the returned function is called. */
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #stamp(object: ApiObject): Stored {
    const revision = this.#revisions.next();
    return new Stored({ ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } }, revision);
  }

  #tell(change: Change): void {
    this.#history.push(change);
    if (this.#history.length > 2 * this.#historyLimit) {
      this.#history = this.#history.slice(-this.#historyLimit);
      this.#forgotten = (this.#history[0]?.revision ?? 1) - 1;
    }
    for (const listener of this.#listeners) listener(change);
  }
}
