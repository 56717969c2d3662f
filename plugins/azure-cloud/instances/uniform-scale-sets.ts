import { CodedError, type Node } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import { sameName } from "../arm/resource-id.ts";
import { machineAddresses } from "./machine-addresses.ts";
import { isDeleting, noZone, zoneOf } from "./machine-rules.ts";
import type { NodePlaces } from "./node-places.ts";
import { parseComputerName, parseOwn, providerIDOf } from "./provider-id.ts";
import type { InstanceRecord, ScaleSetRecord } from "./records.ts";
import type { ScaleSetCatalog, ScaleSetName, ScaleSetReads } from "./scale-set-reads.ts";
import type { Freshness } from "./shared-read.ts";
import type { Machine, VmSet } from "./vm-set.ts";

/** Instances of uniform scale sets. Source: cloud-provider-azure `azure_vmss.go`, `azure_vmss_cache.go`. */
export class UniformScaleSets implements VmSet {
  readonly #catalog: ScaleSetCatalog;
  readonly #places: NodePlaces;
  readonly #subscription: string;

  constructor(catalog: ScaleSetCatalog, places: NodePlaces, clients: ArmClients) {
    this.#catalog = catalog;
    this.#places = places;
    this.#subscription = clients.computeSubscription;
  }

  async find(node: Node, freshness: Freshness): Promise<Machine | undefined> {
    const found = await this.#locate(node, freshness);
    return found === undefined || isDeleting(found.record) ? undefined : machineOf(found);
  }

  async setTags(node: Node): Promise<Readonly<Record<string, string>> | undefined> {
    const providerID = node.spec?.providerID ?? "";
    if (providerID === "") return (await this.#candidates(node, "cached"))[0]?.tags;
    const { resourceGroup, scaleSet } = this.#parse(providerID);
    const list = this.#catalog.inGroup(resourceGroup);
    const record = await list.find("newer", (records) => records.find(({ name }) => sameName(name, scaleSet)));
    return record?.tags;
  }

  async #locate(node: Node, freshness: Freshness): Promise<Located | undefined> {
    const providerID = node.spec?.providerID ?? "";
    if (providerID !== "") {
      const { name, ...scaleSet } = this.#parse(providerID);
      const reads = this.#catalog.reads(scaleSet);
      const record =
        freshness === "fresh"
          ? await reads.confirmations.ask(name)
          : await reads.instances.find(freshness, (table) => table.byKey.get(name));
      return record && { record, reads };
    }
    const name = (node.metadata?.name ?? "").toLowerCase();
    for (const scaleSet of await this.#candidates(node, freshness)) {
      const reads = this.#catalog.reads({ resourceGroup: scaleSet.resourceGroup, scaleSet: scaleSet.name });
      const record =
        freshness === "fresh"
          ? await confirmByName(reads, name)
          : await reads.instances.find(freshness, (table) => table.byName.get(name));
      if (record !== undefined) return { record, reads };
    }
    return undefined;
  }

  /** The scale sets whose computer names begin as the node's name does; its own resource group comes first. */
  async #candidates(node: Node, freshness: Freshness): Promise<readonly ScaleSetRecord[]> {
    const prefix = parseComputerName(node.metadata?.name ?? "")?.prefix;
    if (prefix === undefined) return [];
    const fitting = (records: readonly ScaleSetRecord[]): readonly ScaleSetRecord[] | undefined => {
      const found = records.filter((record) => record.uniform && sameName(record.prefix, prefix));
      return found.length === 0 ? undefined : found;
    };
    for (const step of freshness === "newer" ? (["cached", "newer"] as const) : [freshness])
      for (const group of this.#places.groupsFor(node)) {
        const found = await this.#catalog.inGroup(group).find(step, fitting);
        if (found !== undefined) return found;
      }
    return [];
  }

  #parse(providerID: string): ScaleSetName & { readonly name: string } {
    const { resourceGroup, scaleSet, name } = parseOwn(providerID, this.#subscription);
    if (scaleSet === undefined)
      throw new CodedError("NotAnInstance", `providerID "${providerID}" names no scale-set instance`);
    return { resourceGroup, scaleSet, name };
  }
}

interface Located {
  readonly record: InstanceRecord;
  readonly reads: ScaleSetReads;
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
      const zone = zoneOf(record, record.faultDomain);
      if (zone !== undefined) return Promise.resolve(zone);
      reads.instances.forget();
      return Promise.reject(noZone(record.id));
    },
    addresses: (freshness) => machineAddresses(record, () => reads, freshness),
  };
}
