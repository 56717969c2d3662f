import { isObject, type KindRef, type KubeObject } from "cloud-controller-host/sdk";

type Path = readonly [parent: string, field: string];

interface Compaction {
  /** Fields that no controller reads and that make up most of an object. */
  readonly dropped: readonly Path[];
  /** Fields whose whole value is equal in many objects. */
  readonly sharedValues: readonly Path[];
  /** Lists of objects with long strings that are equal in many objects; `JSON.parse` itself shares most short ones. */
  readonly sharedTexts: readonly { readonly path: Path; readonly fields: readonly string[] }[];
}

const compactions: Readonly<Record<string, Compaction>> = {
  "/Node": {
    dropped: [["status", "images"]],
    sharedValues: [
      ["status", "capacity"],
      ["status", "allocatable"],
      ["status", "daemonEndpoints"],
      ["spec", "taints"],
    ],
    sharedTexts: [{ path: ["status", "conditions"], fields: ["reason", "message"] }],
  },
};

const managedFields: Path = ["metadata", "managedFields"];

/** Shrinks objects of a kind before they are stored: drops fields, and shares equal values between objects. */
export class Compactor {
  readonly #dropped: readonly Path[];
  readonly #sharedValues: Compaction["sharedValues"];
  readonly #sharedTexts: Compaction["sharedTexts"];
  /** By the value's JSON. */
  readonly #values = new InternTable<object>();
  readonly #texts = new InternTable<string>();

  constructor({ group, kind }: KindRef) {
    const { dropped = [], sharedValues = [], sharedTexts = [] } = compactions[`${group}/${kind}`] ?? {};
    this.#dropped = [managedFields, ...dropped];
    this.#sharedValues = sharedValues;
    this.#sharedTexts = sharedTexts;
  }

  /** Changes the object in place: call it before anything else holds the object. Shared values are frozen. */
  readonly compact = (object: KubeObject): void => {
    for (const [parent, field] of this.#dropped) {
      const holder = fieldsAt(object, parent);
      if (holder !== undefined) Reflect.deleteProperty(holder, field);
    }
    for (const [parent, field] of this.#sharedValues) {
      const holder = fieldsAt(object, parent);
      const value = holder?.[field];
      if (holder !== undefined && value instanceof Object)
        holder[field] = this.#values.intern(JSON.stringify(value), value);
    }
    for (const { path, fields } of this.#sharedTexts) {
      const [parent, list] = path;
      const items = fieldsAt(object, parent)?.[list];
      if (Array.isArray(items)) for (const item of items) this.#shareTexts(item, fields);
    }
  };

  #shareTexts(item: unknown, fields: readonly string[]): void {
    if (!isFields(item)) return;
    for (const field of fields) {
      const text = item[field];
      if (typeof text === "string") item[field] = this.#texts.intern(text, text);
    }
  }
}

const isFields = (value: unknown): value is Record<string, unknown> => isObject(value);

function fieldsAt(document: unknown, field: string): Record<string, unknown> | undefined {
  const value = isFields(document) ? document[field] : undefined;
  return isFields(value) ? value : undefined;
}

/** Longer keys are not kept: a few of them could occupy more memory than sharing saves. */
const keyLengthLimit = 1000;
/** Entries per table. A full table is emptied, so that it retains no values that are no longer in use. */
const entryLimit = 1000;

class InternTable<V extends object | string> {
  readonly #entries = new Map<string, V>();

  /** The first value with that key since the table was last empty. */
  intern(key: string, value: V): V {
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    if (key.length > keyLengthLimit) return value;
    if (this.#entries.size >= entryLimit) this.#entries.clear();
    freeze(value);
    this.#entries.set(key, value);
    return value;
  }
}

/** A plugin that changed a shared value would change it in other objects as well: that throws. */
function freeze(value: unknown): void {
  if (!(value instanceof Object)) return;
  Object.freeze(value);
  for (const inner of Object.values(value)) freeze(inner);
}
