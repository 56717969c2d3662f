import { isObject, type KubeObject, type PatchType } from "cloud-controller-host/sdk";

import { type FieldChange, fieldChanges } from "./fields.ts";
import { type Document, patched } from "./patches.ts";

/** Fields that the API server sets, and times: two plans of the same state would differ in them. */
const leftOut = new Set([
  "acquireTime",
  "creationTimestamp",
  "generation",
  "lastHeartbeatTime",
  "lastTransitionTime",
  "managedFields",
  "renewTime",
  "resourceVersion",
  "selfLink",
  "uid",
]);

/** The fields of an object that its writer decides. */
export function settingsOfObject({ apiVersion: _apiVersion, kind: _kind, ...object }: Document): Document {
  return documentOf(settings(object));
}

/** True for a default that the API server sets. */
const isDefault = (key: string, value: unknown): boolean => key === "ipMode" && value === "VIP";

function settings(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(settings);
  if (!isObject(value)) return value;
  const kept = Object.entries(value).filter(
    ([key, inner]) => !leftOut.has(key) && inner !== undefined && !isDefault(key, inner),
  );
  return Object.fromEntries(kept.map(([key, inner]) => [key, settings(inner)]));
}

const documentOf = (value: unknown): Document => (isObject(value) ? value : {});

/** Changes made by a write of a whole object; `before` is undefined for a creation. */
export const objectChanges = (before: KubeObject | undefined, after: KubeObject): readonly FieldChange[] =>
  fieldChanges(before && settingsOfObject({ ...before }), settingsOfObject({ ...after }));

/** Changes made by a patch. Only the fields that it names are compared: objects are large, patches small. */
export function patchChanges(object: Document, type: PatchType, patch: unknown): readonly FieldChange[] {
  const named = type === "json" ? namedByOperations(patch) : patch;
  const before = isObject(named) ? pick(object, named) : object;
  return fieldChanges(documentOf(settings(before)), documentOf(settings(patched(before, type, patch))));
}

/** The fields of an object that a merge patch names; lists as a whole. */
const pick = (object: Document, named: Document): Document =>
  Object.fromEntries(
    Object.entries(named).flatMap(([name, inner]): readonly [string, unknown][] => {
      // A directive like `$deleteFromPrimitiveList/finalizers`.
      const key = name.replace(/^\$[^/]+\//u, "");
      const value = object[key];
      if (value === undefined) return [];
      return [[key, isObject(value) && isObject(inner) && !("$patch" in inner) ? pick(value, inner) : value]];
    }),
  );

/** The top-level fields that a JSON patch names. */
const namedByOperations = (operations: unknown): Document =>
  Object.fromEntries(
    (Array.isArray(operations) ? operations : []).flatMap((operation: unknown) => {
      const path = isObject(operation) ? operation["path"] : undefined;
      const name = typeof path === "string" ? path.split("/")[1] : undefined;
      return name === undefined ? [] : [[name, true]];
    }),
  );
