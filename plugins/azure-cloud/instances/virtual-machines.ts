import { CodedError, type Node } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import { parseArmPath } from "../arm/resource-id.ts";
import { machineAddresses } from "./machine-addresses.ts";
import { isDeleting, noZone, zoneOf } from "./machine-rules.ts";
import type { NodePlaces } from "./node-places.ts";
import { parseOwn, providerIDOf } from "./provider-id.ts";
import type { ScaleSetCatalog } from "./scale-set-reads.ts";
import type { Freshness } from "./shared-read.ts";
import type { GroupReads, VirtualMachineCatalog } from "./virtual-machine-reads.ts";
import type { VirtualMachineRecord } from "./virtual-machine-record.ts";
import type { Machine, VmSet } from "./vm-set.ts";

/**
 * Virtual machines with a name of their own: single ones, those of availability sets and those of flexible scale sets.
 * Source: cloud-provider-azure `azure_standard.go`, `azure_vmssflex.go`.
 */
export class VirtualMachines implements VmSet {
  readonly #catalog: VirtualMachineCatalog;
  readonly #scaleSets: ScaleSetCatalog;
  readonly #places: NodePlaces;
  readonly #subscription: string;

  constructor(catalog: VirtualMachineCatalog, scaleSets: ScaleSetCatalog, places: NodePlaces, clients: ArmClients) {
    this.#catalog = catalog;
    this.#scaleSets = scaleSets;
    this.#places = places;
    this.#subscription = clients.computeSubscription;
  }

  async find(node: Node, freshness: Freshness): Promise<Machine | undefined> {
    const record = await this.#locate(node, freshness);
    return record === undefined || isDeleting(record) ? undefined : this.#machineOf(record);
  }

  async setTags(node: Node): Promise<Readonly<Record<string, string>> | undefined> {
    const record = await this.#locate(node, "newer");
    if (record?.scaleSetId === undefined)
      return record?.availabilitySetId === undefined ? undefined : this.#catalog.setTags(record.availabilitySetId);
    const id = record.scaleSetId.toLowerCase();
    const list = this.#scaleSets.inGroup(parseArmPath(id)?.resourceGroup ?? "");
    const scaleSet = await list.find("newer", (sets) => sets.find((set) => set.id.toLowerCase() === id));
    return scaleSet?.tags;
  }

  async #locate(node: Node, freshness: Freshness): Promise<VirtualMachineRecord | undefined> {
    const providerID = node.spec?.providerID ?? "";
    if (providerID !== "") {
      const { resourceGroup, name } = parseOwn(providerID, this.#subscription);
      const key = name.toLowerCase();
      const { confirmations, machines } = this.#catalog.inGroup(resourceGroup);
      return freshness === "fresh" ? confirmations.ask(key) : machines.find(freshness, (table) => table.byKey.get(key));
    }
    const nodeName = (node.metadata?.name ?? "").toLowerCase();
    for (const step of freshness === "newer" ? (["cached", "newer"] as const) : [freshness])
      for (const group of this.#places.groupsFor(node)) {
        const reads = this.#catalog.inGroup(group);
        const found =
          step === "fresh"
            ? await confirmByName(reads, nodeName)
            : await reads.machines.find(step, (table) => table.byName.get(nodeName));
        if (found !== undefined) return found;
      }
    return undefined;
  }

  #machineOf(record: VirtualMachineRecord): Machine {
    const catalog = this.#catalog;
    if (record.instanceType === "")
      throw new CodedError("NoHardwareProfile", `the hardware profile of ${record.id} is empty`);
    return {
      providerID: providerIDOf(record.id),
      instanceType: record.instanceType,
      location: record.location,
      zone: async () => zoneOf(record, undefined) ?? (await this.#faultDomain(record)),
      state: async (freshness) =>
        (await catalog.view(record, freshness)) ?? {
          provisioningState: record.provisioningState,
          powerState: "unknown",
        },
      addresses: (freshness) => machineAddresses(record, (id) => catalog.listsFor(id), freshness),
    };
  }

  /** Outside zones. Upstream reads a single machine without its view, so that its fault domain is always 0. */
  async #faultDomain(record: VirtualMachineRecord): Promise<string> {
    if (record.scaleSetId === undefined) return "0";
    const faultDomain = (await this.#catalog.view(record, "cached"))?.faultDomain;
    if (faultDomain === undefined) throw noZone(record.id);
    return String(faultDomain);
  }
}

/** A single machine is named as its node; any other must be missing from two lists if one takes several pages. */
async function confirmByName(reads: GroupReads, nodeName: string): Promise<VirtualMachineRecord | undefined> {
  const named = await reads.confirmations.ask(nodeName);
  if (named?.nodeName === nodeName) return named;
  const first = await reads.machines.get("fresh");
  const found = first.byName.get(nodeName);
  if (found !== undefined || first.pages === 1) return found;
  return (await reads.machines.get("fresh")).byName.get(nodeName);
}
