import type { KubeObject, ObjectMeta } from "cloud-controller-host/sdk";

import { type ApiObject, equal, isObject, type JsonObject, without } from "../json.ts";
import type { Resource } from "../resource.ts";

const suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789";

/** A time as objects carry it, to the second. */
export const timestamp = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");

function generatedName(prefix: string): string {
  const random = crypto.getRandomValues(new Uint8Array(5));
  return prefix.slice(0, 58) + Array.from(random, (byte) => suffixAlphabet[byte % suffixAlphabet.length]).join("");
}

/** What a new object is given, and what a client may not set on it. */
export function newMetadata(resource: Resource, sent: ObjectMeta, namespace: string): ObjectMeta {
  const {
    deletionTimestamp: _d,
    deletionGracePeriodSeconds: _g,
    selfLink: _s,
    managedFields: _m,
    generation: _n,
    ...own
  } = sent;
  const name = own.name ?? (own.generateName === undefined ? undefined : generatedName(own.generateName));
  return {
    ...own,
    ...(name === undefined ? {} : { name }),
    ...(resource.namespaced ? { namespace } : {}),
    uid: crypto.randomUUID(),
    ...(resource.generation ? { generation: 1 } : {}),
    creationTimestamp: timestamp(Date.now()),
  };
}

/** What an update may leave out of the metadata and what it cannot change. */
export function carriedMetadata(resource: Resource, sent: ObjectMeta, before: ObjectMeta): ObjectMeta {
  const {
    selfLink: _s,
    managedFields: _m,
    resourceVersion: _r,
    generation: _g,
    deletionGracePeriodSeconds: _p,
    ...own
  } = sent;
  const { generation, deletionGracePeriodSeconds, resourceVersion } = before;
  return {
    ...(before.uid === undefined ? {} : { uid: before.uid }),
    ...(before.creationTimestamp === undefined ? {} : { creationTimestamp: before.creationTimestamp }),
    ...(before.deletionTimestamp === undefined ? {} : { deletionTimestamp: before.deletionTimestamp }),
    ...own,
    ...(resource.namespaced && before.namespace !== undefined ? { namespace: before.namespace } : {}),
    ...(generation === undefined ? {} : { generation }),
    ...(deletionGracePeriodSeconds === undefined ? {} : { deletionGracePeriodSeconds }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

/** Counts a change of what the object wants; its metadata and its status do not count. */
export function withGeneration(resource: Resource, next: ApiObject, before: ApiObject): ApiObject {
  const wanted = (object: JsonObject): JsonObject => without(object, "metadata", "status");
  if (!resource.generation || equal(wanted(next), wanted(before))) return next;
  return { ...next, metadata: { ...next.metadata, generation: (before.metadata.generation ?? 0) + 1 } };
}

/** Narrows what a hook or a patch gave to what is kept. */
export function apiObject(resource: Resource, object: KubeObject | JsonObject): ApiObject {
  const metadata: unknown = object.metadata;
  const apiVersion = resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
  return { ...object, apiVersion, kind: resource.kind, metadata: isMetadata(metadata) ? metadata : {} };
}

/** The schema has checked its fields by the time that this is asked. */
const isMetadata = (value: unknown): value is ObjectMeta => isObject(value);
