import {
  type Clock,
  type InstanceMetadata,
  InstanceNotFoundError,
  type InstanceRead,
  type Instances,
  type Node,
  type NodeAddress,
} from "cloud-controller-host/sdk";

import { abandonable } from "../arm/signals.ts";
import type { Repeat } from "./backoff.ts";
import { isShutDown } from "./machine-rules.ts";
import { Missing } from "./missing.ts";
import { isUnmanaged } from "./node-places.ts";
import { isManagedProviderID } from "./provider-id.ts";
import type { Machine, MachineAddresses, VmSet } from "./vm-set.ts";

export interface InstancesOptions {
  readonly machines: VmSet;
  readonly clock: Clock;
  readonly repeat: Repeat;
  readonly graceMs: number;
}

const nothing: InstanceMetadata = { providerID: "", instanceType: "", nodeAddresses: [], zone: "", region: "" };

/** A node that is no machine of Azure, by its label or by its provider ID: it exists, and nothing is said of it. */
const isForeign = (node: Node): boolean => {
  const providerID = node.spec?.providerID ?? "";
  return isUnmanaged(node) || (providerID !== "" && !isManagedProviderID(providerID));
};

type AskedFreshness = NonNullable<InstanceRead["read"]>;
const freshnessOf = (options: InstanceRead | undefined): AskedFreshness => options?.read ?? "cached";

/** upstream: `InstancesV2` of cloud-provider-azure, `azure_instances_v2.go`. */
export class AzureInstances implements Instances {
  readonly #options: InstancesOptions;
  readonly #missing: Missing;

  constructor(options: InstancesOptions) {
    this.#options = options;
    this.#missing = new Missing(options.clock);
  }

  /** A "no" is always the cloud's own, of now: whoever gets it deletes the node. */
  instanceExists(node: Node, options?: InstanceRead): Promise<boolean> {
    return abandonable(() => this.#exists(node, freshnessOf(options)), options?.signal);
  }

  instanceShutdown(node: Node, options?: InstanceRead): Promise<boolean> {
    return abandonable(() => this.#shutDown(node, freshnessOf(options)), options?.signal);
  }

  instanceMetadata(node: Node, options?: InstanceRead): Promise<InstanceMetadata> {
    return abandonable(() => this.#metadata(node, freshnessOf(options)), options?.signal);
  }

  async #exists(node: Node, freshness: AskedFreshness): Promise<boolean> {
    if (isForeign(node)) return true;
    const { machines } = this.#options;
    if (freshness === "cached" && (await machines.find(node, "cached")) !== undefined) return true;
    return (await machines.find(node, "fresh")) !== undefined || this.#isYoung(node);
  }

  /** What the cached lists lack is looked for in newer ones, and not again and again. */
  async #find(node: Node, freshness: AskedFreshness): Promise<Machine | undefined> {
    const { machines } = this.#options;
    const found = await machines.find(node, freshness);
    const key = node.spec?.providerID || (node.metadata?.name ?? "");
    if (found !== undefined || freshness === "fresh" || this.#missing.has(key)) return found;
    const newer = await machines.find(node, "newer");
    if (newer === undefined) this.#missing.add(key);
    return newer;
  }

  /** A node may join before the cloud lists its machine. */
  #isYoung(node: Node): boolean {
    const { graceMs, clock } = this.#options;
    const madeAt = Date.parse(node.metadata?.creationTimestamp ?? "");
    return graceMs > 0 && !Number.isNaN(madeAt) && clock.now() - madeAt < graceMs;
  }

  async #shutDown(node: Node, freshness: AskedFreshness): Promise<boolean> {
    if (isForeign(node) || !node.spec?.providerID) return false;
    const machine = await this.#find(node, freshness);
    return machine !== undefined && isShutDown(await machine.state(freshness));
  }

  async #metadata(node: Node, freshness: AskedFreshness): Promise<InstanceMetadata> {
    const providerID = node.spec?.providerID ?? "";
    if (isForeign(node)) return isUnmanaged(node) ? nothing : { ...nothing, providerID };
    const name = node.metadata?.name ?? "";
    const machine = await this.#find(node, freshness);
    if (machine === undefined) throw new InstanceNotFoundError(`instance not found: ${name}`);
    const addresses = await this.#options.repeat(() => machine.addresses(freshness));
    return {
      providerID: providerID || machine.providerID,
      instanceType: machine.instanceType,
      nodeAddresses: nodeAddresses(name, addresses),
      zone: await machine.zone(),
      region: machine.location.toLowerCase(),
    };
  }
}

/** Upstream's order. Only the primary configuration's addresses are told; the kubelet knows the others. */
function nodeAddresses(name: string, { privateIP, publicIP }: MachineAddresses): readonly NodeAddress[] {
  const external = publicIP === undefined ? [] : [{ type: "ExternalIP", address: publicIP }];
  return [{ type: "InternalIP", address: privateIP }, { type: "Hostname", address: name }, ...external];
}
