import { CodedError, InstanceNotFoundError } from "cloud-controller-host/sdk";

import type { SharedRead } from "../arm/reads/shared-read.ts";
import type { InterfaceRecord, InterfaceReference } from "./records.ts";
import { findPrimaryConfiguration, primaryConfiguration, primaryInterface } from "./vm-rules.ts";
import type { VmAddresses } from "./vm-set.ts";

/** The shared lists of the network resources that belong to a VM. */
export interface NetworkLists {
  /** By lower-case id. */
  readonly interfaces: SharedRead<ReadonlyMap<string, InterfaceRecord>>;
  /** Lower-case id of a public IP address to the address. */
  readonly publicAddresses: SharedRead<ReadonlyMap<string, string>>;
}

type ListsFor = (resourceId: string) => NetworkLists;

interface VmInterfaces {
  readonly id: string;
  readonly interfaces: readonly InterfaceReference[];
}

/** Items may be younger than the cached list that should have them. */
const lookup = { cached: "newer", fresh: "fresh" } as const;

/** The primary interface: as a list shows it so that `isComplete` holds, or else as the newest list shows it. */
async function primaryNic(
  vm: VmInterfaces,
  listsFor: ListsFor,
  freshness: "cached" | "fresh",
  isComplete: (nic: InterfaceRecord) => boolean,
): Promise<InterfaceRecord> {
  const id = primaryInterface(vm.interfaces, vm.id).id.toLowerCase();
  const { interfaces } = listsFor(id);
  const complete = await interfaces.find(lookup[freshness], (all) => {
    const nic = all.get(id);
    return nic !== undefined && isComplete(nic) ? nic : undefined;
  });
  const nic = complete ?? interfaces.last?.get(id);
  if (nic === undefined) throw new InstanceNotFoundError(`instance not found: network interface ${id} does not exist`);
  return nic;
}

const hasPrimaryAddress = (nic: InterfaceRecord): boolean => findPrimaryConfiguration(nic)?.privateIP !== "";

const privateIPsOf = ({ ipConfigurations }: InterfaceRecord): readonly string[] =>
  ipConfigurations.flatMap(({ privateIP }) => (privateIP === "" ? [] : [privateIP]));

/** All private addresses of a VM's primary interface. See `Vm.privateIPs`. */
export async function vmPrivateIPs(
  vm: VmInterfaces,
  listsFor: ListsFor,
  freshness: "cached" | "fresh",
  areEnough: (addresses: readonly string[]) => boolean = () => true,
): Promise<readonly string[]> {
  return privateIPsOf(await primaryNic(vm, listsFor, freshness, (nic) => areEnough(privateIPsOf(nic))));
}

/** The addresses of a VM's primary ip configuration. Public addresses are listed only where an interface has one. */
export async function vmAddresses(
  vm: VmInterfaces,
  listsFor: ListsFor,
  freshness: "cached" | "fresh",
): Promise<VmAddresses> {
  const nic = await primaryNic(vm, listsFor, freshness, hasPrimaryAddress);
  const { privateIP, publicIPId } = primaryConfiguration(nic);
  if (privateIP === "") throw new CodedError("IncompleteVM", `network interface ${nic.id} has no private address`);
  const publicId = publicIPId?.toLowerCase();
  if (publicId === undefined) return { privateIP, publicIP: undefined };
  const publicAddresses = listsFor(publicId).publicAddresses;
  const publicIP = await publicAddresses.find(lookup[freshness], (addresses) => addresses.get(publicId));
  return { privateIP, publicIP };
}
