import type { KindRef, KubeObject, ObjectMeta } from "./kinds.ts";

/** Names one object; `namespace` only where the kind has namespaces. */
export interface ObjectName {
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** Options of every request. Aborting `signal` rejects the call. */
export interface CallOptions {
  readonly signal?: AbortSignal;
}

/** Selects and trims the objects of a list. */
export interface ListOptions<T extends KubeObject = KubeObject> extends CallOptions {
  /** Called once for each object as soon as it is read: what it deletes from the object is not held until the end. */
  readonly trim?: (object: T) => void;
  readonly namespace?: string;
  /** `a=b,c!=d,e in (f,g)` */
  readonly labelSelector?: string;
  /** `metadata.name=x` */
  readonly fieldSelector?: string;
  /** The objects have no spec and no status (`PartialObjectMetadata`). */
  readonly metadataOnly?: boolean;
}

/** Options of a read of one object. */
export interface GetOptions extends CallOptions {
  /** `cached` lets the API server answer from its watch cache; the default reads the latest state. */
  readonly read?: "latest" | "cached";
}

/** Options of a create or an update; `subresource` writes the status alone. */
export interface WriteOptions extends CallOptions {
  readonly subresource?: "status";
}

/** Options of a patch. */
export interface PatchOptions extends WriteOptions {
  /** `metadata`: the server returns no spec and no status (`PartialObjectMetadata`). The default is the whole object. */
  readonly response?: "object" | "metadata";
  /** Attributes the change to this name. Default: the client name's program. upstream: `client.FieldOwner`. */
  readonly fieldManager?: string;
  /** For `apply`: default true, take over fields of other managers; false makes them a 409. upstream: `client.ForceOwnership`. */
  readonly force?: boolean;
}

/** Selects the objects of a collection; without a selector all of the namespace, which a namespaced kind needs, or of the cluster. */
export type CollectionOptions = CallOptions & Pick<ListOptions, "namespace" | "labelSelector" | "fieldSelector">;

/** One operation of an RFC 6902 patch. A `test` for `null` also passes where the path does not exist. */
export type JSONPatchOperation =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

/** Conditions of a delete, and what happens to dependents. */
export interface DeleteOptions extends CallOptions {
  /** Fail with 409 if the object was recreated under the same name. */
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Handling of the objects that it owns; the default is the API server's for the kind. */
  readonly propagationPolicy?: "Foreground" | "Background" | "Orphan";
}

/**
 * The format of a patch body. `strategic` knows the merge keys of built-in kinds; `json` is RFC 6902. `apply` creates an
 * object that does not exist, for which the permission is `create` as well.
 */
export type PatchType = "strategic" | "merge" | "json" | "apply";

/**
 * Requests to the API server under one client name. All methods reject with `ApiError` for an error reply, with
 * `FencedError` for a write after the generation's fence, and with the signal's reason when it aborts.
 */
export interface KubeClient {
  get<T extends KubeObject>(kind: KindRef<T>, name: ObjectName, options?: GetOptions): Promise<T>;
  list<T extends KubeObject>(kind: KindRef<T>, options?: ListOptions<T>): Promise<readonly T[]>;
  create<T extends KubeObject>(kind: KindRef<T>, object: T, options?: CallOptions): Promise<T>;
  /** Writes the whole object; its `resourceVersion`, where set, guards against lost updates (409). */
  replace<T extends KubeObject>(kind: KindRef<T>, object: T, options?: WriteOptions): Promise<T>;
  patch<T extends KubeObject>(
    kind: KindRef<T>,
    name: ObjectName,
    type: PatchType,
    body: unknown,
    options?: PatchOptions,
  ): Promise<T>;
  delete<T extends KubeObject>(kind: KindRef<T>, name: ObjectName, options?: DeleteOptions): Promise<void>;
  /** Deletes all selected objects by one request; the verb is `deletecollection`. upstream: `client.DeleteAllOf`. */
  deleteCollection(kind: KindRef, options: CollectionOptions): Promise<void>;
  /**
   * Deletes a Pod if its PodDisruptionBudget allows; otherwise it rejects with a 429, to be retried. The permission is `create`
   * on `pods/eviction`. upstream: `policyv1.Eviction`.
   */
  evict(pod: Required<ObjectName>, options?: DeleteOptions): Promise<void>;
}

/**
 * The objects of an informer by key, `namespace/name` or `name`: read-only, and as current as the watch. They have no
 * `metadata.managedFields`, and Nodes no `status.images`. upstream: `cache.Store`.
 */
export interface Store<T extends KubeObject> {
  get(key: string): T | undefined;
  /** A snapshot of all objects. The array is never modified, and is the same one until something changes. */
  list(): readonly T[];
  readonly size: number;
}

/** Called one after the other, in the order of the changes. Handlers enqueue; they do no work. */
export interface InformerHandler<T extends KubeObject> {
  added?(object: T): void;
  /** A resync is delivered as an update whose old and new object have the same `resourceVersion`. */
  updated?(before: T, after: T): void;
  deleted?(last: T): void;
}

/** A share of one watch. It ends with the generation; the watch may continue for the next one. */
export interface Informer<T extends KubeObject> {
  readonly store: Store<T>;
  /** Adds a handler; it receives every object already in the store. `resyncMs` is the period of resyncs. */
  handle(handler: InformerHandler<T>, options?: { readonly resyncMs?: number }): { remove(): void };
  hasSynced(): boolean;
}

/** The objects that an informer watches; default all of the kind. */
export interface InformerOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** The objects have no spec and no status: for large objects of which names and labels are enough. upstream: `builder.OnlyMetadata`. */
  readonly metadataOnly?: boolean;
}

/** Informers of one generation. upstream: `informers.SharedInformerFactory`. */
export interface Informers {
  /** The informer for a kind, shared between equal kinds and selectors. */
  of<T extends KubeObject>(kind: KindRef<T>, options?: InformerOptions): Informer<T>;
}

/** A rate limit for retries; with several, the longest delay applies. */
export type RateLimit =
  | { readonly type: "exponential"; readonly baseMs: number; readonly maxMs: number }
  | { readonly type: "bucket"; readonly perSecond: number; readonly burst: number; readonly maxDelayMs?: number };

/** Options of a work queue. */
export interface WorkQueueOptions {
  /** Default: exponential 5 ms … 1000 s, and a bucket of 10/s with a burst of 100 (client-go's controller default). */
  readonly limits?: readonly RateLimit[];
}

/** Options of `process`. */
export interface ProcessOptions {
  /** Number of keys processed concurrently, at least 1; one key is never processed twice at the same time. */
  readonly workers: number;
  /** When it aborts, keys that are processing are finished and no further key is taken. */
  readonly signal: AbortSignal;
  /** Throwing re-adds the key with the rate limit, or after the delay of a `RetryAfterError` in the chain of causes. Returning forgets it. */
  sync(key: string): Promise<void>;
  /** Called for each error before the key is re-added. Default: an error line `error syncing '<key>': …, requeuing`. */
  failed?(key: string, error: unknown): void;
}

/** client-go's work queue: a set of dirty keys in FIFO order; a key is processed by one worker at a time. */
export interface WorkQueue {
  readonly name: string;
  readonly length: number;
  add(key: string): void;
  addAfter(key: string, delayMs: number): void;
  addRateLimited(key: string): void;
  forget(key: string): void;
  /** Number of rate-limited retries since the key was last forgotten. */
  requeues(key: string): number;
  /** Resolves with the next key, or undefined once the queue is shut down and empty. Follow it with `done`. */
  get(): Promise<string | undefined>;
  done(key: string): void;
  /** Accepts no more keys; queued ones are still returned by `get`. */
  shutDown(): void;
  /** Processes the queue until the signal aborts; resolves when no key is processing. */
  process(options: ProcessOptions): Promise<void>;
}

/** The object that an event refers to. */
export interface EventSubject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: Pick<ObjectMeta, "name" | "namespace" | "uid" | "resourceVersion">;
}

/** Records events under the controller's source name. Never blocks and never throws. */
export interface EventRecorder {
  event(
    subject: EventSubject,
    type: "Normal" | "Warning",
    reason: string,
    message: string,
    options?: EventOptions,
  ): void;
}

/** Options of an event. */
export interface EventOptions {
  /** The caller logs the same with its error, in one line: the event is not logged again. Default: logged. */
  readonly logged?: "by caller";
}
