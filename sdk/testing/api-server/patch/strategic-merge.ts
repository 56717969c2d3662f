import { badRequest } from "../access/status.ts";
import { isList, isObject, type Json, type JsonObject, textOf, without } from "../json.ts";
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
  const removed = new Set(values.map(textOf));
  if (isList(list)) object[field] = list.filter((item) => !removed.has(textOf(item)));
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
  if (mergeKey === "") return withValues(target, patch);
  if (patch.some((item) => isObject(item) && item[directive] === "replace"))
    return patch.filter((item) => !(isObject(item) && item[directive] === "replace")).map(cleanedValue);
  const next: (Json | undefined)[] = [...target];
  const places = Map.groupBy(next.keys(), (at) => keyTextOf(next[at], mergeKey));
  for (const item of patch) {
    const key = keyTextOf(item, mergeKey);
    if (!isObject(item) || key === undefined)
      throw badRequest(`each item of this list must carry its merge key "${mergeKey}"`);
    const same = places.get(key) ?? [];
    if (item[directive] === "delete") {
      for (const at of same) next[at] = undefined;
      places.delete(key);
      continue;
    }
    const [place = next.length] = same;
    const before = next[place];
    if (same.length === 0) places.set(key, [place]);
    next[place] = mergeObject(isObject(before) ? before : {}, item, items);
  }
  return next.filter((item) => item !== undefined);
}

/** The text of an item's merge key; undefined without one. */
function keyTextOf(item: Json | undefined, mergeKey: string): string | undefined {
  const key = isObject(item) ? item[mergeKey] : undefined;
  return key === undefined ? undefined : textOf(key);
}

function withValues(list: readonly Json[], values: readonly Json[]): readonly Json[] {
  const next = [...list];
  const present = new Set(list.map(textOf));
  for (const value of values) {
    const text = textOf(value);
    if (!present.has(text)) next.push(value);
    present.add(text);
  }
  return next;
}

/**
 * The list with the items that `order` names in that order. Items that only the server has keep their place before
 * the first named item that they stood before.
 */
function inOrder(list: readonly Json[], before: Json | undefined, order: readonly Json[], schema: ListSchema): Json {
  const { mergeKey = "" } = schema;
  const keyOf = (item: Json): string => textOf(mergeKey !== "" && isObject(item) ? (item[mergeKey] ?? null) : item);
  const places = placesOf(order.map(keyOf));
  const serverPlaces = placesOf((isList(before) ? before : []).map(keyOf));
  const placed = list.map((item) => {
    const key = keyOf(item);
    return { item, place: places.get(key) ?? -1, serverPlace: serverPlaces.get(key) ?? -1 };
  });
  const named = placed.filter(({ place }) => place !== -1).toSorted((a, b) => a.place - b.place);
  const others = placed.filter(({ place }) => place === -1);
  const result: Json[] = [];
  let at = 0;
  for (const { item, serverPlace } of named) {
    let other = others[at];
    while (other !== undefined && other.serverPlace < serverPlace) {
      result.push(other.item);
      other = others[++at];
    }
    result.push(item);
  }
  return [...result, ...others.slice(at).map(({ item }) => item)];
}

/** The first place of each text. */
function placesOf(texts: readonly string[]): ReadonlyMap<string, number> {
  const places = new Map<string, number>();
  for (const [place, text] of texts.entries()) if (!places.has(text)) places.set(text, place);
  return places;
}
