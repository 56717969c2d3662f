import type { VirtualMachine } from "@azure/arm-compute";

import { lastSegment } from "../arm/resource-id.ts";
import { type InterfaceReference, powerStateOf, referencesOf } from "./records.ts";

/** What is kept of a virtual machine. */
export interface VirtualMachineRecord {
  readonly id: string;
  readonly name: string;
  /** Lower case: the computer name in a flexible scale set, else the machine's own name. */
  readonly nodeName: string;
  readonly location: string;
  readonly zone: string | undefined;
  readonly instanceType: string;
  readonly provisioningState: string;
  /** The flexible scale set that it belongs to. */
  readonly scaleSetId: string | undefined;
  readonly availabilitySetId: string | undefined;
  readonly interfaces: readonly InterfaceReference[];
}

/** What only a read with the instance view tells. */
export interface ViewRecord {
  readonly provisioningState: string;
  readonly powerState: string;
  readonly faultDomain: number | undefined;
}

export function virtualMachineRecord(machine: VirtualMachine): VirtualMachineRecord {
  const id = machine.id ?? "";
  const name = machine.name ?? lastSegment(id);
  const scaleSetId = machine.virtualMachineScaleSet?.id;
  const nodeName = scaleSetId === undefined ? name : (machine.osProfile?.computerName ?? name);
  return {
    id,
    name,
    nodeName: nodeName.toLowerCase(),
    location: machine.location ?? "",
    zone: machine.zones?.[0],
    instanceType: machine.hardwareProfile?.vmSize ?? "",
    provisioningState: machine.provisioningState ?? "",
    scaleSetId,
    availabilitySetId: machine.availabilitySet?.id,
    interfaces: referencesOf(machine.networkProfile),
  };
}

export const viewRecord = (machine: VirtualMachine): ViewRecord => ({
  provisioningState: machine.provisioningState ?? "",
  powerState: powerStateOf(machine.instanceView?.statuses),
  faultDomain: machine.instanceView?.platformFaultDomain,
});
