import type { Node } from "cloud-controller-host/sdk";

import type { Freshness } from "./shared-read.ts";

/** A machine behind a node, whatever its kind. */
export interface Machine {
  readonly providerID: string;
  readonly instanceType: string;
  /** Region, as the cloud spells it. */
  readonly location: string;
  /** Rejects when the cloud says neither zone nor fault domain. */
  zone(): Promise<string>;
  state(freshness: "cached" | "fresh"): Promise<MachineState>;
  addresses(freshness: "cached" | "fresh"): Promise<MachineAddresses>;
}

interface MachineState {
  readonly provisioningState: string;
  /** Lower case, `running`; `unknown` when the cloud does not say. */
  readonly powerState: string;
}

export interface MachineAddresses {
  readonly privateIP: string;
  readonly publicIP: string | undefined;
}

/**
 * One kind of machine: instances of uniform scale sets, or virtual machines. A machine that is being deleted is not
 * found.
 */
export interface VmSet {
  /**
   * By the node's provider ID where it has one, else by its name. Undefined means that there is no such machine as far
   * as an answer of that freshness goes; a fresh "no" is sure enough to delete the node.
   */
  find(node: Node, freshness: Freshness): Promise<Machine | undefined>;
  /** Tags of the set that the node's machine belongs to; undefined when it cannot be found. */
  setTags(node: Node): Promise<Readonly<Record<string, string>> | undefined>;
}
