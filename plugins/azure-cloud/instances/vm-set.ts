import type { Node } from "cloud-controller-host/sdk";

import type { Freshness } from "../arm/reads/shared-read.ts";

/** The VM behind a node, whatever its kind. */
export interface Vm {
  readonly providerID: string;
  readonly instanceType: string;
  /** Region, as ARM spells it. */
  readonly location: string;
  /** Rejects when ARM reports neither zone nor fault domain. */
  zone(): Promise<string>;
  state(freshness: "cached" | "fresh"): Promise<VmState>;
  addresses(freshness: "cached" | "fresh"): Promise<VmAddresses>;
  /**
   * All private addresses of its primary interface, of both families, in ARM's order. A list that does not show enough
   * of them is read again: an interface may have got another address since.
   */
  privateIPs(
    freshness: "cached" | "fresh",
    areEnough?: (addresses: readonly string[]) => boolean,
  ): Promise<readonly string[]>;
}

interface VmState {
  readonly provisioningState: string;
  /** Lower case, `running`; `unknown` when ARM does not report it. */
  readonly powerState: string;
}

export interface VmAddresses {
  readonly privateIP: string;
  readonly publicIP: string | undefined;
}

/** `metadata` lets the lists of network interfaces begin beside those of VMs, because they will be needed too. */
export type FindPurpose = "existence" | "metadata";

/** One kind of VM: instances of uniform scale sets, or virtual machines. A VM that is being deleted is not found. */
export interface VmSet {
  /**
   * Finds a node's VM by its provider ID, or by its name where it has none. Undefined means that an answer of that
   * freshness has no such VM; when `fresh`, the answer is certain enough to delete the node.
   */
  find(node: Node, freshness: Freshness, purpose?: FindPurpose): Promise<Vm | undefined>;
  /**
   * Tags of the set that the node's VM belongs to; undefined for a VM that belongs to none. Rejects when a VM or set that
   * is known by its id is not found: lists may lack it for the moment.
   */
  setTags(node: Node): Promise<Readonly<Record<string, string>> | undefined>;
}
