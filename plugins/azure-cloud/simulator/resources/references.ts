import { sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectAt, objectsAt, stringAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";

/** The id of a reference `{ id }` in a field. */
export const idAt = (from: JsonObject | undefined, key: string): string | undefined =>
  stringAt(objectAt(from, key), "id");

export const idsAt = (from: JsonObject | undefined, key: string): readonly string[] =>
  objectsAt(from, key).flatMap((reference) => stringAt(reference, "id") ?? []);

/** The SKU with the values that ARM assumes. */
export const shownSku = (resource: JsonObject): JsonObject => ({
  name: "Basic",
  tier: "Regional",
  ...objectAt(resource, "sku"),
});

export const nameOf = (item: JsonObject): string => stringAt(item, "name") ?? "";
export const propertiesOf = (item: JsonObject): JsonObject => objectAt(item, "properties") ?? {};

export const hasId = (ids: readonly string[], id: string): boolean => ids.some((candidate) => sameName(candidate, id));

/** The id without its last type and name: the resource that a sub-resource belongs to. */
export const parentId = (id: string): string => id.split("/").slice(0, -2).join("/");

export function without(item: JsonObject, fields: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(item).filter(([field]) => !fields.includes(field)));
}

/** Lower-cased ids grouped by what refers to them. */
export class ReferenceIndex {
  readonly #byTarget = new Map<string, string[]>();

  add(target: string | undefined, source: string): void {
    if (target === undefined) return;
    const key = target.toLowerCase();
    const sources = this.#byTarget.get(key);
    if (sources === undefined) this.#byTarget.set(key, [source]);
    else sources.push(source);
  }

  sourcesOf(target: string): readonly string[] {
    return this.#byTarget.get(target.toLowerCase()) ?? [];
  }

  /** A field of references; absent without any, as in ARM. */
  field(name: string, target: string): JsonObject {
    const sources = this.sourcesOf(target);
    return sources.length === 0 ? {} : { [name]: sources.map((id) => ({ id })) };
  }
}

/** Refuses sub-resources of one kind without a name of their own, as ARM does. */
export function checkNames(items: readonly JsonObject[], id: string): void {
  const names = items.map((item) => nameOf(item).toLowerCase());
  const twice = names.find((name, index) => name === "" || names.indexOf(name) !== index);
  if (twice === undefined) return;
  const message = `Resource ${id} has two child resources with the same name (${twice}).`;
  throw new ArmFault(400, "DuplicateResourceName", message);
}

/** upstream: ARM's `InvalidResourceReference`. */
export const invalidReference = (id: string, by: string): ArmFault =>
  new ArmFault(
    400,
    "InvalidResourceReference",
    `Resource ${id} referenced by resource ${by} was not found. Please make sure that the referenced resource exists, and that both resources are in the same region.`,
  );
