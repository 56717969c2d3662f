import { type KindRef, kinds } from "cloud-controller-host/sdk";

import { noSuchPath } from "../access/status.ts";
import { builtInResources, customResource } from "../kinds/table.ts";
import type { Resource, WriteContext } from "../resource.ts";
import { ServiceAddresses } from "../service-addresses.ts";
import { Collection, Revisions } from "../store/collection.ts";
import { Namespaces } from "./namespaces.ts";
import { Registry } from "./registry.ts";

const firstNamespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];

/** The state of the cluster: one registry per kind, and one revision counter for all. */
export class Cluster {
  readonly revisions = new Revisions();
  readonly registries: Registry[];
  readonly resources: Resource[];
  readonly #byPath = new Map<string, Registry>();
  readonly #historyLimit: number;
  readonly #world: WriteContext;
  readonly #namespaces: Namespaces;

  constructor(options: { readonly kinds: readonly KindRef[]; readonly historyLimit: number }) {
    const resources = [...builtInResources];
    this.#historyLimit = options.historyLimit;
    const collections = new Map<Resource, Collection>(
      resources.map((resource) => [resource, new Collection(this.revisions, options.historyLimit)]),
    );
    const collectionOf = (plural: string): Collection =>
      collections.get(resources.find((resource) => resource.plural === plural) ?? fail(plural)) ?? fail(plural);
    const namespaces = new Namespaces(collectionOf("namespaces"));
    const world: WriteContext = { addresses: new ServiceAddresses(collectionOf("services")), namespaces };
    this.#world = world;
    this.#namespaces = namespaces;
    this.resources = resources;
    this.registries = [...collections].map(([resource, collection]) => new Registry(resource, collection, world));
    for (const registry of this.registries) this.#byPath.set(pathOf(registry.resource), registry);
    const own = this.registryOf(kinds.Namespace);
    namespaces.follow(own);
    for (const registry of this.registries) if (registry.resource.namespaced) namespaces.contain(own, registry);
    this.#bootstrap(world.addresses.first);
    for (const kind of options.kinds) this.serve(kind);
  }

  /** Serves a custom kind from now on; no effect if it is served already. */
  serve(kind: KindRef): void {
    if (this.#byPath.has(pathOf(kind))) return;
    const resource = customResource(kind);
    const registry = new Registry(resource, new Collection(this.revisions, this.#historyLimit), this.#world);
    this.resources.push(resource);
    this.registries.push(registry);
    this.#byPath.set(pathOf(resource), registry);
    if (resource.namespaced) this.#namespaces.contain(this.registryOf(kinds.Namespace), registry);
  }

  serves(kind: KindRef): boolean {
    return this.#byPath.has(pathOf(kind));
  }

  /** Creates the initial namespaces and the Service `kubernetes`. */
  #bootstrap(clusterIP: string): void {
    for (const name of firstNamespaces) this.registryOf(kinds.Namespace).create("", { metadata: { name } });
    this.registryOf(kinds.Service).create("default", {
      metadata: { name: "kubernetes", labels: { component: "apiserver", provider: "kubernetes" } },
      spec: { clusterIP, ports: [{ name: "https", port: 443, targetPort: 6443 }] },
    });
  }

  /** The registry of a kind; throws a 404 for a kind that is not served. */
  registryOf(kind: { readonly group: string; readonly version: string; readonly plural: string }): Registry {
    const registry = this.#byPath.get(pathOf(kind));
    if (registry === undefined) throw noSuchPath();
    return registry;
  }

  compact(): void {
    for (const { collection } of this.registries) collection.compact();
  }
}

const pathOf = ({ group, version, plural }: Pick<KindRef, "group" | "version" | "plural">): string =>
  `${group}/${version}/${plural}`;

function fail(plural: string): never {
  throw new TypeError(`no kind is called ${plural}`);
}
