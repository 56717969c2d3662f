import type { Node } from "cloud-controller-host/sdk";

import type { Freshness } from "../arm/reads/shared-read.ts";
import { parseProviderID } from "./provider-id.ts";
import type { FindPurpose, Vm, VmSet } from "./vm-set.ts";

/**
 * Nodes of several kinds in one cluster. The provider ID decides the kind; a node without one is searched in each.
 * Source: the management types of cloud-provider-azure `azure_vmss_cache.go`.
 */
export class MixedVms implements VmSet {
  readonly #instances: VmSet;
  readonly #virtualMachines: VmSet;
  readonly #byName: readonly VmSet[];

  /** `instancesOnly`: every node without a provider ID is a scale set instance. */
  constructor(kinds: { readonly instances: VmSet; readonly virtualMachines: VmSet; readonly instancesOnly: boolean }) {
    this.#instances = kinds.instances;
    this.#virtualMachines = kinds.virtualMachines;
    this.#byName = kinds.instancesOnly ? [kinds.instances] : [kinds.instances, kinds.virtualMachines];
  }

  async find(node: Node, freshness: Freshness, purpose?: FindPurpose): Promise<Vm | undefined> {
    for (const set of this.#setsFor(node)) {
      const found = await set.find(node, freshness, purpose);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  async setTags(node: Node): Promise<Readonly<Record<string, string>> | undefined> {
    for (const set of this.#setsFor(node)) {
      const tags = await set.setTags(node);
      if (tags !== undefined) return tags;
    }
    return undefined;
  }

  #setsFor(node: Node): readonly VmSet[] {
    const providerID = node.spec?.providerID ?? "";
    if (providerID === "") return this.#byName;
    return [parseProviderID(providerID).scaleSet === undefined ? this.#virtualMachines : this.#instances];
  }
}
