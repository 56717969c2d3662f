import type { Node } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import type { AzureConfig } from "../config/decode.ts";
import type { ConfigKeys } from "../config/schema.ts";
import type { ResourceChange } from "../removal-guard/guard.ts";
import { MixedVms } from "./mixed-vms.ts";
import type { NodeResourceGroups } from "./node-resource-groups.ts";
import { namesInstance } from "./provider-id.ts";
import type { ScaleSetCatalog } from "./scale-set-reads.ts";
import { UniformScaleSets } from "./uniform-scale-sets.ts";
import type { VirtualMachineCatalog } from "./virtual-machine-reads.ts";
import { VirtualMachines } from "./virtual-machines.ts";
import type { VmSet } from "./vm-set.ts";

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
  /** How long a VM is remembered as missing: as long as upstream caches that kind. For nodes without a provider ID. */
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

/** What depends on `vmType`. */
export const vmTypes: Readonly<Record<ConfigKeys["vmType"], VmType>> = {
  vmss: {
    vmSet: mixedVms,
    absenceTtlKey: "vmssVirtualMachinesCacheTTLInSeconds",
    primarySetKey: "primaryScaleSetName",
  },
  vmssflex: {
    vmSet: virtualMachinesOf,
    absenceTtlKey: "vmCacheTTLInSeconds",
    primarySetKey: "primaryScaleSetName",
  },
  standard: {
    vmSet: virtualMachinesOf,
    absenceTtlKey: "vmCacheTTLInSeconds",
    primarySetKey: "primaryAvailabilitySetName",
  },
};

/** Nodes that are instances of scale sets, of which this `vmType` knows nothing: all lookups of them would fail. */
export function unknownNodes({ vmType }: AzureConfig, nodes: readonly Node[]): ResourceChange {
  const unknown = vmType === "vmss" ? [] : nodes.filter(({ spec }) => namesInstance(spec?.providerID ?? ""));
  const before = unknown.map(({ metadata }) => ({
    kind: "nodes",
    name: metadata?.name ?? "",
    owners: [],
    services: [],
  }));
  const title = `vmType ${vmType}, which has no scale set instances`;
  return { id: "vmType", title, before, after: [], writers: [] };
}

/** How long the VM of a node is remembered as missing. The provider ID decides the kind where there is one. */
export const absenceTtlMs =
  (config: AzureConfig) =>
  ({ spec: { providerID = "" } = {} }: Node): number => {
    if (config.disableAPICallCache) return 0;
    const ofID = vmTypes[namesInstance(providerID) ? "vmss" : "standard"];
    const { absenceTtlKey } = providerID === "" ? vmTypes[config.vmType] : ofID;
    return config[absenceTtlKey] * 1000;
  };
