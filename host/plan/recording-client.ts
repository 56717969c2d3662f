import {
  ApiError,
  type CallOptions,
  type CollectionOptions,
  type GetOptions,
  isNotFound,
  isObject,
  keyOf,
  type KindRef,
  kinds,
  type KubeClient,
  type KubeObject,
  type ListOptions,
  type ObjectName,
  parseLabelSelector,
  type PatchType,
} from "cloud-controller-host/sdk";

import { settingsOfObject } from "../changes/objects.ts";
import { type Document, patched } from "../changes/patches.ts";
import { objectOf } from "../kube/connection/wire.ts";
import type { InformerPool } from "../kube/informers/pool.ts";
import type { Activity } from "./activity.ts";
import { type RecordedWrites, withoutTimes } from "./recorded.ts";
import type { WrittenObjects } from "./written-objects.ts";

interface Parts {
  readonly writes: RecordedWrites;
  readonly written: WrittenObjects;
  readonly activity: Activity;
}

/** A client that sends reads, and records writes in place of sending them. Its reads show what was recorded. */
export class RecordingClient implements KubeClient {
  readonly #real: KubeClient;
  readonly #parts: Parts;
  readonly #watched: Pick<InformerPool, "stored">;

  constructor(real: KubeClient, parts: Parts, watched: Pick<InformerPool, "stored">) {
    this.#real = real;
    this.#parts = parts;
    this.#watched = watched;
  }

  async get<T extends KubeObject>(kind: KindRef<T>, name: ObjectName, options?: GetOptions): Promise<T> {
    return this.#planned(kind, name) ?? this.#parts.activity.track(() => this.#real.get(kind, name, options));
  }

  /** Objects that the plan has created are in no list with a selector of fields, which only the API server evaluates. */
  async list<T extends KubeObject>(kind: KindRef<T>, options: ListOptions<T> = {}): Promise<readonly T[]> {
    const listed = await this.#parts.activity.track(() => this.#real.list(kind, options));
    const { namespace, labelSelector = "", fieldSelector } = options;
    const matches = parseLabelSelector(labelSelector);
    const isSelected = ({ metadata }: T): boolean =>
      (namespace === undefined || metadata?.namespace === namespace) && matches(metadata?.labels ?? {});
    const written = this.#parts.written.all(kind).filter(isSelected);
    const known = new Set(listed.map(keyOf));
    const unwritten = listed.filter((object) => this.#parts.written.get(kind, keyOf(object)) === undefined);
    return [...unwritten, ...written.filter((object) => fieldSelector === undefined || known.has(keyOf(object)))];
  }

  /** Rejects for an object that exists, as the API server would: creating without a look before is how some ensure one. */
  async create<T extends KubeObject>(kind: KindRef<T>, object: T, options: CallOptions = {}): Promise<T> {
    const name = nameOf(object);
    if (name.name !== "") {
      const read = await this.#readIfAllowed(kind, name, options);
      // Another write of the plan may have come in between.
      const existing = this.#parts.written.get(kind, keyIn(kind, name)) ?? read;
      if (existing !== undefined && existing !== "deleted")
        throw new ApiError(409, "AlreadyExists", `${kind.plural} "${name.name}" already exists`);
    }
    return this.#record(kind, undefined, object);
  }

  async replace<T extends KubeObject>(kind: KindRef<T>, object: T, options: CallOptions = {}): Promise<T> {
    return this.#change(kind, nameOf(object), options, () => object);
  }

  async patch<T extends KubeObject>(
    kind: KindRef<T>,
    name: ObjectName,
    type: PatchType,
    body: unknown,
    options: CallOptions = {},
  ): Promise<T> {
    return this.#change(kind, name, options, (object) => objectOf(kind, patched(documentOf(object), type, body)));
  }

  async delete<T extends KubeObject>(kind: KindRef<T>, name: ObjectName, options: CallOptions = {}): Promise<void> {
    const before = await this.#read(kind, name, options);
    this.#parts.written.set(kind, before, undefined);
    this.#add(kind, before, undefined);
  }

  async deleteCollection(kind: KindRef, options: CollectionOptions): Promise<void> {
    for (const { metadata } of await this.list(kind, options))
      await this.delete(kind, { name: metadata?.name ?? "", namespace: metadata?.namespace }, options);
  }

  /** Planned as a deletion, although a disruption budget may refuse it later. */
  evict(pod: Required<ObjectName>, options: CallOptions = {}): Promise<void> {
    return this.delete(kinds.Pod, pod, options);
  }

  /** Changes the object as it is once it has been read: another write of the plan may have come in between. */
  async #change<T extends KubeObject>(
    kind: KindRef<T>,
    name: ObjectName,
    options: CallOptions,
    change: (object: T) => T,
  ): Promise<T> {
    const read = await this.#read(kind, name, options);
    const before = this.#planned(kind, name) ?? read;
    return this.#record(kind, before, change(before));
  }

  /**
   * The object as it is watched, without a request: a late answer to one would let another key overtake this one, and a
   * plan would depend on it. The user may also be allowed to write an object but not to get it.
   */
  async #read<T extends KubeObject>(kind: KindRef<T>, name: ObjectName, options: CallOptions): Promise<T> {
    const known = this.#planned(kind, name) ?? this.#watched.stored(kind)?.get(keyIn(kind, name));
    return known ?? this.get(kind, name, options);
  }

  /** Undefined for an object that does not exist, or that the user may not get. */
  async #readIfAllowed<T extends KubeObject>(
    kind: KindRef<T>,
    name: ObjectName,
    options: CallOptions,
  ): Promise<T | undefined> {
    try {
      return await this.#read(kind, name, options);
    } catch (error) {
      if (isNotFound(error) || (error instanceof ApiError && error.status === 403)) return undefined;
      throw error;
    }
  }

  #planned<T extends KubeObject>(kind: KindRef<T>, name: ObjectName): T | undefined {
    const key = keyIn(kind, name);
    const planned = this.#parts.written.get(kind, key);
    if (planned === "deleted") throw new ApiError(404, "NotFound", `${kind.kind} ${key} is deleted by the plan`);
    return planned;
  }

  /** An object that was being deleted is gone with its last finalizer. */
  #record<T extends KubeObject>(kind: KindRef<T>, before: T | undefined, after: T): T {
    const { deletionTimestamp, finalizers = [] } = after.metadata ?? {};
    const left = deletionTimestamp !== undefined && finalizers.length === 0 ? undefined : after;
    this.#add(kind, before, left);
    return this.#parts.written.set(kind, before, left) ?? after;
  }

  /** Leases coordinate writers, of which a plan is none. */
  #add(kind: KindRef, before: KubeObject | undefined, after: KubeObject | undefined): void {
    if (kind.plural === kinds.Lease.plural && kind.group === kinds.Lease.group) return;
    const resource = `${kind.kind} ${keyOf(after ?? before ?? {})}`;
    this.#parts.writes.add({
      system: "kubernetes",
      resource,
      title: resource,
      before: before && withoutTimes(settingsOfObject(documentOf(before))),
      after: after && withoutTimes(settingsOfObject(documentOf(after))),
      interruptions: [],
    });
  }
}

const keyIn = ({ namespaced }: KindRef, { name, namespace }: ObjectName): string =>
  keyOf({ metadata: { name, ...(namespaced && { namespace: namespace ?? "" }) } });

const nameOf = (object: KubeObject): ObjectName => ({
  name: object.metadata?.name ?? "",
  namespace: object.metadata?.namespace,
});

const documentOf = (object: unknown): Document => (isObject(object) ? object : {});
