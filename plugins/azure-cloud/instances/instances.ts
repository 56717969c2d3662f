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
import { isShutDown } from "./machine-rules.ts";
import { isUnmanaged } from "./node-places.ts";
import { isManagedProviderID } from "./provider-id.ts";
import type { Freshness } from "./shared-read.ts";
import type { MachineAddresses, VmSet } from "./vm-set.ts";

export interface InstancesOptions {
  /** The kind of machine that a node is. */
  readonly vmSetOf: (node: Node) => VmSet;
  readonly clock: Clock;
  readonly graceMs: number;
}

const nothing: InstanceMetadata = { providerID: "", instanceType: "", nodeAddresses: [], zone: "", region: "" };

/** A node that is no machine of Azure, by its label or by its provider ID: it exists, and nothing is said of it. */
const isForeign = (node: Node): boolean => {
  const providerID = node.spec?.providerID ?? "";
  return isUnmanaged(node) || (providerID !== "" && !isManagedProviderID(providerID));
};

const freshnessOf = (options: InstanceRead | undefined): Freshness => options?.read ?? "cached";

/** upstream: `InstancesV2` of cloud-provider-azure, `azure_instances_v2.go`. */
export class AzureInstances implements Instances {
  readonly #options: InstancesOptions;

  constructor(options: InstancesOptions) {
    this.#options = options;
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

  async #exists(node: Node, freshness: Freshness): Promise<boolean> {
    if (isForeign(node)) return true;
    const set = this.#options.vmSetOf(node);
    if (freshness === "cached" && (await set.find(node, "cached")) !== undefined) return true;
    return (await set.exists(node)) || this.#isYoung(node);
  }

  /** A node may join before the cloud lists its machine. */
  #isYoung(node: Node): boolean {
    const { graceMs, clock } = this.#options;
    const madeAt = Date.parse(node.metadata?.creationTimestamp ?? "");
    return graceMs > 0 && !Number.isNaN(madeAt) && clock.now() - madeAt < graceMs;
  }

  async #shutDown(node: Node, freshness: Freshness): Promise<boolean> {
    if (isForeign(node) || !node.spec?.providerID) return false;
    const machine = await this.#options.vmSetOf(node).find(node, freshness);
    return machine !== undefined && isShutDown(await machine.state(freshness));
  }

  async #metadata(node: Node, freshness: Freshness): Promise<InstanceMetadata> {
    const providerID = node.spec?.providerID ?? "";
    if (isForeign(node)) return isUnmanaged(node) ? nothing : { ...nothing, providerID };
    const name = node.metadata?.name ?? "";
    const machine = await this.#options.vmSetOf(node).find(node, freshness);
    if (machine === undefined) throw new InstanceNotFoundError(`instance not found: ${name}`);
    const addresses = await machine.addresses(freshness);
    return {
      providerID: providerID || machine.providerID,
      instanceType: machine.instanceType,
      nodeAddresses: nodeAddresses(name, addresses),
      zone: machine.zone(),
      region: machine.location.toLowerCase(),
    };
  }
}

/** Upstream's order. Only the primary configuration's addresses are told; the kubelet knows the others. */
function nodeAddresses(name: string, { privateIP, publicIP }: MachineAddresses): readonly NodeAddress[] {
  const external = publicIP === undefined ? [] : [{ type: "ExternalIP", address: publicIP }];
  return [{ type: "InternalIP", address: privateIP }, { type: "Hostname", address: name }, ...external];
}
