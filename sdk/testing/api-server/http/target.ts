import { methodNotAllowed, noSuchPath } from "../access/status.ts";
import type { Cluster } from "../registry/cluster.ts";
import type { Registry } from "../registry/registry.ts";
import { mediaTypeOf, patchTypes } from "./body.ts";

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";

export interface ApiPath {
  /** Undefined for a method that such a path does not have. */
  readonly verb: Verb | undefined;
  readonly group: string;
  readonly version: string;
  /** Resource name, such as `nodes`. */
  readonly plural: string;
  /** Empty for all namespaces, and for cluster-scoped kinds. */
  readonly namespace: string;
  /** Empty for a collection. */
  readonly name: string;
  readonly subresource: string;
}

/** A parsed path of a served kind. */
export interface Target extends ApiPath {
  readonly verb: Verb;
  readonly registry: Registry;
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
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/** Reads `/api/v1/…` and `/apis/group/version/…`; undefined for a path that names no resource. */
export function parsePath(method: string, path: string, query: URLSearchParams): ApiPath | undefined {
  const [root, ...rest] = path.slice(1).split("/");
  if (root !== "api" && root !== "apis") return undefined;
  const [group = "", version = "", ...parts] = (root === "apis" ? rest : ["", ...rest]).map(decoded);
  const inNamespace = parts[0] === "namespaces" && !namespaceSubresources.has(parts[2]);
  const [plural = "", name = "", subresource = "", ...more] = inNamespace ? parts.slice(2) : parts;
  if (plural === "" || more.length > 0) return undefined;
  const verb = (name === "" ? collectionVerbs : objectVerbs)[method];
  return {
    verb: verb === "list" && isTrue(query.get("watch")) ? "watch" : verb,
    group,
    version,
    plural,
    namespace: inNamespace ? (parts[1] ?? "") : "",
    name,
    subresource,
  };
}

/** Path segments after a namespace's name that refer to the namespace itself. */
const namespaceSubresources = new Set<string | undefined>([undefined, "", "status", "finalize"]);

/** Finds the kind of a path; throws a 404 for one that is not served and a 405 for a method that it does not have. */
export function targetOf(cluster: Cluster, path: ApiPath): Target {
  const registry = cluster.registryOf(path);
  const { verb, namespace, name } = path;
  const { namespaced, deleteCollection } = registry.resource;
  if (!namespaced && namespace !== "") throw noSuchPath();
  if (namespaced && namespace === "" && name !== "") throw noSuchPath();
  const isEviction = verb === "create" && registry.resource.plural === "pods" && path.subresource === "eviction";
  if (verb === undefined || (verb === "create" && name !== "" && !isEviction)) throw methodNotAllowed();
  if (verb === "deletecollection" && !deleteCollection) throw methodNotAllowed();
  if (namespaced && namespace === "" && verb !== "list" && verb !== "watch") throw methodNotAllowed();
  return { ...path, verb, registry };
}

/** True for a write by name that creates the object: an apply, or for some kinds a PUT. Status and the like create nothing. */
export function createsByName({ headers }: Request, { verb, subresource, registry, ...place }: Target): boolean {
  const isApply = verb === "patch" && mediaTypeOf(headers) === patchTypes.apply;
  const isPut = verb === "update" && registry.resource.createOnUpdate;
  return (isApply || isPut) && subresource === "" && registry.find(place) === undefined;
}

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    throw noSuchPath();
  }
};

export const isTrue = (value: string | null): boolean => value === "true" || value === "1";
