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

/** Changes made by a patch. Applied, it shares with the object all that it does not name: objects are large, patches small. */
export function patchChanges(object: Document, type: PatchType, patch: unknown): readonly FieldChange[] {
  const after = patched(object, type, patch);
  return fieldChanges(documentOf(settings(unshared(object, after))), documentOf(settings(unshared(after, object))));
}

/** A value without the fields that are the same, not only equal, in another. */
function unshared(value: unknown, other: unknown): unknown {
  if (!isObject(value) || !isObject(other)) return value;
  const own = Object.entries(value).filter(([key, inner]) => inner !== other[key]);
  return Object.fromEntries(own.map(([key, inner]) => [key, unshared(inner, other[key])]));
}
