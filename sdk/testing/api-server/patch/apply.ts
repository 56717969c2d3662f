import type { ObjectMeta } from "cloud-controller-host/sdk";

import { StatusError } from "../access/status.ts";
import { type ApiObject, equal, isList, isObject, type Json, type JsonObject, objectAt, without } from "../json.ts";
import { fieldOf, type RecordSchema, type Schema } from "../schema/schema.ts";
import { type FieldPath, fromFields, pathsIn, readable, removeAt, stepTo, toFields, valueAt } from "./field-set.ts";

export type ManagedFields = NonNullable<ObjectMeta["managedFields"]>;
type Owner = ManagedFields[number];

export interface ApplyOptions {
  readonly manager: string;
  /** Takes ownership of fields of other managers instead of reporting a conflict. */
  readonly force: boolean;
  readonly apiVersion: string;
  /** RFC 3339. */
  readonly time: string;
}

/** Identity and server-set fields, which have no owner. */
const unowned = [
  "name",
  "namespace",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "managedFields",
] as const;

/**
 * Server-side apply: the object with the configuration merged in, without what the manager applied before and has
 * left out now. Throws a 409 that names each field that another manager has set to a different value.
 */
export function applyConfiguration(
  before: ApiObject | undefined,
  config: JsonObject,
  schema: RecordSchema,
  options: ApplyOptions,
): { readonly object: JsonObject; readonly managedFields: ManagedFields } {
  const metadata = without(objectAt(config, "metadata"), ...unowned);
  const owned = without(config, "apiVersion", "kind", "metadata");
  const paths = pathsIn(Object.keys(metadata).length === 0 ? owned : { ...owned, metadata }, schema);
  const owners = before?.metadata.managedFields ?? [];
  const isOwn = (owner: Owner): boolean => owner.operation === "Apply" && owner.manager === options.manager;
  const others = owners.filter((owner) => !isOwn(owner));
  const live: JsonObject = before ?? {};
  const disputed = (path: FieldPath): boolean => !equal(valueAt(live, path, schema), valueAt(config, path, schema));
  const conflicts = others.flatMap((owner) =>
    shared(owner, paths)
      .filter(disputed)
      .map((path) => ({ owner, path })),
  );
  if (conflicts.length > 0 && !options.force) throw conflictError(conflicts);

  const taken = new Set(conflicts.map(({ path }) => path.join("\n")));
  const left = others.flatMap((owner) => withoutPaths(owner, taken));
  const kept = new Set([...paths, ...left.flatMap(pathsOf)].map((path) => path.join("\n")));
  const dropped = owners
    .filter(isOwn)
    .flatMap(pathsOf)
    .filter((path) => !kept.has(path.join("\n")));
  const pruned = dropped
    .toSorted((a, b) => b.length - a.length)
    .reduce<Json>((object, path) => removeAt(object, path, schema), live);
  const merged = mergeApplied(pruned, config, schema);
  return {
    object: isObject(merged) ? merged : {},
    managedFields: [...left, ...ownEntry(owners.find(isOwn), paths, options)],
  };
}

const pathsOf = ({ fieldsV1 }: Owner): readonly FieldPath[] => fromFields(isObject(fieldsV1) ? fieldsV1 : {});

function shared(owner: Owner, paths: readonly FieldPath[]): readonly FieldPath[] {
  const theirs = new Set(pathsOf(owner).map((path) => path.join("\n")));
  return paths.filter((path) => path.at(-1) !== "." && theirs.has(path.join("\n")));
}

function withoutPaths(owner: Owner, gone: ReadonlySet<string>): readonly Owner[] {
  const left = pathsOf(owner).filter((path) => !gone.has(path.join("\n")));
  return left.length === 0 ? [] : [{ ...owner, fieldsV1: toFields(left) }];
}

/** The manager's own entry; its time changes only with its fields. */
function ownEntry(before: Owner | undefined, paths: readonly FieldPath[], options: ApplyOptions): readonly Owner[] {
  const { manager, apiVersion, time } = options;
  const fieldsV1 = toFields(paths);
  const same = before !== undefined && isObject(before.fieldsV1) && equal(before.fieldsV1, fieldsV1);
  if (same) return [before];
  return paths.length === 0
    ? []
    : [{ manager, operation: "Apply", apiVersion, time, fieldsType: "FieldsV1", fieldsV1 }];
}

function conflictError(conflicts: readonly { readonly owner: Owner; readonly path: FieldPath }[]): StatusError {
  const causes = conflicts.map(({ owner, path }) => ({
    reason: "FieldManagerConflict",
    message: `conflict with ${JSON.stringify(owner.manager ?? "")}`,
    field: readable(path),
  }));
  const lines = causes.map(({ message, field }) => `${message}: ${field}`);
  const count = causes.length === 1 ? "1 conflict" : `${causes.length} conflicts`;
  return new StatusError(409, "Conflict", `Apply failed with ${count}: ${lines.join("; ")}`, { causes });
}

function mergeApplied(live: Json | undefined, config: Json, schema: Schema | undefined): Json {
  if (isObject(config) && schema?.type !== "any") {
    const next: Record<string, Json> = isObject(live) ? { ...live } : {};
    for (const [key, value] of Object.entries(config)) {
      if (value !== null) next[key] = mergeApplied(next[key], value, fieldOf(schema, key));
    }
    return next;
  }
  if (!isList(config) || !isList(live) || schema?.type !== "list" || schema.listType === "atomic") return config;
  if (schema.listType === "set")
    return [...live, ...config.filter((item) => !live.some((other) => equal(other, item)))];
  return config.reduce<readonly Json[]>((list, item) => {
    const step = stepTo(item, schema);
    const index = list.findIndex((other) => stepTo(other, schema) === step);
    return index === -1 ? [...list, item] : list.with(index, mergeApplied(list[index], item, schema.items));
  }, live);
}

/**
 * Ownership after a write other than apply: a field that another manager had applied and that has changed
 * belongs to the writer.
 */
export function ownersAfterWrite(
  before: ApiObject,
  next: ApiObject,
  schema: RecordSchema,
  writer: { readonly manager: string; readonly time: string },
): ManagedFields | undefined {
  const owners = before.metadata.managedFields;
  if (owners === undefined || owners.length === 0) return owners;
  const changed = new Map<string, FieldPath>();
  for (const path of owners.flatMap(pathsOf)) {
    if (!equal(valueAt(before, path, schema), valueAt(next, path, schema))) changed.set(path.join("\n"), path);
  }
  if (changed.size === 0) return owners;
  const isWriter = (owner: Owner): boolean => owner.operation === "Update" && owner.manager === writer.manager;
  const own = owners.filter(isWriter).flatMap(pathsOf);
  const present = [...changed.values()].filter((path) => valueAt(next, path, schema) !== undefined);
  const fieldsV1 = toFields([...own, ...present]);
  const left = owners
    .filter((owner) => !isWriter(owner))
    .flatMap((owner) => withoutPaths(owner, new Set(changed.keys())));
  const entry: Owner = {
    ...writer,
    operation: "Update",
    apiVersion: next.apiVersion,
    fieldsType: "FieldsV1",
    fieldsV1,
  };
  return Object.keys(fieldsV1).length === 0 ? left : [...left, entry];
}
