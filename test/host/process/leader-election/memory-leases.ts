import {
  ApiError,
  apiVersionOf,
  keyOf,
  type KindRef,
  kinds,
  type KubeClient,
  type KubeObject,
  type Lease,
} from "cloud-controller-host/sdk";

/** Called before each request; what it throws is the answer, and what it waits for delays it. */
export type Interceptor = (verb: string, body?: Lease) => void | Promise<void>;

export interface MemoryLeases {
  readonly client: KubeClient;
  /** Another client of the same leases, with a connection of its own. */
  clientOver(before: Interceptor): KubeClient;
  /** Verbs of the requests so far. */
  readonly calls: string[];
  before: Interceptor;
  get(name?: string): Lease | undefined;
  /** Writes past the client, as another writer would. */
  put(spec: NonNullable<Lease["spec"]>, metadata?: Lease["metadata"]): void;
  remove(name?: string): void;
}

const defaultName = "cloud-controller-manager";

/** Leases with the API server's optimistic locking, in the process. */
export function memoryLeases(): MemoryLeases {
  const stored = new Map<string, string>();
  let version = 0;
  const key = (name = defaultName): string => `kube-system/${name}`;
  const read = <T extends KubeObject>(_: KindRef<T>, at: string): T => {
    const text = stored.get(at);
    if (text === undefined) throw new ApiError(404, "NotFound", `leases "${at}" not found`);
    return JSON.parse(text);
  };
  const store = <T extends KubeObject>(kind: KindRef<T>, object: T): T => {
    const metadata = { uid: "u", ...object.metadata, resourceVersion: String(++version) };
    stored.set(keyOf(object), JSON.stringify({ ...object, apiVersion: apiVersionOf(kind), kind: kind.kind, metadata }));
    return read(kind, keyOf(object));
  };
  const unused = (): Promise<never> => Promise.reject(new Error("an elector needs no such request"));
  const clientOver = (before: Interceptor): KubeClient => {
    const begin = async (verb: string, body?: KubeObject): Promise<void> => {
      leases.calls.push(verb);
      await before(verb, body === undefined ? undefined : JSON.parse(JSON.stringify(body)));
    };
    return {
      async get(kind, { name, namespace }) {
        await begin("get");
        return read(kind, `${namespace}/${name}`);
      },
      async create(kind, object) {
        await begin("create", object);
        if (stored.has(keyOf(object))) throw new ApiError(409, "AlreadyExists", "it is there already");
        return store(kind, object);
      },
      async replace(kind, object) {
        await begin("update", object);
        const current = read(kind, keyOf(object));
        if (object.metadata?.resourceVersion !== current.metadata?.resourceVersion)
          throw new ApiError(409, "Conflict", "the object has been modified");
        return store(kind, object);
      },
      list: unused,
      patch: unused,
      delete: unused,
      deleteCollection: unused,
      evict: unused,
    };
  };
  const leases: MemoryLeases = {
    calls: [],
    before: () => undefined,
    client: clientOver((verb, body) => leases.before(verb, body)),
    clientOver,
    get: (name) => {
      const text = stored.get(key(name));
      return text === undefined ? undefined : JSON.parse(text);
    },
    put: (spec, metadata = {}) =>
      void store(kinds.Lease, { metadata: { namespace: "kube-system", name: defaultName, ...metadata }, spec }),
    remove: (name) => void stored.delete(key(name)),
  };
  return leases;
}
