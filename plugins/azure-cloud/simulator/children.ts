import { sameName } from "../arm/resource-id.ts";
import { isObject, type JsonObject, objectAt, objectsAt, stringAt } from "../json.ts";
import { type Draft, draftOf, nextEtag } from "./store.ts";

/** Sub-resources live inside their parent's properties; each has an id below the parent's, an etag and a state. */
function child(parentId: string, property: string, item: JsonObject): JsonObject {
  const name = stringAt(item, "name") ?? "";
  return {
    ...item,
    id: `${parentId}/${property}/${name}`,
    name,
    etag: nextEtag(),
    properties: { ...objectAt(item, "properties"), provisioningState: "Succeeded" },
  };
}

/** Names every sub-resource of a parent that is about to be stored. An array that was left out is empty, as in ARM. */
export function withChildren(parentId: string, draft: Draft, properties: readonly string[]): Draft {
  const filled = properties.map((property) => [
    property,
    objectsAt(draft.properties, property).map((item) => child(parentId, property, item)),
  ]);
  return { ...draft, properties: { ...draft.properties, ...Object.fromEntries(filled) } };
}

/** The parent with one sub-resource put in or, where `item` is undefined, taken out. */
export function replaceChild(parent: JsonObject, property: string, name: string, item: unknown): Draft {
  const draft = draftOf(parent);
  const others = objectsAt(draft.properties, property);
  const wanted = isObject(item) ? { ...item, name } : undefined;
  const known = others.some((other) => sameName(stringAt(other, "name") ?? "", name));
  const items = known
    ? others.flatMap((other) => (sameName(stringAt(other, "name") ?? "", name) ? (wanted ?? []) : other))
    : [...others, ...(wanted === undefined ? [] : [wanted])];
  return { ...draft, properties: { ...draft.properties, [property]: items } };
}
