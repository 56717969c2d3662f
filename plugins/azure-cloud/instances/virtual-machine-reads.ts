import type { VirtualMachine } from "@azure/arm-compute";
import type { NetworkManagementClient } from "@azure/arm-network";
import type { Clock } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import { isAbsent, unlessAbsent } from "../arm/errors.ts";
import { type Publish, SharedRead, SharedReads } from "../arm/reads/shared-read.ts";
import { groupOf, lastSegment, parseArmPath, sameName } from "../arm/resource-id.ts";
import type { AzureConfig } from "../config/decode.ts";
import { FreshLookups, VmTable } from "./fresh-lookups.ts";
import { addressEntry, type InterfaceRecord, interfaceRecord } from "./records.ts";
import {
  type ViewRecord,
  viewRecord,
  type VirtualMachineRecord,
  virtualMachineRecord,
} from "./virtual-machine-record.ts";
import type { NetworkLists } from "./vm-addresses.ts";

/** The shared reads of the virtual machines in one resource group. */
export interface GroupReads {
  readonly vms: SharedRead<VmTable<VirtualMachineRecord>>;
  /** By lower-case name. */
  readonly freshLookups: FreshLookups<VirtualMachineRecord>;
}

/** The reads of virtual machines, by resource group: standalone ones, those of availability sets and those of flexible scale sets. */
export class VirtualMachineCatalog {
  readonly #clients: ArmClients;
  readonly #config: AzureConfig;
  readonly #clock: Clock;
  readonly #groups = new Map<string, GroupReads>();
  readonly #networks: SharedReads<ReadonlyMap<string, InterfaceRecord>>;
  readonly #publicAddresses: SharedReads<ReadonlyMap<string, string>>;
  readonly #views: SharedReads<ReadonlyMap<string, ViewRecord>>;
  readonly #view: SharedReads<ViewRecord>;
  /** Tags of availability sets by lower-case id, by resource group. */
  readonly #setTags: SharedReads<ReadonlyMap<string, Readonly<Record<string, string>>>>;

  constructor(clients: ArmClients, config: AzureConfig, clock: Clock) {
    this.#clients = clients;
    this.#config = config;
    this.#clock = clock;
    const shared = <Value>(
      ttlSeconds: number,
      read: (key: string, publish: Publish<Value>) => Promise<Value>,
    ): SharedReads<Value> => new SharedReads((key) => this.#shared<Value>(ttlSeconds, (publish) => read(key, publish)));
    this.#networks = shared<ReadonlyMap<string, InterfaceRecord>>(
      config.vmssFlexVMCacheTTLInSeconds,
      (group, publish) => listInterfaces(clients, group, publish),
    );
    this.#publicAddresses = shared(config.publicIPCacheTTLInSeconds, (scope) => listPublicAddresses(clients, scope));
    this.#views = shared(config.vmssFlexVMCacheTTLInSeconds, (scaleSetId) => listViews(clients, scaleSetId));
    this.#view = shared(config.vmCacheTTLInSeconds, (id) => getView(clients, id));
    this.#setTags = shared(config.availabilitySetsCacheTTLInSeconds, (group) => listSetTags(clients, group));
  }

  inGroup(resourceGroup: string): GroupReads {
    const key = resourceGroup.toLowerCase();
    const reads = this.#groups.get(key) ?? this.#make(key);
    this.#groups.set(key, reads);
    return reads;
  }

  /** Called when a node is deleted: the next one of its name may be another VM. */
  forgetName(nodeName: string): void {
    for (const { vms } of this.#groups.values()) vms.last?.forgetName(nodeName, this.#clock.monotonic());
  }

  /** Called when a node is created under the name of a deleted one: its VM may have other addresses under known names. */
  forgetNetworks(): void {
    for (const interfaces of this.#networks.all()) interfaces.forget();
    for (const publicAddresses of this.#publicAddresses.all()) publicAddresses.forget();
  }

  interfacesIn(resourceGroup: string): SharedRead<ReadonlyMap<string, InterfaceRecord>> {
    return this.#networks.of(resourceGroup.toLowerCase());
  }

  /** The lists of the resource group that an interface or a public IP address is in. */
  listsFor(resourceId: string): NetworkLists {
    const path = parseArmPath(resourceId);
    const group = path?.resourceGroup?.toLowerCase() ?? "";
    return {
      interfaces: this.interfacesIn(group),
      publicAddresses: this.#publicAddresses.of(`${path?.subscription ?? ""}/${group}`),
    };
  }

  /** Power state and fault domain: one list for the VMs of a flexible scale set, one read for any other VM. */
  async view(vm: VirtualMachineRecord, freshness: "cached" | "fresh"): Promise<ViewRecord | undefined> {
    if (vm.scaleSetId === undefined) return this.#view.of(vm.id).get(freshness);
    const name = vm.name.toLowerCase();
    return this.#views.of(vm.scaleSetId).find(freshness === "fresh" ? "fresh" : "newer", (views) => views.get(name));
  }

  /** Tags of an availability set; undefined if it does not exist. */
  setTags(setId: string): Promise<Readonly<Record<string, string>> | undefined> {
    return this.#setTags.of(groupOf(setId)).find("newer", (sets) => sets.get(setId.toLowerCase()));
  }

  #make(group: string): GroupReads {
    const clients = this.#clients;
    const ttl = this.#config.nonVmssUniformNodesCacheTTLInSeconds;
    const clock = this.#clock;
    const vms: SharedRead<VmTable<VirtualMachineRecord>> = this.#shared(ttl, async (publish) => {
      const beganMs = clock.monotonic();
      const table = (await listVms(clients, group, publish)).inherit(vms.last, beganMs, clock.monotonic());
      this.#forgetViews(group, table);
      return table;
    });
    const read = (name: string) => getVm(clients, group, name);
    const onAbsent = (known: VirtualMachineRecord | undefined): void => this.#forgetNetwork(group, known);
    return { vms, freshLookups: new FreshLookups(vms, { clock, ttlMs: this.#ttlMs(ttl), read, onAbsent }) };
  }

  /** Of VMs that do not exist any more: many a name is used once. */
  #forgetViews(group: string, table: VmTable<VirtualMachineRecord>): void {
    this.#view.dropWhere((id) => groupOf(id) === group && table.get(lastSegment(id).toLowerCase()) === undefined);
  }

  /** A VM that is created again under its name may have other interfaces and addresses under their names. */
  #forgetNetwork(group: string, known: VirtualMachineRecord | undefined): void {
    this.interfacesIn(group).forget();
    if (known === undefined) return;
    this.#view.drop(known.id);
    for (const { id } of known.interfaces) {
      const { interfaces, publicAddresses } = this.listsFor(id);
      interfaces.forget();
      publicAddresses.forget();
    }
  }

  #shared<Value>(ttlSeconds: number, read: (publish: Publish<Value>) => Promise<Value>): SharedRead<Value> {
    return new SharedRead({ clock: this.#clock, ttlMs: this.#ttlMs(ttlSeconds), read });
  }

  #ttlMs(seconds: number): number {
    return this.#config.disableAPICallCache ? 0 : seconds * 1000;
  }
}

/** A resource group that does not exist has no VMs. */
async function listVms(
  clients: ArmClients,
  group: string,
  publish: Publish<VmTable<VirtualMachineRecord>>,
): Promise<VmTable<VirtualMachineRecord>> {
  const table = new VmTable<VirtualMachineRecord>();
  try {
    for await (const page of clients.compute.virtualMachines.list(group).byPage()) {
      table.addPage(page.map(virtualMachineRecord).map((record) => [record.name.toLowerCase(), record]));
      publish(table);
    }
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return new VmTable();
  }
  return table;
}

async function getVm(clients: ArmClients, group: string, name: string): Promise<VirtualMachineRecord | undefined> {
  const vm = await unlessAbsent(clients.compute.virtualMachines.get(group, name));
  return vm && virtualMachineRecord(vm);
}

async function listViews(clients: ArmClients, scaleSetId: string): Promise<ReadonlyMap<string, ViewRecord>> {
  const group = parseArmPath(scaleSetId)?.resourceGroup ?? "";
  const options = { filter: `'virtualMachineScaleSet/id' eq '${scaleSetId}'`, expand: "instanceView" } as const;
  const views = new Map<string, ViewRecord>();
  for await (const vm of clients.compute.virtualMachines.list(group, options))
    views.set(nameOf(vm).toLowerCase(), viewRecord(vm));
  return views;
}

async function getView(clients: ArmClients, id: string): Promise<ViewRecord> {
  const group = parseArmPath(id)?.resourceGroup ?? "";
  return viewRecord(await clients.compute.virtualMachines.get(group, lastSegment(id), { expand: "instanceView" }));
}

const nameOf = (vm: VirtualMachine): string => vm.name ?? lastSegment(vm.id ?? "");

async function listInterfaces(
  clients: ArmClients,
  group: string,
  publish: Publish<ReadonlyMap<string, InterfaceRecord>>,
): Promise<ReadonlyMap<string, InterfaceRecord>> {
  const interfaces = new Map<string, InterfaceRecord>();
  for await (const page of clients.vmNetwork.networkInterfaces.list(group).byPage()) {
    for (const record of page.map(interfaceRecord)) interfaces.set(record.id.toLowerCase(), record);
    publish(interfaces);
  }
  return interfaces;
}

async function listPublicAddresses(clients: ArmClients, scope: string): Promise<ReadonlyMap<string, string>> {
  const [subscription = "", group = ""] = scope.split("/");
  const client: NetworkManagementClient = sameName(subscription, clients.computeSubscription)
    ? clients.vmNetwork
    : clients.network;
  const addresses = new Map<string, string>();
  for await (const publicIP of client.publicIPAddresses.list(group))
    for (const [id, address] of addressEntry(publicIP)) addresses.set(id, address);
  return addresses;
}

async function listSetTags(
  clients: ArmClients,
  group: string,
): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>> {
  const tags = new Map<string, Readonly<Record<string, string>>>();
  for await (const set of clients.compute.availabilitySets.list(group))
    tags.set((set.id ?? "").toLowerCase(), set.tags ?? {});
  return tags;
}
