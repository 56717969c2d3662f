import { type ObjectMeta, timestamp } from "cloud-controller-host/sdk";

import {
  alreadyExists,
  badRequest,
  conflict,
  invalid,
  modified,
  notFound,
  type Problem,
  StatusError,
} from "../access/status.ts";
import { type ApiObject, equal, isObject, type Json, type JsonObject, objectAt, textAt, without } from "../json.ts";
import { assertDeletable } from "../kinds/namespace.ts";
import { applyConfiguration, type ManagedFields, ownersAfterWrite, writablePart } from "../patch/apply.ts";
import type { Resource, WriteContext } from "../resource.ts";
import { normalize } from "../schema/normalize.ts";
import type { Collection } from "../store/collection.ts";
import { Stored, storeKey } from "../store/stored.ts";
import { invalidValue, problemsOf } from "../validation.ts";
import { apiObject, carriedMetadata, newMetadata, withGeneration } from "./metadata.ts";

/** Namespace and name of an object; the namespace is empty for a cluster-scoped kind. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
}

export interface WriteOptions {
  readonly subresource?: "status" | "finalize" | undefined;
  /** The object comes from a patch: a uid in it is a value to be checked, not a precondition. */
  readonly patch?: boolean;
  /** Checks everything and writes nothing. */
  readonly dryRun?: boolean;
  /** Treatment of unknown fields. Default `Ignore`. */
  readonly fieldValidation?: "Ignore" | "Warn" | "Strict";
  readonly manager?: string;
  /** The managed fields after this write; computed from the write when absent. */
  readonly managedFields?: ManagedFields;
  /** Called for each warning to the client. */
  readonly warn?: (text: string) => void;
}

export interface Preconditions {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
}

export interface CreateOptions extends WriteOptions {
  /** Stores the given status and uid, for seeds; otherwise the kind decides on the status. */
  readonly keepStatus?: boolean;
}

/** The writes of one kind, with the rules that the API server has for them. All of it happens in one step. */
export class Registry {
  readonly resource: Resource;
  readonly collection: Collection;
  readonly #world: WriteContext;

  constructor(resource: Resource, collection: Collection, world: WriteContext) {
    this.resource = resource;
    this.collection = collection;
    this.#world = world;
  }

  get({ namespace, name }: Place): Stored {
    const stored = this.collection.get(storeKey(namespace, name));
    if (stored === undefined) throw notFound(this.resource, name);
    return stored;
  }

  find({ namespace, name }: Place): Stored | undefined {
    return this.collection.get(storeKey(namespace, name));
  }

  create(namespace: string, sent: JsonObject, options: CreateOptions = {}): Stored {
    const { resource } = this;
    const object = this.#read(sent, options);
    this.#assertNamespace(object.metadata, namespace);
    if (resource.namespaced) this.#world.namespaces.assertOpen(namespace, resource, object.metadata.name ?? "");
    if (object.metadata.resourceVersion)
      throw new StatusError(500, "", "resourceVersion should not be set on objects to be created");
    const seed = options.keepStatus ? object.metadata : undefined;
    const metadata = {
      ...newMetadata(resource, object.metadata, namespace, seed),
      ...ownersField(options.managedFields),
    };
    const kept = options.keepStatus || resource.statusOnCreate || !resource.status;
    const { status: _status, ...withoutStatus }: JsonObject = object;
    const prepared = this.#prepare(apiObject(resource, { ...(kept ? object : withoutStatus), metadata }), undefined);
    const key = storeKey(namespace, metadata.name ?? "");
    this.#assertValid(prepared, undefined);
    if (this.collection.get(key) !== undefined) throw alreadyExists(resource, metadata.name ?? "");
    return options.dryRun ? new Stored(prepared, 0) : this.collection.put(prepared);
  }

  /** Replaces an object with the result of `change`, which receives the current state. */
  update(place: Place, change: (before: ApiObject) => Json, options: WriteOptions = {}): Stored {
    const { resource } = this;
    const stored = this.get(place);
    const before = stored.object;
    const sent = change(before);
    if (!isObject(sent)) throw badRequest("the object must be a JSON object");
    const object = this.#read(sent, options);
    this.#assertPlace(object.metadata, place);
    this.#assertUnchanged(object.metadata, stored, options);
    const isStatusOnly = options.subresource === "status" && resource.custom;
    const metadata = carriedMetadata(resource, isStatusOnly ? before.metadata : object.metadata, before.metadata);
    const merged = this.#partOf({ ...object, metadata }, before, options.subresource);
    const prepared = this.#withOwners(withGeneration(resource, this.#prepare(merged, before), before), before, options);
    this.#assertValid(prepared, before);
    if (equal(prepared, before)) return stored;
    if (options.dryRun) return new Stored(prepared, stored.revision);
    if (!prepared.metadata.deletionTimestamp || !this.#isFinal(prepared)) return this.collection.put(prepared);
    this.collection.remove(stored, prepared);
    return new Stored(prepared, stored.revision);
  }

  /** Server-side apply: creates the object or merges the configuration into it. `created` tells which. */
  apply(
    place: Place,
    config: JsonObject,
    options: WriteOptions & { readonly manager: string; readonly force: boolean },
  ): { readonly stored: Stored; readonly created: boolean } {
    const before = this.find(place)?.object;
    const { manager, force, subresource } = options;
    if (objectAt(config, "metadata").managedFields !== undefined)
      throw badRequest("metadata.managedFields must be nil");
    const { apiVersion } = apiObject(this.resource, {});
    const applied = writablePart(config, this.resource, subresource);
    const { object, managedFields } = applyConfiguration(before, applied, this.resource.schema, {
      manager,
      force,
      subresource,
      apiVersion,
      time: timestamp(Date.now()),
    });
    this.#assertPlace(apiObject(this.resource, object).metadata, place);
    const write = { ...options, managedFields, patch: true };
    if (before === undefined) this.#assertCreatable(place, config, options);
    if (before !== undefined) return { stored: this.update(place, () => object, write), created: false };
    const metadata = without(objectAt(object, "metadata"), "resourceVersion");
    return { stored: this.create(place.namespace, { ...object, metadata }, write), created: true };
  }

  /** A status cannot be applied to an object that does not exist, nor a configuration for a certain object. */
  #assertCreatable({ name }: Place, config: JsonObject, { subresource }: WriteOptions): void {
    if (subresource !== undefined) throw notFound(this.resource, name);
    const uid = textAt(config, "metadata", "uid");
    if (!uid) return;
    const why = `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`;
    throw conflict(this.resource, name, why);
  }

  /** Deletes the object, or sets its deletionTimestamp while it has finalizers. */
  delete(place: Place, preconditions: Preconditions = {}, options: { readonly dryRun?: boolean } = {}): Deletion {
    const stored = this.get(place);
    assertDeletable(this.resource, stored.name);
    this.#assertPreconditions(preconditions, stored);
    if (this.#isFinal(stored.object)) {
      if (!options.dryRun) this.collection.remove(stored);
      return { gone: true, last: stored };
    }
    if (stored.object.metadata.deletionTimestamp || options.dryRun) return { gone: false, last: stored };
    const deletion = { deletionTimestamp: timestamp(Date.now()), deletionGracePeriodSeconds: 0 };
    const marked: ApiObject = { ...stored.object, metadata: { ...stored.object.metadata, ...deletion } };
    return { gone: false, last: this.collection.put(this.#prepare(marked, stored.object)) };
  }

  #isFinal(object: ApiObject): boolean {
    return this.resource.finalizers(object).length === 0;
  }

  /** The object from the client, validated against the schema and pruned. */
  #read(sent: JsonObject, { fieldValidation = "Ignore", warn }: WriteOptions): ApiObject {
    const { resource } = this;
    const expected = apiObject(resource, {});
    for (const key of ["apiVersion", "kind"] as const) {
      const value = sent[key];
      if (value !== undefined && value !== "" && value !== expected[key])
        throw badRequest(
          `the ${key} in the data (${JSON.stringify(value)}) does not match the expected ${key} (${expected[key]})`,
        );
    }
    const unknown = { fields: [] };
    const kept = normalize(resource.schema, sent, unknown);
    const problems = unknown.fields.map((field) => `unknown field "${String(field)}"`);
    if (problems.length > 0 && fieldValidation === "Strict")
      throw badRequest(
        `${resource.kind} in version "${resource.version}" cannot be handled as a ${resource.kind}: strict decoding error: ${problems.join(", ")}`,
      );
    if (fieldValidation === "Warn") for (const problem of problems) warn?.(problem);
    return apiObject(resource, isObject(kept) ? kept : {});
  }

  /** `before` with the part of `next` that the request's subresource covers. */
  #partOf(next: ApiObject, before: ApiObject, subresource: WriteOptions["subresource"]): ApiObject {
    const { resource } = this;
    if (!resource.status) return next;
    const { status: nextStatus, ...nextRest }: JsonObject = next;
    const { status: beforeStatus, ...beforeRest }: JsonObject = before;
    const { metadata } = next;
    if (subresource === "status")
      return apiObject(resource, withField({ ...beforeRest, metadata }, "status", nextStatus));
    const own = resource.finalize && subresource === undefined ? { ...beforeRest, metadata } : nextRest;
    return apiObject(resource, withField(own, "status", beforeStatus));
  }

  #prepare(next: ApiObject, before: ApiObject | undefined): ApiObject {
    const own = this.resource.prepare(next, before, this.#world);
    if (own === next && before !== undefined) return next;
    const prepared = apiObject(this.resource, own);
    const kept = normalize(this.resource.schema, prepared, { fields: [] });
    return isObject(kept) ? apiObject(this.resource, kept) : prepared;
  }

  #withOwners(
    next: ApiObject,
    before: ApiObject,
    { managedFields, manager = "unknown", subresource }: WriteOptions,
  ): ApiObject {
    const writer = { manager, subresource, time: timestamp(Date.now()) };
    const owners = managedFields ?? ownersAfterWrite(before, next, this.resource.schema, writer);
    if (owners === undefined && before.metadata.managedFields === undefined) return next;
    const { managedFields: _before, ...metadata } = next.metadata;
    return { ...next, metadata: { ...metadata, ...ownersField(owners) } };
  }

  #assertValid(next: ApiObject, before: ApiObject | undefined): void {
    const problems: readonly Problem[] = problemsOf(this.resource, next, before, this.#world);
    if (problems.length > 0) throw invalid(this.resource, next.metadata.name ?? "", problems);
  }

  #assertNamespace({ namespace }: ObjectMeta, expected: string): void {
    if (namespace !== undefined && namespace !== expected)
      throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
  }

  #assertPlace(metadata: ObjectMeta, { name, namespace }: Place): void {
    if (metadata.name !== name)
      throw badRequest(`the name of the object (${metadata.name ?? ""}) does not match the name on the URL (${name})`);
    this.#assertNamespace(metadata, namespace);
  }

  #assertUnchanged({ uid, resourceVersion }: ObjectMeta, stored: Stored, { patch }: WriteOptions): void {
    if (uid && !patch) this.#assertPreconditions({ uid }, stored);
    if (resourceVersion) {
      if (resourceVersion !== String(stored.revision)) throw modified(this.resource, stored.name);
    } else if (this.resource.conditionalUpdate) {
      const problem = invalidValue("metadata.resourceVersion", 0, "must be specified for an update");
      throw invalid(this.resource, stored.name, [problem]);
    }
  }

  #assertPreconditions({ uid, resourceVersion }: Preconditions, stored: Stored): void {
    const { uid: actual } = stored;
    if (uid !== undefined && uid !== actual)
      throw conflict(
        this.resource,
        stored.name,
        `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${actual}`,
      );
    if (resourceVersion !== undefined && resourceVersion !== String(stored.revision))
      throw conflict(
        this.resource,
        stored.name,
        `Precondition failed: ResourceVersion in precondition: ${resourceVersion}, ResourceVersion in object meta: ${stored.revision}`,
      );
  }
}

/** The result of a DELETE: `last` is the final state, or the state that waits for finalizers. */
export interface Deletion {
  readonly gone: boolean;
  readonly last: Stored;
}

const ownersField = (managedFields: ManagedFields | undefined): ObjectMeta =>
  managedFields === undefined || managedFields.length === 0 ? {} : { managedFields };

const withField = (object: JsonObject, key: string, value: Json | undefined): JsonObject =>
  value === undefined ? object : { ...object, [key]: value };
