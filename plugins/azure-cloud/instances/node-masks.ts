import type { CloudCall, Node, NodeMasks } from "cloud-controller-host/sdk";

import { abandonable } from "../arm/transport/signals.ts";
import { masksOf, standardMasks } from "./vm-rules.ts";
import type { VmSet } from "./vm-set.ts";

/** Reads the sizes of pod CIDRs from the tags of a node's scale set or availability set. */
export class AzureNodeMasks implements NodeMasks {
  readonly #vms: VmSet;

  constructor(vms: VmSet) {
    this.#vms = vms;
  }

  nodeMasks(node: Node, call?: CloudCall): Promise<{ readonly ipv4: number; readonly ipv6: number }> {
    return abandonable(() => this.#masks(node), call?.signal);
  }

  async #masks(node: Node): Promise<{ readonly ipv4: number; readonly ipv6: number }> {
    const tags = await this.#vms.setTags(node);
    return tags === undefined ? standardMasks : masksOf(tags);
  }
}
