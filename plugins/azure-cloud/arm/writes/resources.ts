import { isDeepStrictEqual } from "node:util";

import { type Clock, CodedError } from "cloud-controller-host/sdk";

import { ArmError, isAbsent, unlessAbsent } from "../errors.ts";
import { describeWrite } from "../pipeline/record.ts";
import { ReadsAhead } from "../reads/reads-ahead.ts";
import { type CachedResource, lagMs, ResourceCache } from "../reads/resource-cache.ts";
import { parseArmPath } from "../resource-id.ts";
import { withOperationLimit } from "./operation-limit.ts";
import { OutdatedError } from "./write-errors.ts";

export interface WriteOptions {
  readonly abortSignal: AbortSignal;
  readonly onResponse: () => void;
  readonly requestOptions: { readonly headers: Record<string, string> };
}

/** The SDK's calls for one type of resource. */
export interface ResourceCalls<Item> {
  /** Name of the type in errors, such as `load balancer`. */
  readonly noun: string;
  list(resourceGroup: string): AsyncIterable<Item>;
  get(resourceGroup: string, name: string): Promise<Item>;
  put(resourceGroup: string, name: string, body: Item, options: WriteOptions): PromiseLike<Item>;
  delete(resourceGroup: string, name: string, options: WriteOptions): PromiseLike<void>;
}

export interface ResourceOptions {
  readonly clock: Clock;
  readonly ttlMs: number;
  /** Aborts operations in progress. */
  readonly signal: AbortSignal;
}

export type ArmResource = CachedResource;

/** Maximum age of the read before a creation. `If-None-Match` may protect what another writer creates after it. */
const aheadMs = 5_000;

/** Resources of one type: shared and cached reads by resource group, and writes whose replies update the cache. */
export class Resources<Item extends ArmResource> {
  readonly #calls: ResourceCalls<Item>;
  readonly #options: ResourceOptions;
  readonly #groups = new Map<string, ResourceCache<Item>>();
  readonly #missing = new Set<string>();
  /** Of resources that are about to be created. */
  readonly #ahead: ReadsAhead<Item | undefined>;

  constructor(calls: ResourceCalls<Item>, options: ResourceOptions) {
    this.#calls = calls;
    this.#options = options;
    this.#ahead = new ReadsAhead({ clock: options.clock, maxAgeMs: aheadMs, read: (id) => this.read(id) });
  }

  /** All resources of the group; empty if the group does not exist. */
  all(resourceGroup: string): Promise<readonly Item[]> {
    return this.#group(resourceGroup).all();
  }

  /** True when the last list of the group found that the group itself does not exist. */
  isMissing(resourceGroup: string): boolean {
    return this.#missing.has(resourceGroup.toLowerCase());
  }

  /** Maximum age of a list. */
  get ttlMs(): number {
    return this.#options.ttlMs;
  }

  /** One resource, past the cache, which the reply updates. */
  async read(id: string): Promise<Item | undefined> {
    const { group, name } = placeOf(id);
    const found = await unlessAbsent(this.#calls.get(group, name));
    const current = this.#group(group).current(id, found);
    if (current === undefined) this.#group(group).remove(id);
    else this.#group(group).store(current);
    return current;
  }

  /**
   * Writes with the body's etag as `If-Match`, and waits for the operation to end. A body without an etag creates the
   * resource: no list proves that there is none, and ARM leaves it to each resource provider whether `If-None-Match` has
   * an effect, so the resource is read first, unless it is known that it cannot exist (`isNew`).
   */
  async put(id: string, body: Item, { isNew = false }: { readonly isNew?: boolean } = {}): Promise<Item> {
    const { group, name } = placeOf(id);
    if (body.etag === undefined && !isNew && (await this.#ahead.take(id)) !== undefined)
      throw new OutdatedError(`${this.#calls.noun} ${id} exists already`);
    const headers = ifMatch(body.etag);
    const before = body.etag === undefined ? undefined : this.#group(group).last(id);
    const written = await this.#write("write", id, async (options) => {
      if (body.etag === before?.etag) describeWrite(options.abortSignal, { before, after: body });
      const put = this.#calls.put(group, name, body, { ...options, requestOptions: { headers } });
      return await this.#newerThan(body, put, id, options.abortSignal);
    });
    this.#group(group).written(written);
    return written;
  }

  /**
   * The result of a write. The read at the end of its operation may lag behind and show nothing, or the version that was
   * replaced: a plan based on that takes the write for undone, and leaves what it has added. A write that changes nothing,
   * such as the repetition of a failed one, may keep the version.
   */
  async #newerThan(body: Item, put: PromiseLike<Item>, id: string, signal: AbortSignal): Promise<Item> {
    const { clock } = this.#options;
    const { group, name } = placeOf(id);
    let shown = await resultOf(put);
    const untilMs = clock.monotonic() + lagMs;
    const isLagging = (one: Item | ArmError): boolean =>
      one instanceof ArmError || (body.etag !== undefined && one.etag === body.etag && !isDeepStrictEqual(one, body));
    for (let pauseMs = 500; isLagging(shown) && clock.monotonic() < untilMs; pauseMs *= 2) {
      await clock.sleep(pauseMs, signal);
      signal.throwIfAborted();
      shown = await resultOf(this.#calls.get(group, name));
    }
    if (shown instanceof ArmError) throw shown;
    return shown;
  }

  /** Starts the read that a write will need: of a resource that it creates, or of one that has changed since it was read. */
  prepare(id: string, { etag }: Item): void {
    if (etag === undefined) this.#ahead.begin(id);
    // A failure is that of the next reader.
    else this.all(placeOf(id).group).catch(() => undefined);
  }

  /**
   * Deletes a resource if `isAsPlanned` holds for a read made for the deletion, with the etag of that read. A read that
   * finds nothing may lag behind its creation: then the etag is the planned one. Succeeds when it does not exist.
   */
  async delete(id: string, planned: Item | undefined, isAsPlanned: (current: Item) => boolean): Promise<void> {
    const { group, name } = placeOf(id);
    const current = await this.read(id);
    if (current !== undefined && !isAsPlanned(current))
      throw new OutdatedError(`${this.#calls.noun} ${id} has changed`);
    const etag = (current ?? planned)?.etag;
    const headers: Record<string, string> = etag === undefined ? {} : { "If-Match": etag };
    await this.#write("deletion", id, (options) => {
      describeWrite(options.abortSignal, { before: current ?? planned, after: undefined });
      return this.#calls.delete(group, name, { ...options, requestOptions: { headers } });
    });
    this.#group(group).remove(id);
  }

  /** Makes the next reader get the resource by itself. */
  invalidate(id: string): void {
    this.#group(placeOf(id).group).invalidate(id);
  }

  /** Applies the effect of another resource's write on this one, without a read. */
  store(item: Item): void {
    this.#group(placeOf(item.id ?? "").group).store(item);
  }

  /** Makes the next reader of each resource group list again. */
  forget(): void {
    for (const group of this.#groups.values()) group.forget();
  }

  /** A failed write may have been applied nonetheless: its resource is read again. */
  async #write<T>(what: string, id: string, send: (options: WriteOptions) => PromiseLike<T>): Promise<T> {
    const { signal } = this.#options;
    try {
      return await withOperationLimit(`${what} of ${this.#calls.noun} ${id}`, signal, (abortSignal, onResponse) =>
        send({ abortSignal, onResponse, requestOptions: { headers: {} } }),
      );
    } catch (error) {
      this.invalidate(id);
      throw error;
    }
  }

  #group(name: string): ResourceCache<Item> {
    const key = name.toLowerCase();
    const cache = this.#groups.get(key) ?? this.#cacheOf(name);
    this.#groups.set(key, cache);
    return cache;
  }

  async #list(resourceGroup: string): Promise<readonly Item[]> {
    const group = resourceGroup.toLowerCase();
    try {
      const items = await Array.fromAsync(this.#calls.list(resourceGroup));
      this.#missing.delete(group);
      return items;
    } catch (error) {
      if (!isAbsent(error)) throw error;
      if (error instanceof ArmError && error.code === "ResourceGroupNotFound") this.#missing.add(group);
      return [];
    }
  }

  #cacheOf(resourceGroup: string): ResourceCache<Item> {
    const { clock, ttlMs } = this.#options;
    return new ResourceCache({
      clock,
      ttlMs,
      list: () => this.#list(resourceGroup),
      get: (id) => this.#calls.get(resourceGroup, placeOf(id).name),
    });
  }
}

/** The result of a write, or the error of the read that does not find it. */
async function resultOf<Item>(put: PromiseLike<Item>): Promise<Item | ArmError> {
  try {
    return await put;
  } catch (error) {
    if (error instanceof ArmError && error.method === "GET" && error.code === "ResourceNotFound") return error;
    throw error;
  }
}

/** The precondition of a write: the state that it was planned on, or that there is none. */
export const ifMatch = (etag: string | undefined): Record<string, string> =>
  etag === undefined ? { "If-None-Match": "*" } : { "If-Match": etag };

/** Resource group and name of a resource. Throws for an id of another form. */
export function placeOf(id: string): { readonly group: string; readonly name: string } {
  const path = parseArmPath(id);
  const name = path?.names[0];
  if (path?.resourceGroup === undefined || name === undefined)
    throw new CodedError("InvalidResourceID", `${JSON.stringify(id)} is not the id of a resource in a resource group`);
  return { group: path.resourceGroup, name };
}
