import { type Cluster } from "../registry/cluster.ts";
import type { Registry } from "../registry/registry.ts";
import { methodNotAllowed, noSuchPath } from "../status.ts";

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";

/** What a request to an API path is about. */
export interface Target {
  readonly verb: Verb;
  readonly registry: Registry;
  /** Empty for all namespaces, and for cluster-scoped kinds. */
  readonly namespace: string;
  /** Empty for a collection. */
  readonly name: string;
  readonly subresource: string;
}

const collectionVerbs: Readonly<Record<string, Verb>> = {
  GET: "list",
  HEAD: "list",
  POST: "create",
  DELETE: "deletecollection",
};
const objectVerbs: Readonly<Record<string, Verb>> = {
  GET: "get",
  HEAD: "get",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/** Reads `/api/v1/…` and `/apis/group/version/…`; throws a 404 for what is not served and a 405 for a wrong method. */
export function parseTarget(cluster: Cluster, method: string, path: string, query: URLSearchParams): Target {
  const [root, ...rest] = path.slice(1).split("/").map(decodeURIComponent);
  const [group = "", version = "", ...below] = root === "apis" ? rest : ["", ...rest];
  const place = placeOf(below);
  const registry = cluster.registryOf({ group, version, plural: place.plural });
  if (!registry.resource.namespaced && place.namespace !== "") throw noSuchPath();
  const verb = verbOf(method, place, query);
  const across = registry.resource.namespaced && place.namespace === "";
  if (across && place.name !== "") throw noSuchPath();
  if (across && verb !== "list" && verb !== "watch") throw methodNotAllowed();
  return { verb, registry, namespace: place.namespace, name: place.name, subresource: place.subresource };
}

interface Place {
  readonly plural: string;
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
}

const namespaceSubresources = new Set<string | undefined>([undefined, "status", "finalize"]);

function placeOf(parts: readonly string[]): Place {
  const ofNamespace = parts[0] === "namespaces" && namespaceSubresources.has(parts[2]);
  const [namespace, rest] = parts[0] === "namespaces" && !ofNamespace ? [parts[1] ?? "", parts.slice(2)] : ["", parts];
  const [plural = "", name = "", subresource = "", ...more] = rest;
  if (plural === "" || more.length > 0) throw noSuchPath();
  return { plural, namespace, name, subresource };
}

function verbOf(method: string, { name }: Place, query: URLSearchParams): Verb {
  if (name !== "") {
    const verb = objectVerbs[method] ?? (method === "POST" ? "create" : undefined);
    if (verb === undefined) throw methodNotAllowed();
    return verb;
  }
  const verb = collectionVerbs[method];
  if (verb === undefined) throw methodNotAllowed();
  return verb === "list" && isTrue(query.get("watch")) ? "watch" : verb;
}

export const isTrue = (value: string | null): boolean => value === "true" || value === "1";
