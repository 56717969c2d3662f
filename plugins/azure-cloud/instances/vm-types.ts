import type { Node } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import type { Freshness } from "../arm/reads/shared-read.ts";
import type { AzureConfig } from "../config/decode.ts";
import type { ConfigKeys } from "../config/schema.ts";
import type { ResourceChange } from "../removal-guard/guard.ts";
import type { NodeResourceGroups } from "./node-resource-groups.ts";
import { namesInstance, parseProviderID } from "./provider-id.ts";
import type { ScaleSetCatalog } from "./scale-set-reads.ts";
import { UniformScaleSets } from "./uniform-scale-sets.ts";
import type { VirtualMachineCatalog } from "./virtual-machine-reads.ts";
import { VirtualMachines } from "./virtual-machines.ts";
import type { FindPurpose, Vm, VmSet } from "./vm-set.ts";

/**
 * Nodes of several kinds in one cluster. The provider ID decides the kind; a node without one is searched in each.
 * Source: the management types of cloud-provider-azure `azure_vmss_cache.go`.
 */
class MixedVms implements VmSet {
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

/** The reads of all VMs, shared by nodes, routes and load balancers. */
export interface VmReads {
  readonly clients: ArmClients;
  readonly scaleSets: ScaleSetCatalog;
  readonly virtualMachines: VirtualMachineCatalog;
}

interface NodeReads extends VmReads {
  readonly resourceGroups: NodeResourceGroups;
}

interface VmType {
  readonly vmSet: (reads: NodeReads, config: AzureConfig) => VmSet;
  /** Finds instances of uniform scale sets. Without it, nodes that are such instances are unknown. */
  readonly findsInstances: boolean;
  /** Time for which a VM is remembered as missing: upstream's for that kind. For nodes without a provider ID. */
  readonly absenceTtlKey: "vmssVirtualMachinesCacheTTLInSeconds" | "vmCacheTTLInSeconds";
  /** Names the set whose nodes belong to the cluster's load balancer. */
  readonly primarySetKey: "primaryScaleSetName" | "primaryAvailabilitySetName";
}

const virtualMachinesOf = ({ virtualMachines, scaleSets, resourceGroups, clients }: NodeReads): VmSet =>
  new VirtualMachines(virtualMachines, scaleSets, resourceGroups, clients);

/** Scale set clusters may have other VMs as well, unless the config excludes them. */
const mixedVms = (reads: NodeReads, config: AzureConfig): VmSet =>
  new MixedVms({
    instances: new UniformScaleSets(reads.scaleSets, reads.resourceGroups, reads.clients),
    virtualMachines: virtualMachinesOf(reads),
    instancesOnly: config.disableAvailabilitySetNodes && !config.enableVmssFlexNodes,
  });

/** Everything that depends on `vmType`. */
export const vmTypes: Readonly<Record<ConfigKeys["vmType"], VmType>> = {
  vmss: {
    vmSet: mixedVms,
    findsInstances: true,
    absenceTtlKey: "vmssVirtualMachinesCacheTTLInSeconds",
    primarySetKey: "primaryScaleSetName",
  },
  vmssflex: {
    vmSet: virtualMachinesOf,
    findsInstances: false,
    absenceTtlKey: "vmCacheTTLInSeconds",
    primarySetKey: "primaryScaleSetName",
  },
  standard: {
    vmSet: virtualMachinesOf,
    findsInstances: false,
    absenceTtlKey: "vmCacheTTLInSeconds",
    primarySetKey: "primaryAvailabilitySetName",
  },
};

/** Nodes that are scale set instances although this `vmType` does not find any: every lookup would fail. */
export function unknownNodes({ vmType }: AzureConfig, nodes: readonly Node[]): ResourceChange {
  const instances = nodes.filter(({ spec }) => namesInstance(spec?.providerID ?? ""));
  const unknown = vmTypes[vmType].findsInstances ? [] : instances;
  const before = unknown.map(({ metadata }) => ({
    kind: "nodes" as const,
    name: metadata?.name ?? "",
    owners: [],
    services: [],
  }));
  const title = `vmType ${vmType}, which has no scale set instances`;
  return { id: "vmType", title, before, after: [], writers: [] };
}

/** Time for which the VM of a node is remembered as missing. The provider ID, if there is one, decides the kind. */
export const absenceTtlMs =
  (config: AzureConfig) =>
  ({ spec: { providerID = "" } = {} }: Node): number => {
    if (config.disableAPICallCache) return 0;
    const ofID = vmTypes[namesInstance(providerID) ? "vmss" : "standard"];
    const { absenceTtlKey } = providerID === "" ? vmTypes[config.vmType] : ofID;
    return config[absenceTtlKey] * 1000;
  };
