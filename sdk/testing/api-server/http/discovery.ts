import type { JsonObject } from "../json.ts";
import type { Resource } from "../resource.ts";
import { reviewKinds } from "./reviews.ts";

const storedVerbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"] as const;

/** One line of discovery: a resource, or a subresource under `parent/name`. */
interface Entry {
  readonly group: string;
  readonly version: string;
  /** `nodes`, or `nodes/status`. */
  readonly path: string;
  readonly singular: string;
  readonly namespaced: boolean;
  readonly kind: string;
  readonly responseGroup: string;
  readonly verbs: readonly string[];
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
}

/** Discovery documents, per group and aggregated. */
export class Discovery {
  readonly #resources: readonly Resource[];
  readonly #host: () => string;

  /** `host` gives the address and port that clients reach. */
  constructor(resources: readonly Resource[], host: () => string) {
    this.#resources = resources;
    this.#host = host;
  }

  /** Read for each document: kinds can be added while the server runs. */
  get #entries(): readonly Entry[] {
    return [...this.#resources.flatMap(entriesOf), ...reviewEntries].toSorted((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** The document at the path; undefined for an unknown path. */
  document(path: string, aggregated: boolean): JsonObject | undefined {
    const [root, first, second, ...more] = path
      .slice(1)
      .split("/")
      .filter((part) => part !== "");
    if (more.length > 0) return undefined;
    if (root === "api") return this.#core(first, second, aggregated);
    if (root !== "apis") return undefined;
    if (first === undefined) return aggregated ? this.#aggregated(this.#groups()) : this.#groupList();
    if (!this.#groups().includes(first)) return undefined;
    if (second === undefined) return { kind: "APIGroup", apiVersion: "v1", ...this.#group(first) };
    return this.#versions(first).includes(second) ? this.#resourceList(first, second) : undefined;
  }

  #core(version: string | undefined, more: string | undefined, aggregated: boolean): JsonObject | undefined {
    if (more !== undefined) return undefined;
    if (version !== undefined) return version === "v1" ? this.#resourceList("", "v1") : undefined;
    if (aggregated) return this.#aggregated([""]);
    const serverAddressByClientCIDRs = [{ clientCIDR: "0.0.0.0/0", serverAddress: this.#host() }];
    return { kind: "APIVersions", versions: ["v1"], serverAddressByClientCIDRs };
  }

  #groups(): readonly string[] {
    return [...new Set(this.#entries.map(({ group }) => group))].filter((group) => group !== "").toSorted();
  }

  #versions(group: string): readonly string[] {
    return [...new Set(this.#entries.filter((entry) => entry.group === group).map(({ version }) => version))];
  }

  #group(name: string): JsonObject {
    const versions = this.#versions(name).map((version) => ({ groupVersion: `${name}/${version}`, version }));
    return { name, versions, preferredVersion: versions[0] ?? {} };
  }

  #groupList(): JsonObject {
    return { kind: "APIGroupList", apiVersion: "v1", groups: this.#groups().map((name) => this.#group(name)) };
  }

  #resourceList(group: string, version: string): JsonObject {
    const groupVersion = group === "" ? version : `${group}/${version}`;
    const entries = this.#entries.filter((entry) => entry.group === group && entry.version === version);
    return { kind: "APIResourceList", apiVersion: "v1", groupVersion, resources: entries.map(plainEntry) };
  }

  #aggregated(groups: readonly string[]): JsonObject {
    return {
      kind: "APIGroupDiscoveryList",
      apiVersion: "apidiscovery.k8s.io/v2",
      metadata: {},
      items: groups.map((name): JsonObject => ({
        metadata: name === "" ? {} : { name },
        versions: this.#versions(name).map((version) => ({
          version,
          resources: this.#aggregatedEntries(name, version),
          freshness: "Current",
        })),
      })),
    };
  }

  #aggregatedEntries(group: string, version: string): readonly JsonObject[] {
    const entries = this.#entries.filter((entry) => entry.group === group && entry.version === version);
    return entries
      .filter(({ path }) => !path.includes("/"))
      .map((entry) => {
        const below = entries.filter(({ path }) => path.startsWith(`${entry.path}/`));
        return {
          resource: entry.path,
          responseKind: responseKind(entry),
          scope: entry.namespaced ? "Namespaced" : "Cluster",
          singularResource: entry.singular,
          verbs: entry.verbs,
          ...words(entry),
          ...(below.length === 0 ? {} : { subresources: below.map(subresource) }),
        };
      });
  }
}

/** Group and version are empty when equal to those of the resource. */
const responseKind = ({ group, responseGroup, version, kind }: Entry): JsonObject =>
  group === responseGroup ? { group: "", version: "", kind } : { group: responseGroup, version, kind };

const subresource = (entry: Entry): JsonObject => ({
  subresource: entry.path.split("/")[1] ?? "",
  responseKind: responseKind(entry),
  verbs: entry.verbs,
});

const words = ({ shortNames, categories }: Entry): JsonObject => ({
  ...(shortNames.length === 0 ? {} : { shortNames }),
  ...(categories.length === 0 ? {} : { categories }),
});

const plainEntry = (entry: Entry): JsonObject => ({
  name: entry.path,
  singularName: entry.singular,
  namespaced: entry.namespaced,
  ...(entry.responseGroup === entry.group ? {} : { group: entry.responseGroup, version: entry.version }),
  kind: entry.kind,
  verbs: entry.verbs,
  ...words(entry),
});

function entriesOf(resource: Resource): readonly Entry[] {
  const { group, version, plural, namespaced, kind, singular, shortNames, categories } = resource;
  const verbs = storedVerbs.filter((verb) => verb !== "deletecollection" || resource.deleteCollection);
  const own: Entry = {
    group,
    version,
    namespaced,
    kind,
    singular,
    shortNames,
    categories,
    verbs,
    path: plural,
    responseGroup: group,
  };
  const below: Entry = { ...own, singular: "", shortNames: [], categories: [] };
  return [
    own,
    ...(resource.status ? [{ ...below, path: `${plural}/status`, verbs: ["get", "patch", "update"] }] : []),
    ...(resource.finalize ? [{ ...below, path: `${plural}/finalize`, verbs: ["update"] }] : []),
    ...(plural === "serviceaccounts" ? [{ ...below, ...tokenRequest }] : []),
  ];
}

const tokenRequest = {
  path: "serviceaccounts/token",
  kind: "TokenRequest",
  responseGroup: "authentication.k8s.io",
  verbs: ["create"],
} as const;

const reviewEntries: readonly Entry[] = reviewKinds.map(({ group, plural, kind, namespaced }) => ({
  group,
  kind,
  namespaced,
  version: "v1",
  path: plural,
  responseGroup: group,
  singular: kind.toLowerCase(),
  verbs: ["create"],
  shortNames: [],
  categories: [],
}));
