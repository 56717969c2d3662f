import { isList, isObject, type Json, type JsonObject, without } from "../json.ts";
import { fieldOf, type ListSchema, type Schema } from "../schema/schema.ts";

/**
 * The fields of a manager in the format of `managedFields`: `f:name` for a field, `k:{…}` for an item of a keyed
 * list, `v:…` for a value of a set, `.` for the item itself. A path is the list of these steps.
 */
export type FieldPath = readonly string[];

/** The step of a keyed item itself. */
export const itself = ".";

/** The paths that a configuration sets: its leaves, its lists that are written as a whole, its keyed items. */
export function pathsIn(value: Json, schema: Schema | undefined, above: FieldPath = []): readonly FieldPath[] {
  if (isObject(value)) {
    const below = Object.entries(value).flatMap(([key, field]) =>
      field === null ? [] : pathsIn(field, fieldOf(schema, key), [...above, `f:${key}`]),
    );
    return below.length > 0 || above.length === 0 ? below : [above];
  }
  if (!isList(value) || schema?.type !== "list" || schema.listType === "atomic") return [above];
  if (schema.listType === "set") return value.map((item) => [...above, `v:${JSON.stringify(item)}`]);
  return value.flatMap((item) => {
    const here = [...above, stepTo(item, schema)];
    return [[...here, itself], ...pathsIn(item, schema.items, here)];
  });
}

export function stepTo(item: Json, { keys, keyDefaults }: ListSchema): string {
  const key = keys.map((name) => [name, (isObject(item) ? item[name] : undefined) ?? keyDefaults[name] ?? null]);
  return `k:${JSON.stringify(Object.fromEntries(key))}`;
}

/** The paths as nested objects, the form of `fieldsV1`. */
export function toFields(paths: readonly FieldPath[]): JsonObject {
  const steps = new Map<string, FieldPath[]>();
  for (const [step, ...rest] of paths) {
    if (step === undefined) continue;
    const below = steps.get(step) ?? [];
    if (rest.length > 0) below.push(rest);
    steps.set(step, below);
  }
  return Object.fromEntries([...steps].map(([step, below]) => [step, toFields(below)]));
}

export function fromFields(fields: Json | undefined, above: FieldPath = []): readonly FieldPath[] {
  const entries = isObject(fields) ? Object.entries(fields) : [];
  if (entries.length === 0) return above.length === 0 ? [] : [above];
  return entries.flatMap(([step, below]) => fromFields(below, [...above, step]));
}

/** The value at a path; undefined without one. */
export function valueAt(value: Json | undefined, path: FieldPath, schema: Schema | undefined): Json | undefined {
  const [step, ...rest] = path;
  if (step === undefined || value === undefined || step === itself) return value;
  if (step.startsWith("f:")) {
    const key = step.slice(2);
    return isObject(value) ? valueAt(value[key], rest, fieldOf(schema, key)) : undefined;
  }
  if (!isList(value) || schema?.type !== "list") return undefined;
  return valueAt(value.find(isStep(step, schema)), rest, schema.items);
}

const isStep =
  (step: string, schema: ListSchema) =>
  (item: Json): boolean =>
    (schema.listType === "set" ? `v:${JSON.stringify(item)}` : stepTo(item, schema)) === step;

/** The value without the member at the path. */
export function removeAt(value: Json, path: FieldPath, schema: Schema | undefined): Json {
  const [step = "", ...rest] = path;
  if (step.startsWith("f:")) {
    const key = step.slice(2);
    const below = isObject(value) ? value[key] : undefined;
    if (!isObject(value) || below === undefined) return value;
    return rest.length === 0 ? without(value, key) : { ...value, [key]: removeAt(below, rest, fieldOf(schema, key)) };
  }
  if (!isList(value) || schema?.type !== "list") return value;
  const matches = isStep(step, schema);
  if (rest.length === 0 || rest[0] === itself) return value.filter((item) => !matches(item));
  return value.map((item) => (matches(item) ? removeAt(item, rest, schema.items) : item));
}

function keysOf(step: string): readonly string[] {
  const keys: Json = JSON.parse(step.slice(2));
  return Object.entries(isObject(keys) ? keys : {}).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
}

/** A path as people read it: `.spec.ports[port=80].name`. */
export function readable(path: FieldPath): string {
  return path
    .map((step) => {
      if (step.startsWith("f:")) return `.${step.slice(2)}`;
      if (step.startsWith("k:")) return `[${keysOf(step).join(",")}]`;
      return step === itself ? "" : `[=${step.slice(2)}]`;
    })
    .join("");
}
