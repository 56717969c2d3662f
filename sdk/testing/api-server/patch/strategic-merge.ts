import { badRequest } from "../access/status.ts";
import { equal, isList, isObject, type Json, type JsonObject, without } from "../json.ts";
import { fieldOf, type ListSchema, type Schema } from "../schema/schema.ts";

const directive = "$patch";
const retainKeys = "$retainKeys";
const setOrderPrefix = "$setElementOrder/";
const deletePrefix = "$deleteFromPrimitiveList/";

/**
 * Strategic merge: a merge patch that knows which lists are merged by a key of their items, and that may carry
 * directives. Source: apimachinery `strategicpatch`.
 */
export function strategicMerge(target: Json | undefined, patch: Json, schema: Schema | undefined): Json {
  if (!isObject(patch)) throw badRequest("a strategic merge patch must be an object");
  return mergeObject(isObject(target) ? target : {}, patch, schema);
}

function mergeObject(target: JsonObject, patch: JsonObject, schema: Schema | undefined): JsonObject {
  switch (patch[directive]) {
    case undefined:
    case "merge":
      break;
    case "replace":
      return cleaned(without(patch, directive));
    case "delete":
      return {};
    default:
      throw badRequest(`${directive}: ${JSON.stringify(patch[directive])} is not known`);
  }
  const next: Record<string, Json> = { ...retained(target, patch[retainKeys]) };
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith(deletePrefix)) removeValues(next, key.slice(deletePrefix.length), value);
  }
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith("$")) continue;
    if (value === null) delete next[key];
    else next[key] = mergeValue(next[key], value, fieldOf(schema, key));
  }
  for (const [key, value] of Object.entries(patch)) {
    if (!key.startsWith(setOrderPrefix) || !isList(value)) continue;
    const field = key.slice(setOrderPrefix.length);
    const list = next[field];
    const schemaOfList = fieldOf(schema, field);
    if (isList(list) && schemaOfList?.type === "list") next[field] = inOrder(list, target[field], value, schemaOfList);
  }
  return next;
}

function retained(target: JsonObject, keys: Json | undefined): JsonObject {
  if (!isList(keys)) return target;
  return Object.fromEntries(Object.entries(target).filter(([key]) => keys.includes(key)));
}

function removeValues(object: Record<string, Json>, field: string, values: Json): void {
  const list = object[field];
  if (!isList(values)) throw badRequest(`${deletePrefix}${field} must be a list`);
  if (isList(list)) object[field] = list.filter((item) => !values.some((value) => equal(value, item)));
}

function mergeValue(target: Json | undefined, patch: Json, schema: Schema | undefined): Json {
  if (isObject(patch)) return mergeObject(isObject(target) ? target : {}, patch, schema);
  if (!isList(patch)) return patch;
  if (schema?.type !== "list" || schema.mergeKey === undefined) return patch.map(cleanedValue);
  return mergeList(isList(target) ? target : [], patch, schema);
}

/** A value that is set as a whole: its nulls and directives say nothing there. */
const cleaned = (object: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(object).flatMap(([key, value]) =>
      value === null || key.startsWith("$") ? [] : [[key, cleanedValue(value)]],
    ),
  );
function cleanedValue(value: Json): Json {
  if (isList(value)) return value.map(cleanedValue);
  return isObject(value) ? cleaned(value) : value;
}

function mergeList(target: readonly Json[], patch: readonly Json[], schema: ListSchema): readonly Json[] {
  const { mergeKey = "", items } = schema;
  if (mergeKey === "") return patch.reduce<readonly Json[]>(withValue, target);
  if (patch.some((item) => isObject(item) && item[directive] === "replace"))
    return patch.filter((item) => !(isObject(item) && item[directive] === "replace")).map(cleanedValue);
  let next = target;
  for (const item of patch) {
    const key = isObject(item) ? item[mergeKey] : undefined;
    if (!isObject(item) || key === undefined)
      throw badRequest(`each item of this list must carry its merge key "${mergeKey}"`);
    const same = (other: Json): boolean => isObject(other) && equal(other[mergeKey], key);
    if (item[directive] === "delete") {
      next = next.filter((other) => !same(other));
      continue;
    }
    const index = next.findIndex(same);
    const before = next[index];
    const merged = mergeObject(isObject(before) ? before : {}, item, items);
    next = index === -1 ? [...next, merged] : next.with(index, merged);
  }
  return next;
}

const withValue = (list: readonly Json[], value: Json): readonly Json[] =>
  list.some((item) => equal(item, value)) ? list : [...list, value];

/**
 * The list with the items that `order` names in that order. Items that only the server has keep their place before
 * the first named item that they stood before.
 */
function inOrder(list: readonly Json[], before: Json | undefined, order: readonly Json[], schema: ListSchema): Json {
  const { mergeKey = "" } = schema;
  const keyOf = (item: Json): Json => (mergeKey !== "" && isObject(item) ? (item[mergeKey] ?? null) : item);
  const indexIn = (items: readonly Json[], key: Json): number => items.findIndex((item) => equal(keyOf(item), key));
  const server = isList(before) ? before : [];
  const place = (item: Json): number => indexIn(order, keyOf(item));
  const named = list.filter((item) => place(item) !== -1).toSorted((a, b) => place(a) - place(b));
  const others = list.filter((item) => place(item) === -1);
  const standsBefore = (at: number, other: Json | undefined): boolean =>
    other !== undefined && indexIn(server, keyOf(other)) < at;
  const result: Json[] = [];
  for (const item of named) {
    const at = indexIn(server, keyOf(item));
    while (standsBefore(at, others[0])) result.push(...others.splice(0, 1));
    result.push(item);
  }
  return [...result, ...others];
}
