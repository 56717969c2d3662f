import { Operations } from "./operations.ts";
import { type InstanceChange, ScaleSetInstances } from "./scale-set-instances.ts";
import { ResourceStore } from "./store.ts";

/** Everything that the simulated subscription holds. */
export class SubscriptionState {
  readonly store = new ResourceStore();
  readonly operations: Operations;
  readonly subscription: string;
  readonly location: string;
  readonly #instances = new Map<string, ScaleSetInstances>();
  #publicAddresses = 0;
  #positions = 0;

  constructor(options: { readonly subscription: string; readonly location: string; readonly operationPolls: number }) {
    this.subscription = options.subscription;
    this.location = options.location;
    this.operations = new Operations(options.operationPolls);
  }

  /** The instances of a scale set, by its resource id. */
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

  /** Instances of all scale sets share one count, so that no two have one address. */
  nextInstancePosition(): number {
    return this.#positions++;
  }

  /** Addresses are handed out in order and never twice. */
  nextPublicAddress(version: "IPv4" | "IPv6"): string {
    const count = ++this.#publicAddresses;
    if (version === "IPv6") return `2603:1030::${count.toString(16)}`;
    return `20.0.${count >> 8}.${count & 255}`;
  }
}
