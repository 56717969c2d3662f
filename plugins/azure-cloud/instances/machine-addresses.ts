import { InstanceNotFoundError } from "cloud-controller-host/sdk";

import { primaryConfiguration, primaryInterface } from "./machine-rules.ts";
import type { InterfaceRecord, InterfaceReference } from "./records.ts";
import type { Freshness, SharedRead } from "./shared-read.ts";
import type { MachineAddresses } from "./vm-set.ts";

/** Shared lists in which the network side of a machine is found. */
export interface NetworkLists {
  /** By lower-case id. */
  readonly interfaces: SharedRead<ReadonlyMap<string, InterfaceRecord>>;
  /** Lower-case id of a public IP address to the address. */
  readonly publicAddresses: SharedRead<ReadonlyMap<string, string>>;
}

/** Public addresses are asked for only where an interface has one. */
export async function machineAddresses(
  machine: { readonly id: string; readonly interfaces: readonly InterfaceReference[] },
  listsFor: (resourceId: string) => NetworkLists,
  freshness: "cached" | "fresh",
): Promise<MachineAddresses> {
  const id = primaryInterface(machine.interfaces, machine.id).id.toLowerCase();
  const nic = await found(listsFor(id).interfaces, freshness, id);
  if (nic === undefined) throw new InstanceNotFoundError(`instance not found: there is no network interface ${id}`);
  const { privateIP, publicIPId } = primaryConfiguration(nic);
  const publicId = publicIPId?.toLowerCase();
  const publicIP =
    publicId === undefined ? undefined : await found(listsFor(publicId).publicAddresses, freshness, publicId);
  return { privateIP, publicIP };
}

/** A machine's interface may be younger than the list that should have it. */
async function found<Value>(
  list: SharedRead<ReadonlyMap<string, Value>>,
  freshness: "cached" | "fresh",
  id: string,
): Promise<Value | undefined> {
  const looked: Freshness = freshness === "fresh" ? "fresh" : "newer";
  return list.find(looked, (items) => items.get(id));
}
