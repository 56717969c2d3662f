import { InstanceNotFoundError } from "cloud-controller-host/sdk";

import type { InterfaceRecord, InterfaceReference } from "./records.ts";
import type { SharedRead } from "./shared-read.ts";
import { primaryConfiguration, primaryInterface } from "./vm-rules.ts";
import type { VmAddresses } from "./vm-set.ts";

/** The shared lists of the network resources that belong to a VM. */
export interface NetworkLists {
  /** By lower-case id. */
  readonly interfaces: SharedRead<ReadonlyMap<string, InterfaceRecord>>;
  /** Lower-case id of a public IP address to the address. */
  readonly publicAddresses: SharedRead<ReadonlyMap<string, string>>;
}

/** The addresses of a VM's primary ip configuration. Public addresses are listed only where an interface has one. */
export async function vmAddresses(
  vm: { readonly id: string; readonly interfaces: readonly InterfaceReference[] },
  listsFor: (resourceId: string) => NetworkLists,
  freshness: "cached" | "fresh",
): Promise<VmAddresses> {
  // An interface may be younger than the list that should have it.
  const wanted = freshness === "fresh" ? "fresh" : "newer";
  const id = primaryInterface(vm.interfaces, vm.id).id.toLowerCase();
  const nic = await listsFor(id).interfaces.find(wanted, (interfaces) => interfaces.get(id));
  if (nic === undefined) throw new InstanceNotFoundError(`instance not found: there is no network interface ${id}`);
  const { privateIP, publicIPId } = primaryConfiguration(nic);
  const publicId = publicIPId?.toLowerCase();
  if (publicId === undefined) return { privateIP, publicIP: undefined };
  const publicIP = await listsFor(publicId).publicAddresses.find(wanted, (addresses) => addresses.get(publicId));
  return { privateIP, publicIP };
}
