import { CodedError, InstanceNotFoundError, type Node } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import { sameName } from "../arm/resource-id.ts";
import type { MachineTable } from "./confirmations.ts";
import { isDeleting, primaryConfiguration, primaryInterface, zoneOf } from "./machine-rules.ts";
import { Missing } from "./missing.ts";
import type { NodePlaces } from "./node-places.ts";
import { parseComputerName, parseProviderID, providerIDOf } from "./provider-id.ts";
import type { InstanceRecord, ScaleSetRecord } from "./records.ts";
import type { ScaleSetCatalog, ScaleSetName, ScaleSetReads } from "./scale-set-reads.ts";
import type { Freshness } from "./shared-read.ts";
import type { Machine, MachineAddresses, VmSet } from "./vm-set.ts";

/** A list that lacks what should be in it is read again at most this often, for all who miss something in it. */
const missGapMs = 1_000;

/** Instances of uniform scale sets. Source: cloud-provider-azure `azure_vmss.go`, `azure_vmss_cache.go`. */
export class UniformScaleSets implements VmSet {
  readonly #catalog: ScaleSetCatalog;
  readonly #places: NodePlaces;
  readonly #missing: Missing;
  readonly #subscription: string;

  constructor(catalog: ScaleSetCatalog, places: NodePlaces, missing: Missing, clients: ArmClients) {
    this.#catalog = catalog;
    this.#places = places;
    this.#missing = missing;
    this.#subscription = clients.computeSubscription;
  }

  async find(node: Node, freshness: Freshness): Promise<Machine | undefined> {
    const key = node.spec?.providerID || (node.metadata?.name ?? "");
    if (freshness === "cached" && this.#missing.has(key)) return undefined;
    const found = await this.#locate(node, freshness);
    if (found === undefined || isDeleting(found.record)) {
      this.#missing.add(key);
      return undefined;
    }
    return machineOf(found);
  }

  async exists(node: Node): Promise<boolean> {
    const providerID = node.spec?.providerID ?? "";
    if (providerID !== "") {
      const { name, ...scaleSet } = this.#parse(providerID);
      const record = await this.#catalog.reads(scaleSet).confirmations.ask(name);
      return record !== undefined && !isDeleting(record);
    }
    const name = node.metadata?.name ?? "";
    for (const scaleSet of await this.#candidates(node, "fresh")) {
      const record = await confirmByName(this.#catalog.reads(nameOf(scaleSet)), name);
      if (record !== undefined && !isDeleting(record)) return true;
    }
    return false;
  }

  async setTags(node: Node): Promise<Readonly<Record<string, string>> | undefined> {
    const providerID = node.spec?.providerID ?? "";
    if (providerID === "") return (await this.#candidates(node, "cached"))[0]?.tags;
    const { resourceGroup, scaleSet } = this.#parse(providerID);
    const list = this.#catalog.inGroup(resourceGroup);
    const named = (records: readonly ScaleSetRecord[]): ScaleSetRecord | undefined =>
      records.find((record) => sameName(record.name, scaleSet));
    const records = await list.get("cached");
    return (named(records) ?? named(await list.newer(records, missGapMs)))?.tags;
  }

  async #locate(node: Node, freshness: Freshness): Promise<Located | undefined> {
    const providerID = node.spec?.providerID ?? "";
    if (providerID !== "") {
      const { name, ...scaleSet } = this.#parse(providerID);
      return locateIn(this.#catalog.reads(scaleSet), freshness, (table) => table.byKey.get(name));
    }
    const name = (node.metadata?.name ?? "").toLowerCase();
    for (const scaleSet of await this.#candidates(node, freshness)) {
      const reads = this.#catalog.reads(nameOf(scaleSet));
      const found = await locateIn(reads, freshness, (table) => table.byName.get(name));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The scale sets whose computer names begin as the node's name does; its own resource group comes first. */
  async #candidates(node: Node, freshness: Freshness): Promise<readonly ScaleSetRecord[]> {
    const prefix = parseComputerName(node.metadata?.name ?? "")?.prefix;
    if (prefix === undefined) return [];
    const fitting = (records: readonly ScaleSetRecord[]): readonly ScaleSetRecord[] =>
      records.filter((record) => record.uniform && sameName(record.prefix, prefix));
    for (const group of this.#places.groupsFor(node)) {
      const found = fitting(await this.#catalog.inGroup(group).get(freshness));
      if (found.length > 0) return found;
    }
    if (freshness === "fresh") return [];
    for (const group of this.#places.groupsFor(node)) {
      const list = this.#catalog.inGroup(group);
      const found = fitting(await list.newer(list.last ?? [], missGapMs));
      if (found.length > 0) return found;
    }
    return [];
  }

  /** A machine of another subscription cannot be asked after, which is no reason to think that it is gone. */
  #parse(providerID: string): ScaleSetName & { readonly name: string } {
    const { subscription, resourceGroup, scaleSet, name } = parseProviderID(providerID);
    if (!sameName(subscription, this.#subscription))
      throw new CodedError(
        "OtherSubscription",
        `providerID "${providerID}" is in another subscription than this config's (${this.#subscription})`,
      );
    if (scaleSet === undefined)
      throw new CodedError("NotAnInstance", `providerID "${providerID}" names no scale-set instance`);
    return { resourceGroup, scaleSet, name };
  }
}

interface Located {
  readonly record: InstanceRecord;
  readonly reads: ScaleSetReads;
}

const nameOf = (record: ScaleSetRecord): ScaleSetName => ({
  resourceGroup: record.resourceGroup,
  scaleSet: record.name,
});

/** A row that the cached list lacks is looked for in a newer one, which all who miss something share. */
async function locateIn(
  reads: ScaleSetReads,
  freshness: Freshness,
  pick: (table: MachineTable<InstanceRecord>) => InstanceRecord | undefined,
): Promise<Located | undefined> {
  const table = await reads.instances.get(freshness);
  const record =
    pick(table) ?? (freshness === "cached" ? pick(await reads.instances.newer(table, missGapMs)) : undefined);
  return record === undefined ? undefined : { record, reads };
}

/** By the instance id that the name ends in; where that is another machine's, by the name in a fresh list. */
async function confirmByName(reads: ScaleSetReads, nodeName: string): Promise<InstanceRecord | undefined> {
  const instanceId = parseComputerName(nodeName)?.instanceId;
  const record = instanceId === undefined ? undefined : await reads.confirmations.ask(instanceId);
  if (record !== undefined && sameName(record.computerName, nodeName)) return record;
  return (await reads.instances.get("fresh")).byName.get(nodeName.toLowerCase());
}

function machineOf({ record, reads }: Located): Machine {
  return {
    providerID: providerIDOf(record.id),
    instanceType: record.instanceType,
    location: record.location,
    state: () => Promise.resolve(record),
    zone() {
      const zone = zoneOf(record);
      if (zone !== undefined) return zone;
      reads.instances.forget();
      throw new CodedError(
        "NoZone",
        `failed to get zone info of ${record.id}: it has neither a zone nor a fault domain`,
      );
    },
    addresses: (freshness) => addressesOf(record, reads, freshness),
  };
}

async function addressesOf(
  record: InstanceRecord,
  reads: ScaleSetReads,
  freshness: Freshness,
): Promise<MachineAddresses> {
  const id = primaryInterface(record.interfaces, record.id).id.toLowerCase();
  const interfaces = await reads.interfaces.get(freshness);
  const nic = interfaces.get(id) ?? (await reads.interfaces.newer(interfaces, missGapMs)).get(id);
  if (nic === undefined) throw new InstanceNotFoundError(`instance not found: no network interface ${id}`);
  const { privateIP, publicIPId } = primaryConfiguration(nic);
  const publicIP =
    publicIPId === undefined ? undefined : await publicAddress(reads, publicIPId.toLowerCase(), freshness);
  return { privateIP, publicIP };
}

async function publicAddress(reads: ScaleSetReads, id: string, freshness: Freshness): Promise<string | undefined> {
  const addresses = await reads.publicAddresses.get(freshness);
  return addresses.get(id) ?? (await reads.publicAddresses.newer(addresses, missGapMs)).get(id);
}
