import type { VirtualMachine } from "@azure/arm-compute";
import type { Node } from "cloud-controller-host/sdk";

import type { ArmClients } from "../../arm/clients.ts";
import { isAbsent } from "../../arm/errors.ts";
import { type ArmPath, parseArmPath } from "../../arm/resource-id.ts";

const scheme = "azure://";

/** ARM id of the instance or virtual machine behind a node; undefined before the node has a provider ID of Azure. */
export function instanceIdOf(node: Node): string | undefined {
  const providerID = node.spec?.providerID ?? "";
  return providerID.toLowerCase().startsWith(scheme) ? providerID.slice(scheme.length) : undefined;
}

/** An IP configuration of an instance of a uniform scale set, or of a network interface that is a resource itself. */
export type ConfigurationOwner =
  | { readonly kind: "instance"; readonly id: string; readonly scaleSetId: string }
  | { readonly kind: "interface"; readonly id: string };

/** The owner of an IP configuration, by the configuration's id; undefined for an id of another kind. */
export function ownerOf(ipConfigurationId: string): ConfigurationOwner | undefined {
  const path = parseArmPath(ipConfigurationId);
  if (path === undefined) return undefined;
  const type = path.type.toLowerCase();
  const [first = "", second = ""] = path.names;
  if (type.startsWith("virtualmachinescalesets/virtualmachines/networkinterfaces")) {
    const scaleSetId = idOf(path, "Microsoft.Compute/virtualMachineScaleSets", first);
    return { kind: "instance", id: `${scaleSetId}/virtualMachines/${second}`, scaleSetId };
  }
  if (type.startsWith("networkinterfaces"))
    return { kind: "interface", id: idOf(path, "Microsoft.Network/networkInterfaces", first) };
  return undefined;
}

const idOf = (path: ArmPath, type: string, name: string): string =>
  `/subscriptions/${path.subscription}/resourceGroups/${path.resourceGroup ?? ""}/providers/${type}/${name}`;

/** Id of the scale set of an instance; undefined for any other virtual machine. */
export function scaleSetOf(instanceId: string): string | undefined {
  const path = parseArmPath(instanceId);
  if (path?.type.toLowerCase() !== "virtualmachinescalesets/virtualmachines") return undefined;
  return idOf(path, "Microsoft.Compute/virtualMachineScaleSets", path.names[0] ?? "");
}

/** A virtual machine as far as its network goes. */
export interface NetworkedMachine {
  readonly id: string;
  /** Id of its primary network interface. */
  readonly primary: string | undefined;
  readonly interfaces: readonly string[];
  /** Id of its flexible scale set. */
  readonly scaleSetId: string | undefined;
  readonly availabilitySetId: string | undefined;
}

/** Every virtual machine of a resource group outside uniform scale sets, by lower-case id. */
export async function listMachines(
  { compute }: ArmClients,
  resourceGroup: string,
): Promise<ReadonlyMap<string, NetworkedMachine>> {
  const machines = new Map<string, NetworkedMachine>();
  try {
    for await (const vm of compute.virtualMachines.list(resourceGroup))
      machines.set((vm.id ?? "").toLowerCase(), networked(vm));
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
  return machines;
}

function networked(vm: VirtualMachine): NetworkedMachine {
  const references = vm.networkProfile?.networkInterfaces ?? [];
  const primary = references.length === 1 ? references[0] : references.find((one) => one.primary);
  return {
    id: vm.id ?? "",
    primary: primary?.id,
    interfaces: references.flatMap(({ id }) => id ?? []),
    scaleSetId: vm.virtualMachineScaleSet?.id,
    availabilitySetId: vm.availabilitySet?.id,
  };
}
