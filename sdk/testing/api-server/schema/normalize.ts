import { badRequest } from "../access/status.ts";
import { isList, isObject, type Json, type JsonObject, ownMember } from "../json.ts";
import type { RecordSchema, ScalarType, Schema } from "./schema.ts";

/** Fields of a write that are dropped. */
export interface Unknown {
  readonly fields: string[];
}

const timePattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
const quantityPattern = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE])?$/;
/** The API server accepts six digits only: the three of `Date.toISOString` are an error. */
const microTimePattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$/;
const isText = (value: Json, pattern: RegExp): boolean =>
  typeof value === "string" && (value === "" || pattern.test(value));

const scalars: Readonly<Record<ScalarType, { readonly wants: string; readonly accepts: (value: Json) => boolean }>> = {
  string: { wants: "a string", accepts: (value) => typeof value === "string" },
  integer: { wants: "an integer", accepts: (value) => Number.isSafeInteger(value) },
  boolean: { wants: "a boolean", accepts: (value) => typeof value === "boolean" },
  time: { wants: "an RFC 3339 time", accepts: (value) => isText(value, timePattern) },
  microTime: {
    wants: "an RFC 3339 time with six digits of a second's fraction",
    accepts: (value) => isText(value, microTimePattern),
  },
  quantity: {
    wants: "a quantity",
    accepts: (value) => typeof value === "number" || (typeof value === "string" && quantityPattern.test(value)),
  },
  intOrString: {
    wants: "an integer or a string",
    accepts: (value) => typeof value === "string" || Number.isSafeInteger(value),
  },
  bytes: {
    wants: "base64",
    accepts: (value) => typeof value === "string" && /^[A-Za-z0-9+/\s]*={0,2}$/.test(value),
  },
  any: { wants: "a value", accepts: () => true },
};

const nameOf = (value: Json): string => {
  if (isList(value)) return "a list";
  return value === null ? "null" : `${typeof value === "object" ? "an" : "a"} ${typeof value}`;
};

const mismatch = (path: string, wants: string, value: Json): Error =>
  badRequest(`${path || "the object"}: expected ${wants}, got ${nameOf(value)}`);

/**
 * The value as the API server would keep it: unknown fields left out (and named in `unknown`), nulls and empty
 * optional fields left out, quantities as strings. Returns the same value when nothing changes.
 * Throws a 400 for a value of the wrong type.
 */
export function normalize(schema: Schema, value: Json, unknown: Unknown, path = ""): Json {
  switch (schema.type) {
    case "record":
      if (!isObject(value)) throw mismatch(path, "an object", value);
      return normalizeRecord(schema, value, unknown, path);
    case "map":
      if (!isObject(value)) throw mismatch(path, "an object", value);
      return normalizeMap(schema.values, value, unknown, path);
    case "list":
      if (!isList(value)) throw mismatch(path, "a list", value);
      return normalizeList(schema.items, value, unknown, path);
    default:
      return normalizeScalar(schema.type, value, path);
  }
}

function normalizeScalar(type: ScalarType, value: Json, path: string): Json {
  const { accepts, wants } = scalars[type];
  if (!accepts(value)) throw mismatch(path, wants, value);
  return typeof value === "object" ? value : (canonical[type]?.(String(value)) ?? value);
}

/** Canonical forms of values with several notations. */
const canonical: Partial<Readonly<Record<ScalarType, (text: string) => string>>> = {
  quantity: (text) => text,
  time: (text) => (text === "" ? text : `${utc(text)}Z`),
  microTime: (text) => (text === "" ? text : `${utc(text)}${text.slice(19, 26)}Z`),
};

/** A time in UTC, to the second, without its `Z`. */
const utc = (text: string): string =>
  text.endsWith("Z") ? text.slice(0, 19) : new Date(Date.parse(text)).toISOString().slice(0, 19);

function normalizeList(items: Schema, list: readonly Json[], unknown: Unknown, path: string): Json {
  let changed = false;
  const next = list.map((item, index) => {
    const kept = normalize(items, item, unknown, `${path}[${index}]`);
    changed ||= kept !== item;
    return kept;
  });
  return changed ? next : list;
}

function normalizeMap(values: Schema, map: JsonObject, unknown: Unknown, path: string): JsonObject {
  let changed = false;
  const next: Record<string, Json> = {};
  for (const key of Object.keys(map)) {
    const value = map[key] ?? emptyOf(values);
    const kept = normalize(values, value, unknown, `${path}.${key}`);
    changed ||= kept !== map[key];
    next[key] = kept;
  }
  return changed ? next : map;
}

function normalizeRecord(schema: RecordSchema, object: JsonObject, unknown: Unknown, path: string): JsonObject {
  let changed = false;
  const next: Record<string, Json> = {};
  for (const key of Object.keys(object)) {
    const value = object[key] ?? null;
    const field = ownMember(schema.fields, key);
    const below = path === "" ? key : `${path}.${key}`;
    if (field === undefined) {
      if (schema.open) next[key] = value;
      else unknown.fields.push(below);
      changed ||= !schema.open;
      continue;
    }
    const kept = value === null ? null : normalize(field, value, unknown, below);
    if (kept === null || (isEmpty(kept) && !field.required && !field.pointer)) changed = true;
    else {
      next[key] = kept;
      changed ||= kept !== value;
    }
  }
  for (const [key, field] of Object.entries(schema.fields)) {
    if (!field.required || key in next) continue;
    next[key] = emptyOf(field);
    changed = true;
  }
  return changed ? next : object;
}

function isEmpty(value: Json): boolean {
  if (isList(value)) return value.length === 0;
  if (isObject(value)) return Object.keys(value).length === 0;
  return value === "" || value === 0 || value === false;
}

/** The value that the API server writes for a required field that is absent. */
function emptyOf(schema: Schema): Json {
  switch (schema.type) {
    case "record":
      return normalizeRecord(schema, {}, { fields: [] }, "");
    case "map":
      return {};
    case "list":
      return [];
    case "integer":
    case "intOrString":
      return 0;
    case "boolean":
      return false;
    case "time":
    case "microTime":
    case "any":
      return null;
    default:
      return "";
  }
}
