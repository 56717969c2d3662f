import {
  ApiError,
  type CloudContext,
  type CloudWrite,
  CodedError,
  type Condition,
  type EndpointSlice,
  FencedError,
  type Informer,
  type InformerHandler,
  type Informers,
  keyOf,
  type KindRef,
  kinds,
  type KubeClient,
  type KubeObject,
  type Node,
  type Service,
} from "cloud-controller-host/sdk";

import { systemClock } from "../../../../host/async/clock.ts";
import type { AzureLoadBalancers } from "../../../../plugins/azure-cloud/load-balancer/load-balancers.ts";
import type { SimulatorOptions } from "../../../../plugins/azure-cloud/simulator/simulator.ts";
import { instanceID, nodeOf, openWorld, type World } from "../world.ts";

/** One process that keeps load balancers; `crash` ends it with its requests in flight cut off. */
export interface Generation {
  readonly balancers: AzureLoadBalancers;
  readonly events: readonly string[];
  /** Why removals are held. */
  warnings(): readonly string[];
  /** Has the removal guard look at Services again. */
  recheck(keys: readonly string[]): void;
  crash(): void;
}

/** Services and nodes of a cluster, the Azure behind it, and processes that come and go. */
export interface Cluster extends AsyncDisposable {
  readonly world: World;
  /** By key. */
  readonly services: Map<string, Service>;
  readonly nodes: Node[];
  readonly slices: EndpointSlice[];
  readonly namespaces: KubeObject[];
  /** Names of objects that lists and watches lack although the API server has them. */
  readonly hidden: Set<string>;
  /** Called before each patch of a Service, which waits for them. */
  readonly patching: Set<() => Promise<void>>;
  /** The API server has another version of the Service, and watches show it. */
  change(service: Service): void;
  /** Watches show the node as deleted, which the API server may still have. */
  lose(node: Node): void;
  /** Watches show that it is there again. */
  restore(node: Node): void;
  /** The record of writes. */
  readonly records: CloudWrite[];
  /** Hashes of the removals that a person has confirmed. */
  readonly confirmed: Set<string>;
  /** Replaces the endpoints of a Service by one on each of the nodes, and tells the running process. */
  setEndpoints(service: Service, nodeNames: readonly string[]): void;
  start(
    changes?: Readonly<Record<string, unknown>>,
    clock?: CloudContext["clock"],
    own?: Partial<CloudContext>,
  ): Promise<Generation>;
  /** Ensures one Service as the service controller does, its status included. */
  ensure(generation: Generation, service: Service): Promise<void>;
  remove(generation: Generation, service: Service): Promise<void>;
  /** Changed resources by their last names, in order: `PUT loadBalancers/kubernetes`. */
  writes(): readonly string[];
}

/** A clock that can be set forward. */
export function jumpingClock(): { readonly clock: CloudContext["clock"]; readonly jump: (ms: number) => void } {
  let jumpedMs = 0;
  return {
    clock: {
      now: () => Date.now() + jumpedMs,
      monotonic: () => performance.now() + jumpedMs,
      sleep: () => systemClock.sleep(1),
    },
    jump: (ms) => void (jumpedMs += ms),
  };
}

/** Time that passes `times` as fast as it does, so that waits end soon. */
export const fast = (times: number): CloudContext["clock"] => ({
  now: () => Date.now(),
  monotonic: () => performance.now() * times,
  sleep: (ms, signal) => systemClock.sleep(ms / times, signal),
});

export interface ServiceOptions {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: Partial<NonNullable<Service["spec"]>>;
  /** Tells apart Services that had the same name one after another. */
  readonly incarnation?: number;
}

const hex = (text: string, length: number): string =>
  new Bun.CryptoHasher("sha256").update(text).digest("hex").slice(0, length);

/** A Service of type LoadBalancer with port 80, as the API server would complete it. */
export function serviceOf(name: string, { annotations, spec, incarnation = 0 }: ServiceOptions = {}): Service {
  const id = hex(`${name}/${incarnation}`, 32);
  const prefixed = Object.entries(annotations ?? {}).map(([key, value]) => [
    `service.beta.kubernetes.io/${key}`,
    value,
  ]);
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name,
      namespace: "default",
      uid: [id.slice(0, 8), id.slice(8, 12), id.slice(12, 16), id.slice(16, 20), id.slice(20)].join("-"),
      creationTimestamp: "2026-01-01T00:00:00Z",
      annotations: Object.fromEntries(prefixed),
    },
    spec: {
      type: "LoadBalancer",
      ports: [{ name: "http", protocol: "TCP", port: 80, nodePort: 30_000 + Number.parseInt(hex(name, 3), 16) }],
      ipFamilies: ["IPv4"],
      sessionAffinity: "None",
      externalTrafficPolicy: "Cluster",
      ...spec,
    },
  };
}

export async function openCluster(instances: number, options: Partial<SimulatorOptions> = {}): Promise<Cluster> {
  const world = await openWorld(options);
  await world.simulator.addInstances(instances);
  const nodes = Array.from({ length: instances }, (_, index) => ({
    ...nodeOf(`vmss000000${index}`, { providerID: instanceID(index) }),
    status: { addresses: [{ type: "InternalIP", address: `10.240.0.${index + 4}` }] },
  }));
  const services = new Map<string, Service>();
  const slices: EndpointSlice[] = [];
  const namespaces: KubeObject[] = [];
  const hidden = new Set<string>();
  const confirmed = new Set<string>();
  const records: CloudWrite[] = [];
  const watchers = new Set<(before: KubeObject | undefined, after: KubeObject | undefined) => void>();
  const patching = new Set<() => Promise<void>>();
  const generations: Generation[] = [];
  world.simulator.clearLog();
  return {
    slices,
    namespaces,
    hidden,
    confirmed,
    records,
    patching,
    change(service) {
      const before = services.get(keyOf(service));
      services.set(keyOf(service), service);
      for (const watcher of watchers) watcher(before, service);
    },
    lose(node) {
      hidden.add(node.metadata?.name ?? "");
      for (const watcher of watchers) watcher(node, undefined);
    },
    restore(node) {
      hidden.delete(node.metadata?.name ?? "");
      for (const watcher of watchers) watcher(undefined, node);
    },
    setEndpoints(service, nodeNames) {
      const before = slices.find(({ metadata }) => metadata?.name === sliceName(service));
      const after = sliceOf(service, nodeNames);
      if (before === undefined) slices.push(after);
      else slices[slices.indexOf(before)] = after;
      for (const watcher of watchers) watcher(before ?? after, after);
    },
    world,
    services,
    nodes,
    async start(changes = {}, clock?, own = {}) {
      const objects = { services, nodes, slices, namespaces, hidden, confirmed, records, patching, watchers };
      const generation = await generationOf(world, objects, changes, { clock, own });
      generations.push(generation);
      return generation;
    },
    async ensure({ balancers }, service) {
      const before = services.get(keyOf(service));
      services.set(keyOf(service), { ...service, ...statusOf(before) });
      for (const watcher of watchers) watcher(before, service);
      const listed = nodes.filter(({ metadata }) => !hidden.has(metadata?.name ?? ""));
      const loadBalancer = await balancers.ensureLoadBalancer("kubernetes", service, listed);
      services.set(keyOf(service), { ...service, status: { ...services.get(keyOf(service))?.status, loadBalancer } });
    },
    async remove({ balancers }, service) {
      if ((await balancers.getLoadBalancer("kubernetes", service)) !== undefined)
        await balancers.ensureLoadBalancerDeleted("kubernetes", service);
      services.delete(keyOf(service));
      for (const watcher of watchers) watcher(service, undefined);
    },
    writes: () =>
      world.simulator.log.flatMap(({ method, path }) =>
        method === "GET" || method === "POST" ? [] : [`${method} ${path.split("/").slice(-2).join("/")}`],
      ),
    async [Symbol.asyncDispose]() {
      for (const generation of generations) generation.crash();
      await world[Symbol.asyncDispose]();
    },
  };
}

const statusOf = (service: Service | undefined): Pick<Service, "status"> =>
  service?.status === undefined ? {} : { status: service.status };

interface Objects {
  readonly services: Map<string, Service>;
  readonly nodes: readonly Node[];
  readonly slices: readonly EndpointSlice[];
  readonly namespaces: readonly KubeObject[];
  readonly hidden: ReadonlySet<string>;
  readonly confirmed: ReadonlySet<string>;
  readonly records: CloudWrite[];
  readonly patching: ReadonlySet<() => Promise<void>>;
  /** Handlers of updates, of whichever kind. */
  readonly watchers: Set<(before: KubeObject | undefined, after: KubeObject | undefined) => void>;
}

export const sliceName = ({ metadata }: Service): string => `${metadata?.name}-slice`;

const sliceOf = (service: Service, nodeNames: readonly string[]): EndpointSlice => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: {
    name: sliceName(service),
    namespace: service.metadata?.namespace ?? "default",
    labels: { "kubernetes.io/service-name": service.metadata?.name ?? "" },
  },
  addressType: "IPv4",
  endpoints: nodeNames.map((nodeName) => ({ addresses: ["10.0.0.1"], nodeName })),
});

async function generationOf(
  world: World,
  objects: Objects,
  changes: Readonly<Record<string, unknown>>,
  { clock, own }: { readonly clock: CloudContext["clock"] | undefined; readonly own: Partial<CloudContext> },
): Promise<Generation> {
  const end = new AbortController();
  const events: string[] = [];
  const informers = informersOf(objects, end.signal);
  const context: Partial<CloudContext> = {
    signal: end.signal,
    client: clientOf(world, objects),
    recordWrite: (write) => void objects.records.push(write),
    confirmations: {
      isConfirmed: (hash) => Promise.resolve(objects.confirmed.has(hash)),
      command: (hash) => `confirm ${hash}`,
    },
    informers,
    events: { event: (subject, _type, reason) => void events.push(`${subject.metadata?.name ?? ""} ${reason}`) },
    fence: {
      get closed() {
        return end.signal.aborted;
      },
      check(what) {
        if (end.signal.aborted) throw new FencedError(what, "the process has crashed");
      },
      signal: end.signal,
    },
    ...own,
  };
  const made = await world.guardedLoadBalancers(changes, { context, ...(clock && { clock }) });
  made.balancers.watch(informers.of(kinds.Service));
  return {
    balancers: made.balancers,
    warnings: () => made.guard.warnings.map(({ text }) => text),
    events,
    recheck: (keys) => made.guard.onRecheck?.(keys),
    crash: () => end.abort(new FencedError("ARM", "the process has crashed")),
  };
}

const isOf = <T extends KubeObject>(kind: KindRef<T>, object: KubeObject): object is T => object.kind === kind.kind;

/** Reads of single objects show also what lists lack. */
const clientOf = ({ leases }: World, objects: Objects): KubeClient => ({
  ...leases.client,
  async get(kind, name, options) {
    const known = allOf(objects).filter((object) => isOf(kind, object));
    if (known.length === 0) return leases.client.get(kind, name, options);
    const found = known.find(({ metadata }) => metadata?.name === name.name);
    if (found === undefined) throw new ApiError(404, "NotFound", `${kind.kind} ${name.name} not found`);
    return found;
  },
  async list(kind, options) {
    const known = allOf(objects).filter((object) => isOf(kind, object));
    const [label = "", value] = options?.labelSelector?.split("=") ?? [];
    return value === undefined ? known : known.filter(({ metadata }) => metadata?.labels?.[label] === value);
  },
  /** Of a Service, only conditions are written here; each patch has all of them. */
  async patch(kind, name, type, body, options) {
    for (const before of objects.patching) await before();
    const service = objects.services.get(`default/${name.name}`);
    if (service === undefined || !isOf(kind, service)) return leases.client.patch(kind, name, type, body, options);
    const { status, ...before }: Service = service;
    const patched = { ...before, status: { ...status, ...conditionsIn(body) } };
    objects.services.set(keyOf(patched), patched);
    for (const watcher of objects.watchers) watcher(service, patched);
    return Object.assign(structuredClone(service), patched);
  },
});

function conditionsIn(body: unknown): { readonly conditions: readonly Condition[] } {
  const { conditions } = JSON.parse(JSON.stringify(body)).status;
  return { conditions: conditions.filter((one: object) => !("$patch" in one)) };
}

const allOf = ({ services, nodes, slices, namespaces }: Objects): readonly KubeObject[] => [
  ...namespaces,
  ...services.values(),
  ...nodes,
  ...slices,
];

/** As the host's, they end with their generation. */
function informersOf({ watchers, ...objects }: Objects, end: AbortSignal): Informers {
  const all = (): readonly KubeObject[] =>
    allOf({ ...objects, watchers }).filter(({ metadata }) => !objects.hidden.has(metadata?.name ?? ""));
  return {
    of<T extends KubeObject>(kind: KindRef<T>): Informer<T> {
      if (end.aborted) throw new CodedError("Released", `this generation can no longer watch ${kind.plural}`);
      const list = (): readonly T[] => all().filter((object) => isOf(kind, object));
      return {
        store: {
          get: (key) => list().find((object) => keyOf(object) === key),
          list,
          get size() {
            return list().length;
          },
        },
        handle(handler: InformerHandler<T>) {
          const watcher = (before: KubeObject | undefined, after: KubeObject | undefined): void => {
            const [from, to] = [before, after].map((one) => (one !== undefined && isOf(kind, one) ? one : undefined));
            if (from !== undefined && to !== undefined) handler.updated?.(from, to);
            else if (from !== undefined) handler.deleted?.(from);
            else if (to !== undefined) handler.added?.(to);
          };
          watchers.add(watcher);
          return { remove: () => void watchers.delete(watcher) };
        },
        hasSynced: () => true,
      };
    },
  };
}
