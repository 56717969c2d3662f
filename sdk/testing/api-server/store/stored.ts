import type { ApiObject } from "../json.ts";

/** One version of an object. Its text is created once. */
export class Stored {
  /** `namespace/name`, or `name`: lists are sorted by it. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly revision: number;
  readonly object: ApiObject;
  #text: string | undefined;

  constructor(object: ApiObject, revision: number) {
    const { name = "", namespace = "" } = object.metadata;
    this.key = storeKey(namespace, name);
    this.name = name;
    this.namespace = namespace;
    this.revision = revision;
    this.object = object;
  }

  get uid(): string {
    return this.object.metadata.uid ?? "";
  }

  /** The object in JSON. */
  get text(): string {
    const { kind, apiVersion } = this.object;
    return `{"kind":"${kind}","apiVersion":"${apiVersion}",${this.item.slice(1)}`;
  }

  /** The object in JSON without kind and apiVersion, which the items of a list do not carry. */
  get item(): string {
    this.#text ??= JSON.stringify({ ...this.object, kind: undefined, apiVersion: undefined });
    return this.#text;
  }
}

export const storeKey = (namespace: string, name: string): string => (namespace === "" ? name : `${namespace}/${name}`);

/** One step of a collection's history. */
export interface Change {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly revision: number;
  readonly before: Stored | undefined;
  /** For a deletion: the last state, under the revision of the deletion. */
  readonly after: Stored;
}
