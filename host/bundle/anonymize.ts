import { isObject } from "cloud-controller-host/sdk";

import type { Document } from "../changes/patches.ts";
import { Addresses } from "./addresses.ts";
import type { Bundle } from "./bundle.ts";
import { Names } from "./names.ts";

/**
 * Replaces names and addresses, each with the same one throughout the bundle. UIDs stay: they are random, and names in
 * the cloud derive from them. `key` seeds the replacement of addresses.
 */
export function anonymized(bundle: Bundle, key: string = crypto.randomUUID()): Bundle {
  const names = namesOf(bundle);
  const addresses = new Addresses(key);
  const replace = (text: string): string => names.replace(addresses.replace(text));
  return {
    ...bundle,
    anonymized: true,
    flags: bundle.flags.map((flag) => {
      const [name = "", ...value] = flag.split("=");
      return value.length === 0 ? flag : `${name}=${replace(value.join("="))}`;
    }),
    cloudConfig: replacedIn(bundle.cloudConfig, replace),
    kinds: bundle.kinds.map(({ objects, ...kind }) => ({
      ...kind,
      objects: objects.map((object) => ({
        ...replacedIn(object, replace),
        metadata: { ...replacedIn(object.metadata, replace), name: replace(object.metadata.name) },
      })),
    })),
    resources: bundle.resources.map((resource) => ({ ...replacedIn(resource, replace), id: replace(resource.id) })),
  };
}

/** Fields whose values are words of an API. */
const keptFields = new Set(["appProtocol", "kind", "operator", "protocol", "reason", "state", "status", "type", "uid"]);

const replacedIn = (document: object, replace: (text: string) => string): Document =>
  Object.fromEntries(
    Object.entries(document).map(([key, value]: [string, unknown]) => [
      key,
      keptFields.has(key) && typeof value === "string" ? value : replaced(value, replace),
    ]),
  );

function replaced(value: unknown, replace: (text: string) => string): unknown {
  if (typeof value === "string") return replace(value);
  if (Array.isArray(value)) return value.map((item) => replaced(item, replace));
  return isObject(value) ? replacedIn(value, replace) : value;
}

function namesOf({ kinds, resources, cloudConfig, flags }: Bundle): Names {
  const names = new Names();
  for (const { kind, objects } of kinds)
    for (const { metadata, ...object } of objects) {
      names.add(kind, metadata.name);
      names.add("Namespace", metadata.namespace ?? "");
      const { labels = {}, annotations = {} } = metadata;
      for (const value of [...free(labels), ...free(annotations)]) names.add("value", value);
      for (const [key, value] of Object.entries(annotations))
        if (/(?:name|group|subnet)$/u.test(key)) names.add("setting", value);
      for (const value of textsAt(object, "selector")) names.add("value", value);
    }
  for (const text of [...textsIn(cloudConfig), ...resources.flatMap(textsIn)]) addPath(names, text);
  for (const resource of resources) {
    for (const field of ["computerName", "computerNamePrefix", "domainNameLabel"])
      for (const value of textsAt(resource, field)) names.add(field, value);
    for (const value of itemsAt(resource, "tags").flatMap(free)) names.add("value", value);
    for (const list of ["subnets", "securityRules", "routes", "ipConfigurations"])
      for (const { name } of itemsAt(resource, list)) if (typeof name === "string") names.add(list, name);
  }
  for (const [key, value] of Object.entries(cloudConfig))
    if (typeof value === "string" && /(?:name|group|id|prefix)$/iu.test(key)) names.add("setting", value);
  for (const value of textsAt(cloudConfig, "name")) names.add("setting", value);
  for (const flag of flags) if (flag.startsWith("--cluster-name=")) names.add("setting", flag.split("=")[1] ?? "");
  return names;
}

/** Subscription, resource group and resources of an ID. */
function addPath(names: Names, text: string): void {
  const [, subscription, group, provider] =
    /^(?:[a-z]+:\/\/)?\/subscriptions\/([^/]+)(?:\/resourceGroups\/([^/]+))?(?:\/providers\/(.+))?$/iu.exec(text) ?? [];
  names.add("subscription", subscription ?? "");
  names.add("group", group ?? "");
  const [, type = "", name = "", ...children] = provider?.split("/") ?? [];
  names.add(type, name);
  if (/^(?:subnets|virtualMachines)$/iu.test(children[0] ?? "")) names.add(children[0] ?? "", children[1] ?? "");
}

/** Values of labels, annotations and tags that have no meaning to Kubernetes or the cloud. */
const free = (map: unknown): readonly string[] =>
  isObject(map)
    ? Object.entries(map).flatMap(([key, value]) =>
        typeof value === "string" && !/kubernetes|k8s/iu.test(key) ? [value] : [],
      )
    : [];

/** Every text in a document. */
function textsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return isObject(value) ? Object.values(value).flatMap(textsIn) : [];
}

/** The texts in every field of that name, at any depth. */
function textsAt(value: unknown, field: string): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item) => textsAt(item, field));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => (key === field ? textsIn(inner) : textsAt(inner, field)));
}

/** The objects in every field of that name, a list or an object, at any depth. */
function itemsAt(value: unknown, field: string): readonly Document[] {
  if (Array.isArray(value)) return value.flatMap((item) => itemsAt(item, field));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => [
    ...(key === field ? [inner].flat().filter(isObject) : []),
    ...itemsAt(inner, field),
  ]);
}
