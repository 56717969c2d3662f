import type { ObjectMeta } from "cloud-controller-host/sdk";

import { StatusError } from "../access/status.ts";
import { type ApiObject, equal, isList, isObject, type Json, type JsonObject, objectAt, without } from "../json.ts";
import type { Resource } from "../resource.ts";
import { fieldOf, type RecordSchema, type Schema } from "../schema/schema.ts";
import {
  type FieldPath,
  fromFields,
  itself,
  pathsIn,
  readable,
  removeAt,
  stepTo,
  toFields,
  valueAt,
} from "./field-set.ts";

export type ManagedFields = NonNullable<ObjectMeta["managedFields"]>;
type Owner = ManagedFields[number];

/** The manager of a write. What it writes to `/status` it owns apart from the rest. */
export interface Writer {
  readonly manager: string;
  readonly subresource: string | undefined;
  /** RFC 3339. */
  readonly time: string;
}

export interface ApplyOptions extends Writer {
  /** Takes ownership of fields of other managers instead of reporting a conflict. */
  readonly force: boolean;
  readonly apiVersion: string;
}

/** Owner of all fields that an object had before anything was applied to it. Source: apimachinery `managedfields`. */
const beforeFirstApply = "before-first-apply";

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

/** The part of a configuration that the request writes: nothing else of it gets an owner. upstream: `GetResetFields`. */
export function writablePart(
  config: JsonObject,
  { status, custom }: Pick<Resource, "status" | "custom">,
  subresource: string | undefined,
): JsonObject {
  if (subresource !== "status") return status ? without(config, "status") : config;
  const entries = Object.entries(config).filter(([key]) => statusParts.has(key));
  const part: JsonObject = Object.fromEntries(entries);
  if (!custom) return part;
  const identity = Object.entries(objectAt(config, "metadata")).filter(([key]) => unowned.some((one) => one === key));
  return { ...part, metadata: Object.fromEntries(identity) };
}

const statusParts: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata", "status"]);

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
  const paths = ownablePaths(config, schema);
  const owners = before === undefined ? [] : ownersOf(before, schema, options);
  const isOwn = (owner: Owner): boolean => isEntryOf(owner, "Apply", options);
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

/** The paths of an object that can have an owner. */
function ownablePaths(object: JsonObject, schema: RecordSchema): readonly FieldPath[] {
  const metadata = without(objectAt(object, "metadata"), ...unowned);
  const owned = without(object, "apiVersion", "kind", "metadata");
  return pathsIn(Object.keys(metadata).length === 0 ? owned : { ...owned, metadata }, schema);
}

/** The owners of an object's fields; those of one that nothing was applied to are not known. */
function ownersOf(object: ApiObject, schema: RecordSchema, { apiVersion, time }: ApplyOptions): ManagedFields {
  const { managedFields = [] } = object.metadata;
  if (managedFields.length > 0) return managedFields;
  const fieldsV1 = toFields(ownablePaths(object, schema));
  return [{ manager: beforeFirstApply, operation: "Update", apiVersion, time, fieldsType: "FieldsV1", fieldsV1 }];
}

const isEntryOf = (owner: Owner, operation: "Apply" | "Update", { manager, subresource }: Writer): boolean =>
  owner.operation === operation && owner.manager === manager && owner.subresource === subresource;

const pathsOf = ({ fieldsV1 }: Owner): readonly FieldPath[] => fromFields(isObject(fieldsV1) ? fieldsV1 : {});

function shared(owner: Owner, paths: readonly FieldPath[]): readonly FieldPath[] {
  const theirs = new Set(pathsOf(owner).map((path) => path.join("\n")));
  return paths.filter((path) => path.at(-1) !== itself && theirs.has(path.join("\n")));
}

function withoutPaths(owner: Owner, gone: ReadonlySet<string>): readonly Owner[] {
  const left = pathsOf(owner).filter((path) => !gone.has(path.join("\n")));
  return left.length === 0 ? [] : [{ ...owner, fieldsV1: toFields(left) }];
}

/** The manager's own entry; its time changes only with its fields. */
function ownEntry(before: Owner | undefined, paths: readonly FieldPath[], options: ApplyOptions): readonly Owner[] {
  const { manager, apiVersion, time, subresource } = options;
  const fieldsV1 = toFields(paths);
  const same = before !== undefined && isObject(before.fieldsV1) && equal(before.fieldsV1, fieldsV1);
  if (same) return [before];
  if (paths.length === 0) return [];
  const entry: Owner = { manager, operation: "Apply", apiVersion, time, fieldsType: "FieldsV1", fieldsV1 };
  return [{ ...entry, ...(subresource !== undefined && { subresource }) }];
}

function conflictError(conflicts: readonly { readonly owner: Owner; readonly path: FieldPath }[]): StatusError {
  const causes = conflicts.map(({ owner: { manager = "", operation, apiVersion }, path }) => ({
    reason: "FieldManagerConflict",
    message: `conflict with ${JSON.stringify(manager)}${operation === "Update" ? ` using ${apiVersion}` : ""}`,
    field: readable(path),
  }));
  const lines = causes.map(({ message, field }) => `${message}: ${field}`);
  const count = causes.length === 1 ? "1 conflict" : `${causes.length} conflicts`;
  return new StatusError(409, "Conflict", `Apply failed with ${count}: ${lines.join("; ")}`, { causes });
}

function mergeApplied(live: Json | undefined, config: Json, schema: Schema | undefined): Json {
  if (isObject(config)) {
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
 * Ownership after a write other than apply: what has changed belongs to the writer. Undefined for an object that nothing
 * was applied to: the owners of its fields are not tracked.
 */
export function ownersAfterWrite(
  before: ApiObject,
  next: ApiObject,
  schema: RecordSchema,
  writer: Writer,
): ManagedFields | undefined {
  const owners = before.metadata.managedFields;
  if (owners === undefined || owners.length === 0) return owners;
  const changed = new Map<string, FieldPath>();
  for (const path of [...owners.flatMap(pathsOf), ...ownablePaths(next, schema)]) {
    if (differs(valueAt(before, path, schema), valueAt(next, path, schema), path)) changed.set(path.join("\n"), path);
  }
  if (changed.size === 0) return owners;
  const isWriter = (owner: Owner): boolean => isEntryOf(owner, "Update", writer);
  const gone = new Set(changed.keys());
  const own = owners
    .filter(isWriter)
    .flatMap((owner) => withoutPaths(owner, gone))
    .flatMap(pathsOf);
  const present = [...changed.values()].filter((path) => valueAt(next, path, schema) !== undefined);
  const fieldsV1 = toFields([...own, ...present]);
  const left = owners.filter((owner) => !isWriter(owner)).flatMap((owner) => withoutPaths(owner, gone));
  if (Object.keys(fieldsV1).length === 0) return left;
  const { manager, time, subresource } = writer;
  const { apiVersion } = next;
  const entry: Owner = { manager, operation: "Update", apiVersion, time, fieldsType: "FieldsV1", fieldsV1 };
  return [...left, { ...entry, ...(subresource !== undefined && { subresource }) }];
}

/** A keyed item itself differs where one of both has it; its fields have paths of their own. */
const differs = (one: Json | undefined, other: Json | undefined, path: FieldPath): boolean =>
  path.at(-1) === itself ? (one === undefined) !== (other === undefined) : !equal(one, other);
