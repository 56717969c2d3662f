import type { VirtualMachine } from "@azure/arm-compute";

import { lastSegment } from "../arm/resource-id.ts";
import { type InterfaceReference, powerStateOf, referencesOf } from "./records.ts";

/** The fields of a virtual machine that are kept. */
export interface VirtualMachineRecord {
  readonly id: string;
  readonly name: string;
  /** Lower case: the computer name in a flexible scale set, otherwise the VM's own name. */
  readonly nodeName: string;
  readonly location: string;
  readonly zone: string | undefined;
  /** Only where ARM includes the view in a list without being asked for it. */
  readonly faultDomain: number | undefined;
  readonly instanceType: string;
  readonly provisioningState: string;
  /** The flexible scale set that it belongs to. */
  readonly scaleSetId: string | undefined;
  readonly availabilitySetId: string | undefined;
  readonly interfaces: readonly InterfaceReference[];
}

/** The fields that only a read with the instance view has. */
export interface ViewRecord {
  readonly provisioningState: string;
  readonly powerState: string;
  readonly faultDomain: number | undefined;
}

export function virtualMachineRecord(vm: VirtualMachine): VirtualMachineRecord {
  const id = vm.id ?? "";
  const name = vm.name ?? lastSegment(id);
  const scaleSetId = vm.virtualMachineScaleSet?.id;
  const nodeName = scaleSetId === undefined ? name : (vm.osProfile?.computerName ?? name);
  return {
    id,
    name,
    nodeName: nodeName.toLowerCase(),
    location: vm.location ?? "",
    zone: vm.zones?.[0],
    faultDomain: vm.instanceView?.platformFaultDomain,
    instanceType: vm.hardwareProfile?.vmSize ?? "",
    provisioningState: vm.provisioningState ?? "",
    scaleSetId,
    availabilitySetId: vm.availabilitySet?.id,
    interfaces: referencesOf(vm.networkProfile),
  };
}

export const viewRecord = (vm: VirtualMachine): ViewRecord => ({
  provisioningState: vm.provisioningState ?? "",
  powerState: powerStateOf(vm.instanceView?.statuses),
  faultDomain: vm.instanceView?.platformFaultDomain,
});
