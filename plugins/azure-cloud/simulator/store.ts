import { parseArmPath } from "../arm/resource-id.ts";
import { isObject, type JsonObject } from "../json.ts";

/** A stored resource: ARM's envelope around whatever its type holds. */
export interface Resource extends JsonObject {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly etag: string;
  readonly properties: JsonObject;
}

/** A resource before the store has named it and given it an etag. */
export type Draft = JsonObject & { readonly properties: JsonObject };

let etagsGiven = 0;
export const nextEtag = (): string => `W/"${(++etagsGiven).toString(16).padStart(8, "0")}-sim"`;

/** Resources by id. Ids are compared without regard to case and keep the spelling they were made with. */
export class ResourceStore {
  readonly #resources = new Map<string, Resource>();
  readonly #groups = new Map<string, string>();

  addGroup(subscription: string, name: string): void {
    this.#groups.set(`/subscriptions/${subscription}/resourcegroups/${name}`.toLowerCase(), name);
  }

  hasGroup(subscription: string, name: string): boolean {
    return this.#groups.has(`/subscriptions/${subscription}/resourcegroups/${name}`.toLowerCase());
  }

  removeGroup(subscription: string, name: string): void {
    const prefix = `/subscriptions/${subscription}/resourcegroups/${name}`.toLowerCase();
    this.#groups.delete(prefix);
    for (const key of this.#resources.keys()) if (key.startsWith(`${prefix}/`)) this.#resources.delete(key);
  }

  get(id: string): Resource | undefined {
    return this.#resources.get(id.toLowerCase());
  }

  /** Stores under the id's own last name and type, with a new etag. */
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
    this.#resources.set(id.toLowerCase(), resource);
    return resource;
  }

  delete(id: string): boolean {
    return this.#resources.delete(id.toLowerCase());
  }

  /** The resources directly in a collection such as `/…/providers/Microsoft.Network/loadBalancers`, in order of making. */
  list(collection: string): readonly Resource[] {
    const prefix = `${collection.toLowerCase()}/`;
    return this.#matching((key) => key.startsWith(prefix) && !key.slice(prefix.length).includes("/"));
  }

  /** The resources of one type in a whole subscription. */
  listType(subscription: string, type: string): readonly Resource[] {
    const prefix = `/subscriptions/${subscription}/`.toLowerCase();
    return this.#matching((key, resource) => key.startsWith(prefix) && resource.type.toLowerCase() === type);
  }

  #matching(wanted: (key: string, resource: Resource) => boolean): readonly Resource[] {
    return [...this.#resources].flatMap(([key, resource]) => (wanted(key, resource) ? [resource] : []));
  }
}

/** The body of a PUT as a draft; `properties` is an object whatever was sent. */
export const draftOf = (body: JsonObject): Draft => ({
  ...body,
  properties: isObject(body["properties"]) ? body["properties"] : {},
});
