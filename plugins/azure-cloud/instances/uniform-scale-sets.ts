import { CodedError, InstanceNotFoundError, type Node } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import type { Freshness } from "../arm/reads/shared-read.ts";
import { sameName } from "../arm/resource-id.ts";
import type { NodeResourceGroups } from "./node-resource-groups.ts";
import { parseComputerName, parseOwn, providerIDOf } from "./provider-id.ts";
import type { InstanceRecord, ScaleSetRecord } from "./records.ts";
import type { ScaleSetCatalog, ScaleSetName, ScaleSetReads } from "./scale-set-reads.ts";
import { vmAddresses, vmPrivateIPs } from "./vm-addresses.ts";
import { isDeleting, noZone, unlessDeleting, zoneOf } from "./vm-rules.ts";
import type { FindPurpose, Vm, VmSet } from "./vm-set.ts";

interface Located {
  readonly record: InstanceRecord;
  readonly reads: ScaleSetReads;
}

/** The lists of scale sets to search, in this order: a single list that lacks a scale set proves nothing. */
const candidateReads = {
  cached: ["cached"],
  newer: ["cached", "newer"],
  fresh: ["fresh", "fresh"],
} as const satisfies Record<Freshness, readonly Freshness[]>;

/** Instances of uniform scale sets. Source: cloud-provider-azure `azure_vmss.go`, `azure_vmss_cache.go`. */
export class UniformScaleSets implements VmSet {
  readonly #catalog: ScaleSetCatalog;
  readonly #resourceGroups: NodeResourceGroups;
  readonly #subscription: string;

  constructor(catalog: ScaleSetCatalog, resourceGroups: NodeResourceGroups, clients: ArmClients) {
    this.#catalog = catalog;
    this.#resourceGroups = resourceGroups;
    this.#subscription = clients.computeSubscription;
  }

  async find(node: Node, freshness: Freshness, purpose: FindPurpose = "existence"): Promise<Vm | undefined> {
    const located = node.spec?.providerID
      ? await this.#locateByID(node.spec.providerID, freshness, purpose)
      : await this.#locateByName(node, freshness, purpose);
    return located === undefined || isDeleting(located.record) ? undefined : vmOf(located);
  }

  async setTags(node: Node): Promise<Readonly<Record<string, string>> | undefined> {
    const providerID = node.spec?.providerID ?? "";
    if (providerID === "") return (await this.#candidates(node, "cached"))[0]?.tags;
    const { resourceGroup, scaleSet } = this.#parse(providerID);
    const list = this.#catalog.inGroup(resourceGroup);
    const record = await list.find("newer", (records) => records.find(({ name }) => sameName(name, scaleSet)));
    if (record === undefined) throw new InstanceNotFoundError(`scale set not found: ${scaleSet}`);
    return record.tags;
  }

  async #locateByID(providerID: string, freshness: Freshness, purpose: FindPurpose): Promise<Located | undefined> {
    const { instanceId, ...scaleSet } = this.#parse(providerID);
    const reads = this.#catalog.reads(scaleSet);
    prefetchInterfaces(reads, freshness, purpose);
    const record =
      freshness === "fresh"
        ? await reads.freshLookups.get(instanceId)
        : await reads.instances.find(freshness, (table) => unlessDeleting(table.get(instanceId)));
    return record && { record, reads };
  }

  async #locateByName(node: Node, freshness: Freshness, purpose: FindPurpose): Promise<Located | undefined> {
    const name = (node.metadata?.name ?? "").toLowerCase();
    for (const scaleSet of await this.#candidates(node, freshness)) {
      const reads = this.#catalog.reads({ resourceGroup: scaleSet.resourceGroup, scaleSet: scaleSet.name });
      prefetchInterfaces(reads, freshness, purpose);
      const record =
        freshness === "fresh"
          ? await reads.freshLookups.getByName(name, parseComputerName(name)?.instanceId)
          : await reads.instances.find(freshness, (table) => unlessDeleting(table.getByName(name)));
      if (record !== undefined) return { record, reads };
    }
    return undefined;
  }

  /** The scale sets with the node's computer name prefix, of the first resource group that has any. */
  async #candidates(node: Node, freshness: Freshness): Promise<readonly ScaleSetRecord[]> {
    const prefix = parseComputerName(node.metadata?.name ?? "")?.prefix;
    if (prefix === undefined) return [];
    const matching = (records: readonly ScaleSetRecord[]): readonly ScaleSetRecord[] | undefined => {
      const found = records.filter((record) => record.uniform && sameName(record.prefix, prefix));
      return found.length === 0 ? undefined : found;
    };
    for (const step of candidateReads[freshness])
      for (const group of this.#resourceGroups.groupsFor(node)) {
        const found = await this.#catalog.inGroup(group).find(step, matching);
        if (found !== undefined) return found;
      }
    return [];
  }

  #parse(providerID: string): ScaleSetName & { readonly instanceId: string } {
    const { resourceGroup, scaleSet, name } = parseOwn(providerID, this.#subscription);
    if (scaleSet === undefined)
      throw new CodedError("InvalidProviderID", `providerID "${providerID}" does not name a scale set instance`);
    return { resourceGroup, scaleSet, instanceId: name };
  }
}

/** Lists the interfaces concurrently with the instances: both lists take equally many pages. */
function prefetchInterfaces(reads: ScaleSetReads, freshness: Freshness, purpose: FindPurpose): void {
  if (purpose === "metadata") reads.interfaces.prefetch(freshness);
}

function vmOf({ record, reads }: Located): Vm {
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
    addresses: (freshness) => vmAddresses(record, () => reads, freshness),
    privateIPs: (freshness, areEnough) => vmPrivateIPs(record, () => reads, freshness, areEnough),
  };
}
