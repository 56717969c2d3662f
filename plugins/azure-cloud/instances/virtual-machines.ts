import { CodedError, InstanceNotFoundError, type Node } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import type { Freshness } from "../arm/reads/shared-read.ts";
import { parseArmPath } from "../arm/resource-id.ts";
import type { NodeResourceGroups } from "./node-resource-groups.ts";
import { notAVirtualMachine, parseOwn, providerIDOf } from "./provider-id.ts";
import type { ScaleSetCatalog } from "./scale-set-reads.ts";
import type { VirtualMachineCatalog } from "./virtual-machine-reads.ts";
import type { VirtualMachineRecord } from "./virtual-machine-record.ts";
import { vmAddresses, vmPrivateIPs } from "./vm-addresses.ts";
import { noZone, unlessDeleting, zoneOf } from "./vm-rules.ts";
import type { FindPurpose, Vm, VmSet } from "./vm-set.ts";

/**
 * Virtual machines with a name of their own: standalone ones, those of availability sets and those of flexible scale
 * sets. Source: cloud-provider-azure `azure_standard.go`, `azure_vmssflex.go`.
 */
export class VirtualMachines implements VmSet {
  readonly #catalog: VirtualMachineCatalog;
  readonly #scaleSets: ScaleSetCatalog;
  readonly #resourceGroups: NodeResourceGroups;
  readonly #subscription: string;

  constructor(
    catalog: VirtualMachineCatalog,
    scaleSets: ScaleSetCatalog,
    resourceGroups: NodeResourceGroups,
    clients: ArmClients,
  ) {
    this.#catalog = catalog;
    this.#scaleSets = scaleSets;
    this.#resourceGroups = resourceGroups;
    this.#subscription = clients.computeSubscription;
  }

  async find(node: Node, freshness: Freshness, purpose: FindPurpose = "existence"): Promise<Vm | undefined> {
    const record = await this.#locate(node, freshness, purpose);
    const live = unlessDeleting(record);
    return live && this.#vmOf(live);
  }

  async setTags(node: Node): Promise<Readonly<Record<string, string>> | undefined> {
    const record = await this.#locate(node, "newer", "existence");
    if (record === undefined && node.spec?.providerID)
      throw new InstanceNotFoundError(`instance not found: ${node.metadata?.name}`);
    const setId = record?.scaleSetId ?? record?.availabilitySetId;
    if (setId === undefined) return undefined;
    const tags = setId === record?.scaleSetId ? await this.#scaleSetTags(setId) : await this.#catalog.setTags(setId);
    if (tags === undefined) throw new InstanceNotFoundError(`set of the VM not found: ${setId}`);
    return tags;
  }

  async #scaleSetTags(scaleSetId: string): Promise<Readonly<Record<string, string>> | undefined> {
    const id = scaleSetId.toLowerCase();
    const list = this.#scaleSets.inGroup(parseArmPath(id)?.resourceGroup ?? "");
    const scaleSet = await list.find("newer", (sets) => sets.find((set) => set.id.toLowerCase() === id));
    return scaleSet?.tags;
  }

  async #locate(node: Node, freshness: Freshness, purpose: FindPurpose): Promise<VirtualMachineRecord | undefined> {
    const providerID = node.spec?.providerID ?? "";
    if (providerID !== "") return this.#locateByID(providerID, freshness, purpose);
    const nodeName = (node.metadata?.name ?? "").toLowerCase();
    for (const step of freshness === "newer" ? (["cached", "newer"] as const) : [freshness])
      for (const group of this.#resourceGroups.groupsFor(node)) {
        const reads = this.#catalog.inGroup(group);
        // A standalone VM has the node's name; one of a flexible scale set is found by its computer name.
        const found =
          step === "fresh"
            ? await reads.freshLookups.getByName(nodeName, nodeName)
            : await reads.vms.find(step, (table) => unlessDeleting(table.getByName(nodeName)));
        if (found !== undefined) return found;
      }
    return undefined;
  }

  async #locateByID(
    providerID: string,
    freshness: Freshness,
    purpose: FindPurpose,
  ): Promise<VirtualMachineRecord | undefined> {
    const { resourceGroup, scaleSet, name } = parseOwn(providerID, this.#subscription);
    // Its last segment is an instance id; taken for a VM's name, the node would look as if its VM did not exist.
    if (scaleSet !== undefined) throw notAVirtualMachine(providerID);
    const key = name.toLowerCase();
    const { freshLookups, vms } = this.#catalog.inGroup(resourceGroup);
    if (purpose === "metadata") this.#catalog.interfacesIn(resourceGroup).prefetch(freshness);
    return freshness === "fresh"
      ? freshLookups.get(key)
      : vms.find(freshness, (table) => unlessDeleting(table.get(key)));
  }

  #vmOf(record: VirtualMachineRecord): Vm {
    const catalog = this.#catalog;
    if (record.instanceType === "")
      throw new CodedError("IncompleteVM", `the hardware profile of ${record.id} is empty`);
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
      addresses: (freshness) => vmAddresses(record, (id) => catalog.listsFor(id), freshness),
      privateIPs: (freshness, areEnough) => vmPrivateIPs(record, (id) => catalog.listsFor(id), freshness, areEnough),
    };
  }

  /** The zone of a VM outside zones. Upstream reads a standalone VM without its view, whose fault domain is then 0. */
  async #faultDomain(record: VirtualMachineRecord): Promise<string> {
    if (record.scaleSetId === undefined) return String(record.faultDomain ?? 0);
    const faultDomain = (await this.#catalog.view(record, "cached"))?.faultDomain;
    if (faultDomain === undefined) throw noZone(record.id);
    return String(faultDomain);
  }
}
