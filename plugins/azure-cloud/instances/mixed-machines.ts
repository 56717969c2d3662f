import type { Node } from "cloud-controller-host/sdk";

import { parseProviderID } from "./provider-id.ts";
import type { Freshness } from "./shared-read.ts";
import type { Machine, VmSet } from "./vm-set.ts";

/**
 * Nodes of several kinds in one cluster. A provider ID tells the kind; a node without one is looked for in each.
 * Source: the management types of cloud-provider-azure `azure_vmss_cache.go`.
 */
export class MixedMachines implements VmSet {
  readonly #instances: VmSet;
  readonly #machines: VmSet;
  readonly #byName: readonly VmSet[];

  /** `instancesOnly`: nodes without a provider ID are taken to be scale-set instances. */
  constructor(kinds: { readonly instances: VmSet; readonly machines: VmSet; readonly instancesOnly: boolean }) {
    this.#instances = kinds.instances;
    this.#machines = kinds.machines;
    this.#byName = kinds.instancesOnly ? [kinds.instances] : [kinds.instances, kinds.machines];
  }

  async find(node: Node, freshness: Freshness): Promise<Machine | undefined> {
    for (const set of this.#setsFor(node)) {
      const found = await set.find(node, freshness);
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
    return [parseProviderID(providerID).scaleSet === undefined ? this.#machines : this.#instances];
  }
}
