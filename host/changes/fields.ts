import { isObject } from "cloud-controller-host/sdk";

import type { Document } from "./patches.ts";

/** One field that a change sets, alters or removes. `path` is like `properties.probes[web].port`. */
export interface FieldChange {
  readonly path: string;
  /** Absent where the field is new. */
  readonly before?: unknown;
  /** Absent where the field is removed. */
  readonly after?: unknown;
}

/** The fields in which two documents differ, in the order of their paths. */
export const fieldChanges = (before: Document | undefined, after: Document | undefined): readonly FieldChange[] =>
  after === undefined ? [] : compare("", before, after);

function compare(path: string, before: unknown, after: unknown): readonly FieldChange[] {
  if (Bun.deepEquals(before, after)) return [];
  const key = keyOfItems(before) ?? keyOfItems(after);
  const [was, is] = [entriesOf(before, key), entriesOf(after, key)];
  const names = new Set([...(was?.keys() ?? []), ...(is?.keys() ?? [])]);
  if (was === undefined || is === undefined || names.size === 0) return [leaf(path, before, after)];
  return [...names].toSorted().flatMap((name) => compare(join(path, name), was.get(name), is.get(name)));
}

const leaf = (path: string, before: unknown, after: unknown): FieldChange => ({
  path,
  ...(before !== undefined && { before }),
  ...(after !== undefined && { after }),
});

const join = (path: string, name: string): string =>
  path === "" || name.startsWith("[") ? `${path}${name}` : `${path}.${name}`;

/** Fields that identify the items of a list. */
const itemKeys = ["name", "type", "key", "port", "id"];

/** The field by which every item of a list differs from the others; undefined for other values. */
const keyOfItems = (value: unknown): string | undefined => itemKeys.find((key) => isIdentifiedBy(value, key));

function isIdentifiedBy(value: unknown, key: string): value is readonly Document[] {
  if (!Array.isArray(value) || value.length === 0 || !value.every(isObject)) return false;
  const names = new Set(value.map((item: Document) => item[key]));
  return names.size === value.length && !names.has(undefined);
}

/**
 * Fields of an object, or items of a list by their key, which is not repeated in them. `undefined` counts as empty, so
 * that a new object is shown field by field. Returns undefined for other values, and for items that the key does not tell apart.
 */
function entriesOf(value: unknown, key: string | undefined): ReadonlyMap<string, unknown> | undefined {
  if (value === undefined) return new Map();
  if (isObject(value)) return new Map(Object.entries(value));
  if (key === undefined) return undefined;
  if (Array.isArray(value) && value.length === 0) return new Map();
  if (!isIdentifiedBy(value, key)) return undefined;
  return new Map(
    value.map((item) => [
      `[${String(item[key])}]`,
      Object.fromEntries(Object.entries(item).filter(([name]) => name !== key)),
    ]),
  );
}
