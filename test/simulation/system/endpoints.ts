import { keyOf, kinds, type Service } from "cloud-controller-host/sdk";

import { serviceLabel, serviceOf } from "../../../plugins/azure-cloud/endpoint-slices.ts";
import type { SandboxApiServer } from "../../../sdk/testing/api-server/index.ts";

/** EndpointSlices follow Services and Pods so late. */
const followMs = 500;
/** A Pod is scheduled so long after its node is gone. */
const scheduleMs = 4_000;
/** A Service has Pods in so many EndpointSlices at most. */
const slices = 2;

interface Pod {
  node: string;
  /** The number of its EndpointSlice. */
  readonly slice: number;
}

interface Scene {
  readonly api: SandboxApiServer;
  readonly now: number;
  readonly random: () => number;
  readonly after: (ms: number, work: () => void) => void;
  readonly note: (actor: string, text: string) => void;
}

/** Pods of Services and, as EndpointSlices show them, their nodes. Pods run on while their Service is created again. */
export class Endpoints {
  readonly #world: Scene;
  /** By the key of their Service. */
  readonly #pods = new Map<string, Pod[]>();
  /** Since when EndpointSlices have shown Pods of a Service on a node, by its key. */
  readonly #shown = new Map<string, Map<string, number>>();

  constructor(world: Scene) {
    this.#world = world;
    world.api.onChange(kinds.Service, (type, service) => {
      if (type !== "MODIFIED") world.after(followMs, () => this.#follow(keyOf(service)));
    });
    world.api.onChange(kinds.Node, (type, node) => {
      if (type !== "MODIFIED") world.after(scheduleMs, () => this.#schedule());
      if (type === "DELETED") world.after(followMs, () => this.#evict(keyOf(node)));
    });
    world.api.onChange(kinds.EndpointSlice, (_type, slice) => this.#show(serviceOf(slice)));
  }

  /** Since when EndpointSlices have shown Pods of a Service on each node. */
  of(service: Service): ReadonlyMap<string, number> {
    return this.#shown.get(keyOf(service)) ?? new Map();
  }

  /** Since when each of all that are shown has been there. */
  get times(): readonly number[] {
    return [...this.#shown.values()].flatMap((nodes) => [...nodes.values()]);
  }

  /** Pods of a Service are replaced one after the other, as by a rollout. */
  roll(service: Service, forMs: number): void {
    const key = keyOf(service);
    const former = this.#podsOf(key);
    this.#world.note("user", `rolls out the Pods of ${key}`);
    for (const [index, pod] of former.entries()) {
      const startsAt = forMs * 0.05 * index;
      this.#world.after(startsAt, () => this.#add(key));
      this.#world.after(startsAt + forMs * 0.02, () => this.#remove(key, pod));
    }
  }

  #podsOf(key: string): readonly Pod[] {
    return this.#pods.get(key) ?? [];
  }

  #follow(key: string): void {
    if (this.#pods.has(key)) return this.#publish(key);
    const count = 1 + Math.floor(this.#world.random() * 3);
    for (let index = 0; index < count; index += 1) this.#add(key);
  }

  #add(key: string): void {
    const pods = this.#pods.getOrInsertComputed(key, () => []);
    pods.push({ node: this.#anyNode(), slice: pods.length % slices });
    this.#publish(key);
  }

  #remove(key: string, pod: Pod): void {
    const pods = this.#podsOf(key).filter((one) => one !== pod);
    this.#pods.set(key, pods);
    this.#publish(key);
  }

  #evict(node: string): void {
    if (this.#world.api.get(kinds.Node, { name: node }) !== undefined) return;
    for (const [key, pods] of this.#pods) {
      const here = pods.filter((pod) => pod.node === node);
      for (const pod of here) pod.node = "";
      if (here.length > 0) this.#publish(key);
    }
  }

  #schedule(): void {
    for (const [key, pods] of this.#pods) {
      const pending = pods.filter((pod) => pod.node === "");
      for (const pod of pending) pod.node = this.#anyNode();
      if (pending.length > 0) this.#publish(key);
    }
  }

  #anyNode(): string {
    const nodes = this.#world.api.list(kinds.Node).map(keyOf);
    return nodes[Math.floor(this.#world.random() * nodes.length)] ?? "";
  }

  /** The first EndpointSlice stays while it is empty. */
  #publish(key: string): void {
    const [namespace = "", name = ""] = key.split("/");
    const isThere = this.#world.api.get(kinds.Service, { namespace, name }) !== undefined;
    for (let slice = 0; slice < slices; slice += 1) {
      const nodes = this.#podsOf(key).flatMap((pod) => (pod.slice === slice && pod.node !== "" ? [pod.node] : []));
      const isKept = isThere && (slice === 0 || nodes.length > 0);
      this.#write({ namespace, name: `${name}-${slice}` }, name, isKept ? nodes : undefined);
    }
  }

  /** `nodes`: of its endpoints; undefined: it is deleted. */
  #write(
    at: { readonly namespace: string; readonly name: string },
    service: string,
    nodes: readonly string[] | undefined,
  ): void {
    const { api } = this.#world;
    const isThere = api.get(kinds.EndpointSlice, at) !== undefined;
    if (nodes === undefined) {
      if (isThere) api.delete(kinds.EndpointSlice, at);
      return;
    }
    const endpoints = nodes.map((nodeName, index) => ({ addresses: [`10.244.255.${index + 1}`], nodeName }));
    const slice = { addressType: "IPv4", endpoints, ports: [{ port: 8080 }] } as const;
    if (isThere) api.update(kinds.EndpointSlice, at, (before) => ({ ...before, ...slice }));
    else api.create(kinds.EndpointSlice, { metadata: { ...at, labels: { [serviceLabel]: service } }, ...slice });
  }

  #show(key: string): void {
    const of = this.#world.api.list(kinds.EndpointSlice).filter((slice) => serviceOf(slice) === key);
    const nodes = new Set(of.flatMap(({ endpoints }) => (endpoints ?? []).flatMap(({ nodeName = "" }) => nodeName)));
    const before = this.#shown.get(key);
    this.#shown.set(key, new Map([...nodes].map((node) => [node, before?.get(node) ?? this.#world.now])));
  }
}
