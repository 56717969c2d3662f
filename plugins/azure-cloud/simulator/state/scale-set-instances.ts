import type { JsonObject } from "../../json.ts";
import { nextEtag } from "./store.ts";

export type PowerState = "starting" | "running" | "stopping" | "stopped" | "deallocating" | "deallocated" | "unknown";

/** One instance of a uniform scale set. */
export interface Instance {
  readonly instanceId: string;
  readonly computerName: string;
  readonly privateIP: string;
  /** Of its IPv6 configuration; one derived from the instance ID unless given. */
  readonly privateIPv6: string | undefined;
  readonly publicIP: string | undefined;
  readonly zone: string | undefined;
  readonly faultDomain: number;
  readonly powerState: PowerState;
  readonly provisioningState: string;
  /** The scale set's model at the time of creation, until it is written. */
  readonly networkInterfaceConfigurations: readonly JsonObject[];
  readonly etag: string;
  /** Left out of lists. */
  readonly hidden: boolean;
}

export type InstanceChange = Partial<Omit<Instance, "instanceId" | "etag">>;

/** The instances of one scale set, in order of their instance ids; an id is never reused. */
export class ScaleSetInstances {
  readonly #instances = new Map<string, Instance>();
  #nextId = 0;
  #revision = 0;

  /** Changes with every instance. */
  get revision(): number {
    return this.#revision;
  }

  get size(): number {
    return this.#instances.size;
  }

  add(make: (instanceId: number) => Omit<Instance, "instanceId" | "etag">): Instance {
    const id = this.#nextId++;
    const instance: Instance = { ...make(id), instanceId: String(id), etag: nextEtag() };
    this.#revision += 1;
    this.#instances.set(instance.instanceId, instance);
    return instance;
  }

  /** An instance with the id that it has elsewhere. */
  restore(instance: Omit<Instance, "etag">): void {
    this.#instances.set(instance.instanceId, { ...instance, etag: nextEtag() });
    this.#nextId = Math.max(this.#nextId, Number(instance.instanceId) + 1);
    this.#revision += 1;
  }

  get(instanceId: string): Instance | undefined {
    return this.#instances.get(instanceId);
  }

  named(computerName: string): Instance | undefined {
    const wanted = computerName.toLowerCase();
    for (const instance of this.#instances.values())
      if (instance.computerName.toLowerCase() === wanted) return instance;
    return undefined;
  }

  change(instanceId: string, change: InstanceChange): Instance | undefined {
    const before = this.#instances.get(instanceId);
    if (before === undefined) return undefined;
    const after: Instance = { ...before, ...change, etag: nextEtag() };
    this.#revision += 1;
    this.#instances.set(instanceId, after);
    return after;
  }

  remove(instanceId: string): boolean {
    this.#revision += 1;
    return this.#instances.delete(instanceId);
  }

  clear(): void {
    this.#revision += 1;
    this.#instances.clear();
  }

  /** A page of instances after the one that `after` names, and whether there are more. */
  page(after: string | undefined, size: number): { readonly instances: readonly Instance[]; readonly more: boolean } {
    const from = after === undefined ? -1 : Number(after);
    const instances: Instance[] = [];
    for (const instance of this.#instances.values()) {
      if (instance.hidden || Number(instance.instanceId) <= from) continue;
      if (instances.length === size) return { instances, more: true };
      instances.push(instance);
    }
    return { instances, more: false };
  }

  [Symbol.iterator](): IterableIterator<Instance> {
    return this.#instances.values();
  }
}
