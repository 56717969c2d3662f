import { type KindRef, kinds } from "cloud-controller-host/sdk";

import { noSuchPath } from "../access/status.ts";
import { builtInResources, customResource } from "../kinds/table.ts";
import type { Resource, WriteContext } from "../resource.ts";
import { ServiceAddresses } from "../service-addresses.ts";
import { Collection, Revisions } from "../store/collection.ts";
import { Namespaces } from "./namespaces.ts";
import { Registry } from "./registry.ts";

const firstNamespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];

/** The whole state: one registry for each kind, one count of revisions for all. */
export class Cluster {
  readonly revisions = new Revisions();
  readonly registries: readonly Registry[];
  readonly #byPath = new Map<string, Registry>();

  constructor(options: { readonly kinds: readonly KindRef[]; readonly historyLimit: number }) {
    const resources = [...builtInResources, ...options.kinds.map(customResource)];
    const collections = new Map<Resource, Collection>(
      resources.map((resource) => [resource, new Collection(this.revisions, options.historyLimit)]),
    );
    const collectionOf = (plural: string): Collection =>
      collections.get(resources.find((resource) => resource.plural === plural) ?? fail(plural)) ?? fail(plural);
    const namespaces = new Namespaces(collectionOf("namespaces"));
    const world: WriteContext = { addresses: new ServiceAddresses(collectionOf("services")), namespaces };
    this.registries = [...collections].map(([resource, collection]) => new Registry(resource, collection, world));
    for (const registry of this.registries) this.#byPath.set(pathOf(registry.resource), registry);
    const contents = this.registries.filter(({ resource }) => resource.namespaced);
    namespaces.follow(this.registryOf(kinds.Namespace), contents);
    this.#bootstrap(world.addresses.first);
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

  /** Forgets all history. */
  compact(): void {
    for (const { collection } of this.registries) collection.compact();
  }
}

const pathOf = ({ group, version, plural }: Pick<KindRef, "group" | "version" | "plural">): string =>
  `${group}/${version}/${plural}`;

function fail(plural: string): never {
  throw new TypeError(`no kind is called ${plural}`);
}
