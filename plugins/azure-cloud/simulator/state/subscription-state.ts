import type { SubscriptionLimits } from "./limits.ts";
import { Operations, type OperationSettings } from "./operations.ts";
import { type InstanceChange, ScaleSetInstances } from "./scale-set-instances.ts";
import { type Resource, ResourceStore } from "./store.ts";

/** The actions of one role assignment of the caller. */
export interface SimulatedGrant {
  readonly actions: readonly string[];
  readonly notActions: readonly string[];
}

export interface SubscriptionOptions {
  readonly subscription: string;
  readonly location: string;
  readonly operations: OperationSettings;
  readonly limits: SubscriptionLimits;
  readonly grants: readonly SimulatedGrant[];
}

const isUpdating = ({ properties }: Resource): boolean => properties?.["provisioningState"] === "Updating";

/** The content of the simulated subscription. */
export class SubscriptionState {
  readonly store = new ResourceStore();
  readonly operations: Operations;
  readonly subscription: string;
  readonly location: string;
  limits: SubscriptionLimits;
  readonly grants: readonly SimulatedGrant[];
  /** Resources as they were before their last operations, by lower-case id. */
  readonly #settled = new Map<string, Resource>();
  readonly #instances = new Map<string, ScaleSetInstances>();
  /** Changes what lists show; reads of one resource are not affected. */
  changeList: (resources: readonly Resource[]) => readonly Resource[] = (resources) => resources;
  /** Changes what a read of one resource shows. */
  changeGet: (resource: Resource) => Resource = (resource) => resource;
  #publicAddresses = 0;
  #positions = 0;

  constructor(options: SubscriptionOptions) {
    this.subscription = options.subscription;
    this.location = options.location;
    this.limits = options.limits;
    this.grants = options.grants;
    this.operations = new Operations(options.operations);
  }

  instances(scaleSetId: string): ScaleSetInstances {
    const key = scaleSetId.toLowerCase();
    const instances = this.#instances.get(key) ?? new ScaleSetInstances();
    this.#instances.set(key, instances);
    return instances;
  }

  changeInstance(nodeName: string, change: InstanceChange): void {
    for (const instances of this.#instances.values()) {
      const instance = instances.named(nodeName);
      if (instance !== undefined) instances.change(instance.instanceId, change);
    }
  }

  allInstances(): IterableIterator<ScaleSetInstances> {
    return this.#instances.values();
  }

  /** An operation on a resource begins, perhaps in place of one in progress. */
  begins(before: Resource): void {
    if (!isUpdating(before)) this.#settled.set(before.id.toLowerCase(), before);
  }

  /** A resource as others show it. */
  shownByOthers(resource: Resource): Resource {
    if (this.operations.settings.showsMembersLate !== true || !isUpdating(resource)) return resource;
    return this.#settled.get(resource.id.toLowerCase()) ?? resource;
  }

  /** A revision that changes with every write of an IP configuration. */
  interfacesRevision(): string {
    const instances = [...this.#instances.values()].map(({ revision }) => revision);
    const types = ["microsoft.network/networkinterfaces", "microsoft.compute/virtualmachinescalesets"];
    return [...types.map((type) => this.store.revision(type)), ...instances].join();
  }

  /** A revision that grows with every write of a resource or an instance. */
  revision(): number {
    let revision = this.store.changes;
    for (const instances of this.#instances.values()) revision += instances.revision;
    return revision;
  }

  /** Instances of all scale sets share one counter, so that no two have the same address. */
  nextInstancePosition(): number {
    return this.#positions++;
  }

  /** Addresses are assigned in order and never reused. */
  nextPublicAddress(version: "IPv4" | "IPv6"): string {
    const count = ++this.#publicAddresses;
    if (version === "IPv6") return `2603:1030::${count.toString(16)}`;
    return `20.0.${count >> 8}.${count & 255}`;
  }
}
