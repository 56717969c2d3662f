import type { VirtualMachine } from "@azure/arm-compute";

import { lastSegment } from "../arm/resource-id.ts";
import { type InstanceRecord, powerStateOf, referencesOf } from "./records.ts";

/**
 * The fields of a virtual machine that are kept. `nodeName` is the computer name in a flexible scale set, otherwise the
 * VM's own name; `faultDomain` is known only if ARM includes the view in a list without being asked for it.
 */
export interface VirtualMachineRecord extends Omit<InstanceRecord, "instanceId" | "powerState"> {
  readonly name: string;
  /** The flexible scale set that it belongs to. */
  readonly scaleSetId: string | undefined;
  readonly availabilitySetId: string | undefined;
}

/** The fields that only a read with the instance view has. */
export type ViewRecord = Pick<InstanceRecord, "provisioningState" | "powerState" | "faultDomain">;

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
