import { type KubeObject, type ObjectMeta, timestamp } from "cloud-controller-host/sdk";

import { type ApiObject, equal, isObject, type JsonObject, without } from "../json.ts";
import type { Resource } from "../resource.ts";

const suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789";

function generatedName(prefix: string): string {
  const random = crypto.getRandomValues(new Uint8Array(5));
  return prefix.slice(0, 58) + Array.from(random, (byte) => suffixAlphabet[byte % suffixAlphabet.length]).join("");
}

/** Sets the server-owned metadata of a new object. A seed may provide its `uid` and its age. */
export function newMetadata(
  resource: Resource,
  sent: ObjectMeta,
  namespace: string,
  seed: Pick<ObjectMeta, "creationTimestamp" | "uid"> = {},
): ObjectMeta {
  const { deletionTimestamp: _d, deletionGracePeriodSeconds: _g, selfLink: _s, managedFields: _m, ...own } = sent;
  const name = own.name ?? (own.generateName === undefined ? undefined : generatedName(own.generateName));
  return {
    ...own,
    ...(name === undefined ? {} : { name }),
    ...(resource.namespaced ? { namespace } : {}),
    uid: seed.uid ?? crypto.randomUUID(),
    ...(resource.generation === "none" ? {} : { generation: 1 }),
    creationTimestamp: seed.creationTimestamp ?? timestamp(Date.now()),
  };
}

/** Metadata that only the server writes; values from clients are ignored. */
const servers = ["creationTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"] as const;

/** The metadata of an update: from the client, except for server-owned fields. */
export function carriedMetadata(resource: Resource, sent: ObjectMeta, before: ObjectMeta): ObjectMeta {
  const { selfLink: _s, managedFields: _m, ...own } = sent;
  const next: { -readonly [Field in keyof ObjectMeta]: ObjectMeta[Field] } = { ...own };
  for (const key of servers) delete next[key];
  const kept = Object.fromEntries(servers.flatMap((key) => (before[key] === undefined ? [] : [[key, before[key]]])));
  return {
    ...(before.uid === undefined ? {} : { uid: before.uid }),
    ...(before.deletionTimestamp === undefined ? {} : { deletionTimestamp: before.deletionTimestamp }),
    ...next,
    ...kept,
    ...(resource.namespaced && before.namespace !== undefined ? { namespace: before.namespace } : {}),
  };
}

/** Increments `metadata.generation` when the kind counts such a change. */
export function withGeneration({ generation }: Resource, next: ApiObject, before: ApiObject): ApiObject {
  const content = (object: JsonObject): JsonObject => without(object, "metadata", "status");
  const sameLabels = generation === "content" || equal(next.metadata.labels, before.metadata.labels);
  if (generation === "none" || (sameLabels && equal(content(next), content(before)))) return next;
  return { ...next, metadata: { ...next.metadata, generation: (before.metadata.generation ?? 0) + 1 } };
}

/** Narrows the result of a hook or a patch to a stored object. */
export function apiObject(resource: Resource, object: KubeObject | JsonObject): ApiObject {
  const metadata: unknown = object.metadata;
  const apiVersion = resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
  return { ...object, apiVersion, kind: resource.kind, metadata: isMetadata(metadata) ? metadata : {} };
}

/** The schema has checked its fields before this is called. */
const isMetadata = (value: unknown): value is ObjectMeta => isObject(value);
