import { isDeepStrictEqual } from "node:util";

import type { VirtualMachineScaleSet } from "@azure/arm-compute";
import type { Clock } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import { ArmError, isAbsent, unlessAbsent } from "../arm/errors.ts";
import { type Publish, SharedRead, SharedReads } from "../arm/reads/shared-read.ts";
import { parseArmPath, sameName } from "../arm/resource-id.ts";
import type { AzureConfig } from "../config/decode.ts";
import { FreshLookups, VmTable } from "./fresh-lookups.ts";
import {
  addressEntry,
  type InstanceRecord,
  instanceRecord,
  type InterfaceRecord,
  interfaceRecord,
  type ScaleSetRecord,
  scaleSetRecord,
} from "./records.ts";
import type { NetworkLists } from "./vm-addresses.ts";

export interface ScaleSetName {
  readonly resourceGroup: string;
  readonly scaleSet: string;
}

/** The shared reads of one scale set. Each list serves all its nodes. */
export interface ScaleSetReads extends NetworkLists {
  readonly instances: SharedRead<VmTable<InstanceRecord>>;
  /** By instance id. */
  readonly freshLookups: FreshLookups<InstanceRecord>;
}

/** The reads of all scale sets, by resource group and by scale set. */
export class ScaleSetCatalog {
  readonly #clients: ArmClients;
  readonly #config: AzureConfig;
  readonly #clock: Clock;
  readonly #bySet = new Map<string, ScaleSetReads>();
  readonly #byGroup: SharedReads<readonly ScaleSetRecord[]>;

  constructor(clients: ArmClients, config: AzureConfig, clock: Clock) {
    this.#clients = clients;
    this.#config = config;
    this.#clock = clock;
    this.#byGroup = new SharedReads((group) =>
      this.#shared(config.vmssCacheTTLInSeconds, async () => {
        const scaleSets = await listScaleSets(clients, group);
        this.#forgetOthers(group, scaleSets);
        return scaleSets;
      }),
    );
  }

  /** The scale sets of a resource group; empty when the group does not exist. */
  inGroup(resourceGroup: string): SharedRead<readonly ScaleSetRecord[]> {
    return this.#byGroup.of(resourceGroup.toLowerCase());
  }

  /** Reads the scale sets again that were read before; true if a model is in other pools than was known. */
  async haveModelsChanged(): Promise<boolean> {
    const changed = this.#byGroup.all().map(async (list) => {
      const before = modelsOf(list.last);
      return !isDeepStrictEqual(before, modelsOf(await list.get("fresh")));
    });
    return (await Promise.all(changed)).includes(true);
  }

  /** A scale set of the list that is cached; undefined when that lacks it. */
  async find(id: string): Promise<ScaleSetRecord | undefined> {
    const scaleSets = await this.inGroup(parseArmPath(id)?.resourceGroup ?? "").get("cached");
    return scaleSets.find((one) => sameName(one.id, id));
  }

  /** Replaces the list's entry by the reply to a write. */
  store(written: VirtualMachineScaleSet): void {
    const record = scaleSetRecord(written);
    const list = this.inGroup(record.resourceGroup);
    if (written.virtualMachineProfile?.networkProfile === undefined) list.forget();
    else list.change((all) => all.map((one) => (sameName(one.id, record.id) ? record : one)));
  }

  /** True when the last list of the group found that the group does not exist. */
  isMissing(resourceGroup: string): boolean {
    return this.inGroup(resourceGroup).last === noSuchGroup;
  }

  reads(name: ScaleSetName): ScaleSetReads {
    const key = keyOf(name.resourceGroup, name.scaleSet);
    const reads = this.#bySet.get(key) ?? this.#make(name);
    this.#bySet.set(key, reads);
    return reads;
  }

  /** Called when a node is deleted: the next one of its name may be another VM. */
  forgetName(nodeName: string): void {
    for (const { instances } of this.#bySet.values()) instances.last?.forgetName(nodeName, this.#clock.monotonic());
  }

  /** Drops what was read of scale sets that no longer exist. */
  #forgetOthers(group: string, scaleSets: readonly ScaleSetRecord[]): void {
    const present = new Set(scaleSets.map(({ name }) => keyOf(group, name)));
    for (const key of this.#bySet.keys())
      if (key.startsWith(keyOf(group, "")) && !present.has(key)) this.#bySet.delete(key);
  }

  #make(name: ScaleSetName): ScaleSetReads {
    const clients = this.#clients;
    const ttl = this.#config.vmssVirtualMachinesCacheTTLInSeconds;
    const expand = this.#config.listVmssVirtualMachinesWithoutInstanceView ? undefined : "instanceView";
    const clock = this.#clock;
    const instances: SharedRead<VmTable<InstanceRecord>> = this.#shared(ttl, async (publish) => {
      const beganMs = clock.monotonic();
      const table = await listInstances(clients, name, expand, publish);
      return table.inherit(instances.last, beganMs, clock.monotonic());
    });
    const interfaces = this.#shared(ttl, (publish: Publish<ReadonlyMap<string, InterfaceRecord>>) =>
      listInterfaces(clients, name, publish),
    );
    const publicAddresses = this.#shared(ttl, () => listPublicAddresses(clients, name));
    const read = (instanceId: string) => getInstance(clients, name, instanceId);
    const onAbsent = (): void => {
      interfaces.forget();
      publicAddresses.forget();
    };
    const isComplete = (record: InstanceRecord): boolean => record.interfaces.length > 0;
    const freshLookups = new FreshLookups(instances, { clock, ttlMs: this.#ttlMs(ttl), read, isComplete, onAbsent });
    return { instances, interfaces, publicAddresses, freshLookups };
  }

  #shared<Value>(ttlSeconds: number, read: (publish: Publish<Value>) => Promise<Value>): SharedRead<Value> {
    return new SharedRead({ clock: this.#clock, ttlMs: this.#ttlMs(ttlSeconds), read });
  }

  #ttlMs(seconds: number): number {
    return this.#config.disableAPICallCache ? 0 : seconds * 1000;
  }
}

const keyOf = (resourceGroup: string, scaleSet: string): string => `${resourceGroup}/${scaleSet}`.toLowerCase();

const modelsOf = (scaleSets: readonly ScaleSetRecord[] = []): ReadonlyMap<string, ScaleSetRecord["interfaces"]> =>
  new Map(scaleSets.map(({ id, interfaces }) => [id.toLowerCase(), interfaces]));

const noSuchGroup: readonly ScaleSetRecord[] = [];

async function listScaleSets(clients: ArmClients, resourceGroup: string): Promise<readonly ScaleSetRecord[]> {
  const records: ScaleSetRecord[] = [];
  try {
    for await (const scaleSet of clients.compute.virtualMachineScaleSets.list(resourceGroup))
      records.push(scaleSetRecord(scaleSet));
  } catch (error) {
    if (error instanceof ArmError && error.code === "ResourceGroupNotFound") return noSuchGroup;
    throw error;
  }
  return records;
}

/** A scale set that does not exist has no instances. */
async function listInstances(
  clients: ArmClients,
  { resourceGroup, scaleSet }: ScaleSetName,
  expand: string | undefined,
  publish: Publish<VmTable<InstanceRecord>>,
): Promise<VmTable<InstanceRecord>> {
  const table = new VmTable<InstanceRecord>();
  const options = expand === undefined ? {} : { expand };
  try {
    for await (const page of clients.compute.virtualMachineScaleSetVMs
      .list(resourceGroup, scaleSet, options)
      .byPage()) {
      const records = page.map(instanceRecord).filter((record) => record !== undefined);
      table.addPage(records.map((record) => [record.instanceId, record]));
      publish(table);
    }
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return new VmTable();
  }
  return table;
}

/** A reply without a network profile is an incomplete one: the instance exists. */
async function getInstance(
  clients: ArmClients,
  { resourceGroup, scaleSet }: ScaleSetName,
  instanceId: string,
): Promise<InstanceRecord | undefined> {
  const { virtualMachineScaleSetVMs } = clients.compute;
  const options = { expand: "instanceView" } as const;
  const vm = await unlessAbsent(virtualMachineScaleSetVMs.get(resourceGroup, scaleSet, instanceId, options));
  return vm && (instanceRecord(vm) ?? instanceRecord({ ...vm, networkProfile: { networkInterfaces: [] } }));
}

async function listInterfaces(
  clients: ArmClients,
  { resourceGroup, scaleSet }: ScaleSetName,
  publish: Publish<ReadonlyMap<string, InterfaceRecord>>,
): Promise<ReadonlyMap<string, InterfaceRecord>> {
  const interfaces = new Map<string, InterfaceRecord>();
  const list = clients.vmNetwork.networkInterfaces;
  for await (const page of list.listVirtualMachineScaleSetNetworkInterfaces(resourceGroup, scaleSet).byPage()) {
    for (const record of page.map(interfaceRecord)) interfaces.set(record.id.toLowerCase(), record);
    publish(interfaces);
  }
  return interfaces;
}

async function listPublicAddresses(
  clients: ArmClients,
  { resourceGroup, scaleSet }: ScaleSetName,
): Promise<ReadonlyMap<string, string>> {
  const addresses = new Map<string, string>();
  const list = clients.vmNetwork.publicIPAddresses;
  for await (const publicIP of list.listVirtualMachineScaleSetPublicIPAddresses(resourceGroup, scaleSet))
    for (const [id, address] of addressEntry(publicIP)) addresses.set(id, address);
  return addresses;
}
