import type { LoadBalancer } from "@azure/arm-network";
import { type Clock, forEachConcurrently, type Node } from "cloud-controller-host/sdk";

import { isUnended, unlessAbsent } from "../../arm/errors.ts";
import { groupOf, lastSegment, parseArmPath } from "../../arm/resource-id.ts";
import { ExpiringSet } from "../../instances/expiring-set.ts";
import { ownerOf, scaleSetIdOf, vmIdOf } from "../../instances/provider-id.ts";
import type { VirtualMachineRecord } from "../../instances/virtual-machine-record.ts";
import type { VmReads } from "../../instances/vm-types.ts";
import type { PoolMember } from "../model/model.ts";
import { nodesByVm } from "../model/nodes-by-vm.ts";
import { joining } from "./member-jobs.ts";
import type { EditOptions, PoolEdit } from "./pool-edits.ts";
import { editedModel } from "./scale-set-models.ts";

export interface PoolReadsOptions extends VmReads, EditOptions {
  readonly clock: Clock;
}

/** The VMs of a resource group by their interfaces, in lower case. */
type VmsByInterface = ReadonlyMap<string, VirtualMachineRecord>;

/** State of one observation that the members of all pools share. */
interface Observation {
  readonly nodeOf: (vmId: string) => Node | undefined;
  readonly vmsIn: (resourceGroup: string) => Promise<VmsByInterface>;
}

type Provisioned = Parameters<typeof isUnended>[0];

/** Lookups of nodes at once. */
const workers = 32;
/** Time for which an instance without a node is assumed to exist after ARM has confirmed it. */
const existenceMs = 60_000;

/** The members of backend pools of network interfaces, from the shared reads of VMs. */
export class PoolReads {
  readonly #options: PoolReadsOptions;
  /** Lower-case ids of instances without a node that ARM confirmed. */
  readonly #existing: ExpiringSet;

  constructor(options: PoolReadsOptions) {
    this.#options = options;
    this.#existing = new ExpiringSet(options.clock);
  }

  /** Reads the scale sets of a resource group again, because ARM contradicts what is known of them. */
  forgetScaleSets(resourceGroup: string): void {
    this.#options.scaleSets.inGroup(resourceGroup).forget();
  }

  /** Reads the scale sets again that were read before; true if a model is in other pools than was known. */
  haveModelsChanged(): Promise<boolean> {
    return this.#options.scaleSets.haveModelsChanged();
  }

  /** Begins the lists in which `observe` looks up members that are VMs of nodes. Their failures are left to that. */
  begin(nodes: readonly Node[]): void {
    const { scaleSets, virtualMachines } = this.#options;
    const ids = (): IteratorObject<string> => nodes.values().map((node) => vmIdOf(node) ?? "");
    const instance = ids().find((id) => scaleSetIdOf(id) !== undefined);
    if (instance !== undefined) scaleSets.inGroup(groupOf(instance)).prefetch("cached");
    const [first = ""] = ids().take(1);
    const group = first === instance ? "" : groupOf(first);
    if (group !== "") virtualMachines.inGroup(group).vms.prefetch("cached");
  }

  /**
   * Members of every network-interface pool, by lower-case pool id. A deleted node has its instance unless another one is
   * there: an instance may have joined under another name than before.
   */
  async observe(
    loadBalancers: readonly LoadBalancer[],
    nodes: readonly Node[],
    deleted: readonly Node[] = [],
  ): Promise<ReadonlyMap<string, readonly PoolMember[]>> {
    const [present, gone] = [nodesByVm(nodes), nodesByVm(deleted)];
    const nodeOf = (vmId: string): Node | undefined => present.get(vmId.toLowerCase()) ?? gone.get(vmId.toLowerCase());
    const vms = new Map<string, Promise<VmsByInterface>>();
    const vmsIn = (group: string): Promise<VmsByInterface> =>
      vms.getOrInsertComputed(group, () =>
        unlessFailed(this.#vmsByInterface(group)).then((found) => found ?? new Map()),
      );
    const pools = loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
    const members = pools.map(async ({ id = "", backendIPConfigurations = [] }) => {
      const ids = backendIPConfigurations.flatMap((configuration) => configuration.id ?? []);
      return [id.toLowerCase(), await this.#resolveAll(id, ids, { nodeOf, vmsIn })] as const;
    });
    return new Map(await Promise.all(members));
  }

  /** Scale set or availability set of each node, by node name; ARM writes the names of the latter in any case. */
  async vmSets(nodes: readonly Node[]): Promise<ReadonlyMap<string, string>> {
    const sets = new Map<string, string>();
    await forEachConcurrently({ workers }, nodes, async (node) => {
      const vmId = vmIdOf(node);
      if (vmId === undefined) return;
      const uniform = scaleSetIdOf(vmId);
      const vm = uniform === undefined ? await this.vm(vmId) : undefined;
      const set = uniform ?? vm?.scaleSetId ?? vm?.availabilitySetId?.toLowerCase();
      if (set !== undefined) sets.set(node.metadata?.name ?? "", lastSegment(set));
    });
    return sets;
  }

  async #resolveAll(poolId: string, ids: readonly string[], shared: Observation): Promise<readonly PoolMember[]> {
    const resolved: PoolMember[] = [];
    const complete = new Map<string, Promise<boolean>>();
    // Where the model cannot be read, the nodes of the pool join again: their Services fail with its error.
    const isComplete = (scaleSetId: string): Promise<boolean> =>
      complete.getOrInsertComputed(scaleSetId.toLowerCase(), () =>
        unlessFailed(this.needs(scaleSetId, joining(poolId))).then((needed) => needed === false),
      );
    const work = ids.map(async (ipConfigurationId, index) => {
      const owner = ownerOf(ipConfigurationId);
      const vm =
        owner?.kind === "interface" ? (await shared.vmsIn(groupOf(owner.id))).get(owner.id.toLowerCase()) : undefined;
      const vmId = owner?.kind === "instance" ? owner.id : vm?.id;
      const scaleSetId = owner?.kind === "instance" ? owner.scaleSetId : vm?.scaleSetId;
      const node = vmId === undefined ? undefined : shared.nodeOf(vmId)?.metadata?.name;
      resolved[index] = {
        ipConfigurationId,
        node,
        gone: node === undefined && owner?.kind === "instance" && (await this.#isGone(owner.id)),
        complete: scaleSetId === undefined || (await isComplete(scaleSetId)),
      };
    });
    await Promise.all(work);
    return resolved;
  }

  async #vmsByInterface(resourceGroup: string): Promise<VmsByInterface> {
    const table = await this.#options.virtualMachines.inGroup(resourceGroup).vms.get("cached");
    return new Map(
      table
        .rows()
        .flatMap((vm) => vm.interfaces.map(({ id }): [string, VirtualMachineRecord] => [id.toLowerCase(), vm])),
    );
  }

  /** A VM outside uniform scale sets. */
  vm(vmId: string): Promise<VirtualMachineRecord | undefined> {
    const name = lastSegment(vmId).toLowerCase();
    return this.#options.virtualMachines.inGroup(groupOf(vmId)).vms.find("newer", (table) => table.get(name));
  }

  /** Without an answer the instance is taken to exist. */
  async #isGone(instanceId: string): Promise<boolean> {
    const key = instanceId.toLowerCase();
    if (this.#existing.has(key)) return false;
    const { resourceGroup = "", names: [scaleSet = "", instance = ""] = [] } = parseArmPath(instanceId) ?? {};
    const { freshLookups } = this.#options.scaleSets.reads({ resourceGroup, scaleSet });
    const gone = await unlessFailed(freshLookups.get(instance).then((record) => record === undefined));
    if (gone) this.#existing.delete(key);
    else this.#existing.add(key, existenceMs);
    return gone ?? false;
  }

  /**
   * Those of instances of uniform scale sets and of network interfaces whose last operation has not ended. `cached`: by
   * lists that the passes over nodes share; `fresh`: by reads that begin now.
   */
  async unended(ids: readonly string[], freshness: "cached" | "fresh"): Promise<readonly string[]> {
    const states = await Promise.all(ids.map((id) => this.#provisioned(id, freshness)));
    return ids.filter((_, index) => isUnended(states[index]));
  }

  async #provisioned(id: string, freshness: "cached" | "fresh"): Promise<Provisioned> {
    const { resourceGroup = "", names: [first = "", instance] = [] } = parseArmPath(id) ?? {};
    const { clients, scaleSets, virtualMachines } = this.#options;
    if (instance === undefined)
      return freshness === "fresh"
        ? unlessAbsent(clients.vmNetwork.networkInterfaces.get(resourceGroup, first))
        : (await virtualMachines.interfacesIn(resourceGroup).get("cached")).get(id.toLowerCase());
    const { instances, freshLookups } = scaleSets.reads({ resourceGroup, scaleSet: first });
    return freshness === "fresh" ? freshLookups.get(instance) : (await instances.get("cached")).get(instance);
  }

  /** False where the model cannot or need not change, so that nothing is tried again and again. */
  async needs(scaleSetId: string, edit: PoolEdit): Promise<boolean> {
    const model = await this.#options.scaleSets.find(scaleSetId);
    return model !== undefined && editedModel(model, [edit], this.#options) !== undefined;
  }
}

/** A read that one member needs must not fail Services that do not use it. */
const unlessFailed = <T>(read: Promise<T>): Promise<T | undefined> => read.catch(() => undefined);
