import type { KubeObject, Lease } from "cloud-controller-host/sdk";

export interface Reply {
  readonly status: number;
  readonly reason: string;
  readonly body: unknown;
}

/** One change, as watches deliver it. */
export interface ClusterEvent {
  readonly version: number;
  readonly collection: string;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: KubeObject;
}

const leases = "leases";
const configMaps = "configmaps";
const apiVersions: Readonly<Record<string, string>> = { [leases]: "coordination.k8s.io/v1", [configMaps]: "v1" };
const objectKinds: Readonly<Record<string, string>> = { [leases]: "Lease", [configMaps]: "ConfigMap" };
const collectionPath = /^\/api(?:s\/[^/]+)?\/v1(?:\/namespaces\/[^/]+)?\/(leases|configmaps)(?:\/([^/]+))?$/;
/** So many changes can be watched from; a watch that is further behind gets 410. */
const historyLength = 60;

/** Leases and ConfigMaps with the API server's versions, optimistic locking and history, without a network. */
export class ClusterStore {
  readonly #objects = new Map<string, Map<string, KubeObject>>();
  readonly #history: ClusterEvent[] = [];
  readonly #changed: (event: ClusterEvent) => void;
  #version = 100;
  /** As the Lease was last written. */
  #holder = "";
  /** Versions of the ConfigMaps as the Lease was last written. */
  #atLeaseWrite = new Map<string, number>();
  readonly #atAcquisition = new Map<string, ReadonlyMap<string, number>>();

  constructor(changed: (event: ClusterEvent) => void) {
    this.#changed = changed;
  }

  get lease(): Lease | undefined {
    return this.#of(leases).get(leaseName);
  }

  /** Another client writes the Lease, or deletes it. */
  editLease(change: (lease: Lease | undefined) => Lease | undefined): void {
    const after = change(this.lease);
    if (after === undefined) this.#delete(leases, leaseName);
    else this.#put(leases, after);
  }

  /** Another client writes a ConfigMap. */
  touch(name: string): void {
    this.#put(configMaps, { metadata: { namespace: "default", name } });
  }

  /**
   * What a cache must show for a controller of this holder to start: all that controllers had written as it acquired the
   * lease, since no other may write any more, and what others had written before the lease was free.
   */
  requiredOf(holder: string): ReadonlyMap<string, number> {
    return this.#atAcquisition.get(holder) ?? new Map();
  }

  /** Carries out a request other than a watch. */
  handle(method: string, path: string, body: KubeObject | undefined): Reply {
    const [, collection, name] = collectionPath.exec(path) ?? [];
    if (collection === undefined) return path.startsWith("/apis/never") ? notFound : ok(body ?? {});
    if (name === undefined && method === "GET") return ok(this.#list(collection));
    const key = name ?? body?.metadata?.name ?? "";
    const known = this.#of(collection).get(key);
    if (method === "GET") return known === undefined ? notFound : ok(known);
    if (method === "POST" && known !== undefined) return { status: 409, reason: "AlreadyExists", body: {} };
    if (collection === leases && method === "PUT") {
      if (known === undefined) return notFound;
      if (body?.metadata?.resourceVersion !== known.metadata?.resourceVersion) return conflict;
    }
    return ok(this.#put(collection, body ?? {}));
  }

  /** The changes of a collection after a version; undefined when they are no longer known. */
  since(path: string, version: number): readonly ClusterEvent[] | undefined {
    const oldest = this.#history[0]?.version ?? 0;
    if (version < oldest - 1) return undefined;
    const collection = this.collectionOf(path);
    return this.#history.filter((event) => event.collection === collection && event.version > version);
  }

  collectionOf(path: string): string | undefined {
    return collectionPath.exec(path)?.[1];
  }

  #of(collection: string): Map<string, KubeObject> {
    const objects = this.#objects.get(collection) ?? new Map<string, KubeObject>();
    this.#objects.set(collection, objects);
    return objects;
  }

  #list(collection: string): unknown {
    const metadata = { resourceVersion: String(this.#version) };
    const kind = `${objectKinds[collection]}List`;
    return { apiVersion: apiVersions[collection], kind, metadata, items: [...this.#of(collection).values()] };
  }

  #put(collection: string, object: KubeObject): KubeObject {
    const name = object.metadata?.name ?? "";
    const before = this.#of(collection).get(name);
    this.#version += 1;
    const uid = before?.metadata?.uid ?? `u${this.#version}`;
    const metadata = { uid, ...object.metadata, resourceVersion: String(this.#version) };
    const [apiVersion, kind] = [apiVersions[collection], objectKinds[collection]];
    const after: KubeObject = JSON.parse(JSON.stringify({ ...object, metadata, apiVersion, kind }));
    if (collection === leases) this.#noteLease(after, before === undefined);
    this.#of(collection).set(name, after);
    this.#record({
      collection,
      type: before === undefined ? "ADDED" : "MODIFIED",
      object: after,
      version: this.#version,
    });
    return after;
  }

  #delete(collection: string, name: string): void {
    const before = this.#of(collection).get(name);
    if (before === undefined) return;
    this.#version += 1;
    this.#of(collection).delete(name);
    const metadata = { ...before.metadata, resourceVersion: String(this.#version) };
    this.#record({ collection, type: "DELETED", object: { ...before, metadata }, version: this.#version });
  }

  #record(event: ClusterEvent): void {
    this.#history.push(event);
    if (this.#history.length > historyLength) this.#history.shift();
    this.#changed(event);
  }

  /**
   * A holder that creates a deleted Lease again has not acquired it from another, even if another client had stolen it
   * before: a thief has not waited until the Lease expired.
   */
  #noteLease({ spec }: Lease, isNew: boolean): void {
    const holder = spec?.holderIdentity ?? "";
    const now = new Map([...this.#of(configMaps)].map(([name, object]) => [name, versionOf(object)] as const));
    const isKept = isNew && this.#atAcquisition.has(holder);
    if (holder !== "" && holder !== this.#holder && !isKept) {
      const written = [...now].filter(([name]) => name.endsWith("-controller"));
      this.#atAcquisition.set(holder, new Map([...this.#atLeaseWrite, ...written]));
    }
    this.#atLeaseWrite = now;
    this.#holder = holder;
  }
}

export const versionOf = ({ metadata }: KubeObject): number => Number(metadata?.resourceVersion ?? 0);

const leaseName = "cloud-controller-manager";
const ok = (body: unknown): Reply => ({ status: 200, reason: "", body });
const notFound: Reply = { status: 404, reason: "NotFound", body: {} };
export const conflict: Reply = { status: 409, reason: "Conflict", body: {} };
