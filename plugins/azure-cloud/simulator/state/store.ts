import { isObject } from "cloud-controller-host/sdk";

import { parseArmPath } from "../../arm/resource-id.ts";
import type { JsonObject } from "../../json.ts";

/** A stored resource: ARM's envelope around the properties of its type. */
export interface Resource extends JsonObject {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly etag: string;
  readonly properties: JsonObject;
}

/** A resource to store, without id, name and etag. */
export type Draft = JsonObject & { readonly properties: JsonObject };

let etagsGiven = 0;
export const nextEtag = (): string => `W/"${(++etagsGiven).toString(16).padStart(8, "0")}-sim"`;

/** Resources by lower-cased id. */
export class Resources {
  protected readonly resources: Map<string, Resource>;

  constructor(resources: Map<string, Resource> = new Map()) {
    this.resources = resources;
  }

  get(id: string): Resource | undefined {
    return this.resources.get(id.toLowerCase());
  }

  /**
   * The resources directly in a collection such as `/…/providers/Microsoft.Network/loadBalancers`, in order of
   * creation.
   */
  list(collection: string): readonly Resource[] {
    const prefix = `${collection.toLowerCase()}/`;
    return this.#matching((key) => key.startsWith(prefix) && !key.slice(prefix.length).includes("/"));
  }

  /** The resources of one type (lower case) in a whole subscription. */
  listType(subscription: string, type: string): readonly Resource[] {
    const prefix = `/subscriptions/${subscription}/`.toLowerCase();
    return this.#matching((key, resource) => key.startsWith(prefix) && resource.type.toLowerCase() === type);
  }

  all(): readonly Resource[] {
    return [...this.resources.values()];
  }

  #matching(wanted: (key: string, resource: Resource) => boolean): readonly Resource[] {
    return [...this.resources].flatMap(([key, resource]) => (wanted(key, resource) ? [resource] : []));
  }
}

/** A former state of a resource, valid until some moment; undefined if it did not exist. */
interface Superseded {
  readonly resource: Resource | undefined;
  readonly until: number;
}

/** Resources by id. Ids are compared case-insensitively and keep their original spelling. */
export class ResourceStore extends Resources {
  readonly #groups = new Map<string, string>();
  readonly #revisions = new Map<string, number>();
  readonly #history = new Map<string, Superseded[]>();
  #readLagMs = 0;
  #changes = 0;

  addGroup(subscription: string, name: string): void {
    this.#groups.set(`/subscriptions/${subscription}/resourcegroups/${name}`.toLowerCase(), name);
  }

  hasGroup(subscription: string, name: string): boolean {
    return this.#groups.has(`/subscriptions/${subscription}/resourcegroups/${name}`.toLowerCase());
  }

  removeGroup(subscription: string, name: string): void {
    const prefix = `/subscriptions/${subscription}/resourcegroups/${name}`.toLowerCase();
    this.#groups.delete(prefix);
    for (const [key, { id }] of this.resources) if (key.startsWith(`${prefix}/`)) this.delete(id);
  }

  /** Changes with every write of a resource. */
  get changes(): number {
    return this.#changes;
  }

  /** A revision that changes with every write of a resource of one type (lower case). */
  revision(type: string): number {
    return this.#revisions.get(type) ?? 0;
  }

  /** Stores a resource under its id, with a new etag. */
  put(id: string, draft: Draft): Resource {
    const previous = this.get(id);
    const path = parseArmPath(id);
    if (path?.provider === undefined) throw new Error(`"${id}" is not a resource id`);
    const resource: Resource = {
      ...draft,
      id: previous?.id ?? id,
      name: previous?.name ?? path.names.at(-1) ?? "",
      type: `${path.provider}/${path.type}`,
      etag: nextEtag(),
    };
    this.#supersede(id.toLowerCase(), previous, resource.type);
    this.resources.set(id.toLowerCase(), resource);
    return resource;
  }

  /** Sets a new etag on a resource that changed through another one. */
  touch(id: string): void {
    const resource = this.get(id);
    if (resource !== undefined) this.put(id, resource);
  }

  delete(id: string): boolean {
    const key = id.toLowerCase();
    const previous = this.resources.get(key);
    if (previous !== undefined) this.#supersede(key, previous, previous.type);
    return this.resources.delete(key);
  }

  /** Makes reads lag by this time, like those of a replica that has not caught up. 0: reads are current. */
  setReadLag(ms: number): void {
    this.#readLagMs = ms;
    if (ms === 0) this.#history.clear();
  }

  /** The resources as a read finds them. Writes are always decided on the current ones. */
  readable(): Resources {
    if (this.#readLagMs === 0) return this;
    const moment = performance.now() - this.#readLagMs;
    const shown = new Map(this.resources);
    for (const [key, entries] of this.#history) {
      const current = entries.filter(({ until }) => until > moment);
      this.#history.set(key, current);
      const [oldest] = current;
      if (oldest === undefined) continue;
      if (oldest.resource === undefined) shown.delete(key);
      else shown.set(key, oldest.resource);
    }
    return new Resources(shown);
  }

  #supersede(key: string, resource: Resource | undefined, type: string): void {
    const lower = type.toLowerCase();
    this.#changes += 1;
    this.#revisions.set(lower, this.revision(lower) + 1);
    if (this.#readLagMs === 0) return;
    const entries = this.#history.get(key) ?? [];
    entries.push({ resource, until: performance.now() });
    this.#history.set(key, entries);
  }
}

/** The body of a PUT as a draft; `properties` is always an object. */
export const draftOf = (body: JsonObject): Draft => ({
  ...body,
  properties: isObject(body["properties"]) ? body["properties"] : {},
});
