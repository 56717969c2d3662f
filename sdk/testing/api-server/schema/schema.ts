import { ownMember } from "../json.ts";

/**
 * The schemas of the built-in kinds. Validation and pruning of writes, the merge keys of
 * strategic merge and of server-side apply, and the OpenAPI documents all come from them.
 */
export type Schema = (Scalar | MapSchema | ListSchema | RecordSchema) & Presence;

interface Presence {
  /** Kept when empty. Required in the OpenAPI document only: the API server fills in the empty value. */
  readonly required?: true;
  /** Kept when it is `""`, `0` or `false`: the field distinguishes "unset" from the zero value. */
  readonly pointer?: true;
}

export type ScalarType =
  | "string"
  | "integer"
  | "boolean"
  | "time"
  | "microTime"
  | "quantity"
  | "intOrString"
  | "bytes"
  /** Anything, kept as it is. */
  | "any";

interface Scalar {
  readonly type: ScalarType;
}

interface MapSchema {
  readonly type: "map";
  readonly values: Schema;
}

export interface ListSchema {
  readonly type: "list";
  readonly items: Schema;
  /** Server-side apply: replaced as a whole, a set of values, or a map keyed by `keys` of its items. */
  readonly listType: "atomic" | "set" | "map";
  readonly keys: readonly string[];
  /** Default of a key that an item omits. */
  readonly keyDefaults: Readonly<Record<string, string>>;
  /** Strategic merge: merged by this key of its items, by value (`""`), or replaced (undefined). */
  readonly mergeKey: string | undefined;
}

export interface RecordSchema {
  readonly type: "record";
  /** Its name in the OpenAPI documents. */
  readonly name: string;
  readonly fields: Readonly<Record<string, Schema>>;
  /** Fields that the schema does not know are kept: custom kinds, and kinds that are only stored. */
  readonly open?: true;
}

export const text: Schema = { type: "string" };
export const integer: Schema = { type: "integer" };
export const boolean: Schema = { type: "boolean" };
export const time: Schema = { type: "time" };
export const microTime: Schema = { type: "microTime" };
export const quantity: Schema = { type: "quantity" };
export const intOrString: Schema = { type: "intOrString" };
export const bytes: Schema = { type: "bytes" };
export const anything: Schema = { type: "any" };

export const need = (schema: Schema): Schema => ({ ...schema, required: true });
export const pointer = (schema: Schema): Schema => ({ ...schema, pointer: true });

export const mapOf = (values: Schema): Schema => ({ type: "map", values });

export const record = (name: string, fields: Readonly<Record<string, Schema>>): RecordSchema => ({
  type: "record",
  name,
  fields,
});
export const openRecord = (name: string, fields: Readonly<Record<string, Schema>>): RecordSchema => ({
  type: "record",
  name,
  fields,
  open: true,
});

/** A list that is written as a whole. */
export const atomic = (items: Schema): Schema => ({
  type: "list",
  items,
  listType: "atomic",
  keys: [],
  keyDefaults: {},
  mergeKey: undefined,
});

const values = { type: "list", listType: "set", keys: [], keyDefaults: {} } as const;

/** A list of values that each appear once; strategic merge adds to it. */
export const setOf = (items: Schema): Schema => ({ ...values, items, mergeKey: "" });

/** A list of values that each appear once; strategic merge replaces it. */
export const replacedSetOf = (items: Schema): Schema => ({ ...values, items, mergeKey: undefined });

/** A list whose items are identified by `keys`; strategic merge uses the first one. */
export const listBy = (
  keys: readonly [string, ...string[]],
  items: Schema,
  keyDefaults: Readonly<Record<string, string>> = {},
): Schema => ({ type: "list", items, listType: "map", keys, keyDefaults, mergeKey: keys[0] });

/** The schema of a field; undefined for an unknown field. */
export function fieldOf(schema: Schema | undefined, key: string): Schema | undefined {
  if (schema?.type === "record") return ownMember(schema.fields, key);
  return schema?.type === "map" ? schema.values : undefined;
}
