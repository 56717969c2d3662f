import type { KubeObject, ObjectMeta } from "cloud-controller-host/sdk";

/** A JSON value. Values are shared and never modified in place. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = { readonly [key: string]: Json };

/** A stored API object: read-only, with its kind and name always set. */
export type ApiObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
};

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const isList = (value: unknown): value is readonly Json[] => Array.isArray(value);

/** The member of that name; undefined for one that an object only inherits, such as `constructor`. */
export const ownMember = <T>(object: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined;

/** The object below `key`, or an empty one. */
export function objectAt(value: Json | undefined, key: string): JsonObject {
  const below = isObject(value) ? value[key] : undefined;
  return isObject(below) ? below : {};
}

/** The text at the path; undefined without one. */
export function textAt(value: Json | undefined, ...path: readonly string[]): string | undefined {
  let at: Json | undefined = value;
  for (const key of path) at = isObject(at) ? at[key] : undefined;
  return typeof at === "string" ? at : undefined;
}

/** A deep copy as plain JSON, without `undefined`. */
export function plainObject(object: KubeObject): JsonObject {
  const copy: unknown = JSON.parse(JSON.stringify(object));
  return isObject(copy) ? copy : {};
}

/** Equality of JSON values; shared parts cost nothing to compare. */
export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (isList(a)) return isList(b) && a.length === b.length && a.every((item, index) => equal(item, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]));
}

/** The value as text, with the members of objects in order: equal values have equal texts. */
export const textOf = (value: Json): string =>
  JSON.stringify(value, (_, part: Json) =>
    isObject(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );

/** The object without a key; the same object when the key is absent. */
export function without(object: JsonObject, ...keys: readonly string[]): JsonObject {
  if (!keys.some((key) => key in object)) return object;
  return Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));
}
