import type { VirtualMachineScaleSetVM } from "@azure/arm-compute";
import type { LoadBalancer } from "@azure/arm-network";
import { forEachConcurrently, type Node } from "cloud-controller-host/sdk";

import { SharedRead, SharedReads } from "../../arm/reads/shared-read.ts";
import { lastSegment } from "../../arm/resource-id.ts";
import { inTime } from "../../arm/writes/in-time.ts";
import { groupOf } from "../model/ids.ts";
import type { PoolMember } from "../model/model.ts";
import type { ReleasePools, UpdateMembers } from "../model/plan-model.ts";
import { editInstance, editInterface, readInstance, readInstances } from "./instance-pools.ts";
import { addEdit, type Job, joining, leaving, type MembersWrite, type PlannedEdit } from "./member-jobs.ts";
import { instanceIdOf, listMachines, type NetworkedMachine, ownerOf, scaleSetOf } from "./node-instances.ts";
import type { PoolEdit } from "./pool-edits.ts";
import { editedInterfaces, type MemberOptions, ScaleSetModels } from "./scale-set-models.ts";

export interface MembersResult {
  /** Requests that changed something. */
  readonly writes: number;
  /** Writes that did not succeed for some instance, with an error of each. */
  readonly failed: ReadonlyMap<MembersWrite, unknown>;
  /** Writes of which some instance is still being written; each resolves when none is, with an error if one failed. */
  readonly late: ReadonlyMap<MembersWrite, Promise<unknown>>;
}

export interface PoolMembersOptions extends MemberOptions {
  /** The cluster's own: its scale sets are looked at when a load balancer is deleted. */
  readonly resourceGroup: string;
  readonly modelTtlMs: number;
  readonly machineTtlMs: number;
}

/** Instances and interfaces written at once. */
const workers = 32;
/** More instances of one scale set than this are read by a list instead of one by one. */
const fewInstances = 4;
/** How long an instance without a node is taken to exist after ARM said so. */
const existenceMs = 60_000;

/** Membership of network interfaces in backend pools: who is in them, and the writes that change that. */
export class PoolMembers {
  readonly #options: PoolMembersOptions;
  readonly #models: ScaleSetModels;
  readonly #machines: SharedReads<ReadonlyMap<string, NetworkedMachine>>;
  /** Lower-case ids of instances without a node that ARM confirmed, and until when that is believed. */
  readonly #existing = new Map<string, number>();
  /** Resources that are still being written after their batch has gone on, by lower-case id. Each keeps one writer. */
  readonly #late = new Map<string, Promise<unknown>>();

  constructor(options: PoolMembersOptions) {
    const { clients, clock, modelTtlMs, machineTtlMs } = options;
    this.#options = options;
    this.#models = new ScaleSetModels({ ...options, ttlMs: modelTtlMs });
    this.#machines = new SharedReads(
      (group) => new SharedRead({ clock, ttlMs: machineTtlMs, read: () => listMachines(clients, group) }),
    );
  }

  /** Reads the scale sets of a resource group again, because ARM contradicts what is known of them. */
  forgetScaleSets(resourceGroup: string): void {
    this.#models.forget(resourceGroup);
  }

  /** Members of every network-interface pool, by lower-case pool id. */
  async observe(
    loadBalancers: readonly LoadBalancer[],
    nodes: readonly Node[],
  ): Promise<ReadonlyMap<string, readonly PoolMember[]>> {
    const nodeByInstance = new Map(
      nodes.flatMap((node) => {
        const id = instanceIdOf(node);
        return id === undefined ? [] : [[id.toLowerCase(), node.metadata?.name ?? ""] as const];
      }),
    );
    const members = new Map<string, readonly PoolMember[]>();
    const pools = loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
    for (const { id = "", backendIPConfigurations = [] } of pools) {
      const ids = backendIPConfigurations.flatMap((configuration) => configuration.id ?? []);
      members.set(id.toLowerCase(), await this.#resolveAll(id, ids, nodeByInstance));
    }
    return members;
  }

  /** Scale set or availability set of each node, by node name; ARM writes the names of the latter in any case. */
  async vmSets(nodes: readonly Node[]): Promise<ReadonlyMap<string, string>> {
    const sets = new Map<string, string>();
    await forEachConcurrently({ workers }, nodes, async (node) => {
      const instanceId = instanceIdOf(node);
      if (instanceId === undefined) return;
      const machines = scaleSetOf(instanceId) === undefined ? this.#machines.of(groupOf(instanceId)) : undefined;
      const machine = await machines?.find("newer", (all) => all.get(instanceId.toLowerCase()));
      const set = scaleSetOf(instanceId) ?? machine?.scaleSetId ?? machine?.availabilitySetId?.toLowerCase();
      if (set !== undefined) sets.set(node.metadata?.name ?? "", lastSegment(set));
    });
    return sets;
  }

  async #resolveAll(
    poolId: string,
    ids: readonly string[],
    nodeByInstance: ReadonlyMap<string, string>,
  ): Promise<readonly PoolMember[]> {
    const resolved: PoolMember[] = [];
    await forEachConcurrently({ workers }, ids, async (ipConfigurationId, index) => {
      const owner = ownerOf(ipConfigurationId);
      const place = owner?.kind === "interface" ? await unlessFailed(this.#machineOf(owner.id)) : undefined;
      const instanceId = owner?.kind === "instance" ? owner.id : place?.id;
      const scaleSetId = owner?.kind === "instance" ? owner.scaleSetId : place?.scaleSetId;
      const node = instanceId === undefined ? undefined : nodeByInstance.get(instanceId.toLowerCase());
      resolved[index] = {
        ipConfigurationId,
        node,
        gone: node === undefined && owner?.kind === "instance" && (await this.#isGone(owner.id)),
        // Where the model cannot be read, the nodes of the pool join again: their Services fail with its error.
        complete: scaleSetId === undefined || ((await unlessFailed(this.#isInModel(scaleSetId, poolId))) ?? false),
      };
    });
    return resolved;
  }

  async #machineOf(interfaceId: string): Promise<NetworkedMachine | undefined> {
    const wanted = interfaceId.toLowerCase();
    const machines = await this.#machines.of(groupOf(interfaceId)).get("cached");
    return machines.values().find(({ interfaces }) => interfaces.some((id) => id.toLowerCase() === wanted));
  }

  async #isGone(instanceId: string): Promise<boolean> {
    const { clock } = this.#options;
    const key = instanceId.toLowerCase();
    if ((this.#existing.get(key) ?? 0) > clock.monotonic()) return false;
    // Without an answer it is taken to exist.
    const gone = await unlessFailed(readInstance(instanceId, this.#options).then((instance) => instance === undefined));
    if (gone) this.#existing.delete(key);
    else this.#existing.set(key, clock.monotonic() + existenceMs);
    return gone ?? false;
  }

  /** Also true where the model cannot or need not hold the pool, so that nothing is tried again and again. */
  async #isInModel(scaleSetId: string, poolId: string): Promise<boolean> {
    const model = (await this.#models.inGroup(groupOf(scaleSetId))).get(scaleSetId.toLowerCase());
    if (model === undefined) return true;
    return editedInterfaces(model, [joining(poolId)], this.#options) === undefined;
  }

  /**
   * Carries out all membership writes of a stage; an instance that several of them concern is written once. One that
   * takes long is left in flight: it holds up neither the other instances nor the Services of the pool.
   */
  async apply(
    writes: readonly MembersWrite[],
    loadBalancers: readonly LoadBalancer[],
    nodes: readonly Node[],
  ): Promise<MembersResult> {
    const jobs = new Map<string, Job>();
    const failed = new Map<MembersWrite, unknown>();
    for (const write of writes) {
      try {
        const planned =
          write.kind === "update-members" ? this.#update(write, nodes) : this.#release(write, loadBalancers);
        for await (const { id, kind, edit } of planned) addEdit(jobs, write, { id, kind, edit });
      } catch (error) {
        failed.set(write, error);
      }
    }
    // Models first: an instance that starts meanwhile then joins by itself.
    const all = [...jobs.values()];
    const models = all.filter(({ kind }) => kind === "model");
    const others = all.filter(({ kind }) => kind !== "model");
    const late = new Map<MembersWrite, readonly Promise<unknown>[]>();
    let count = await this.#run(models, failed, late);
    count += await this.#run(others, failed, late);
    const settled = [...late].map(([write, ends]) => [write, firstError(ends)] as const);
    return { writes: count, failed, late: new Map(settled) };
  }

  async #run(
    jobs: readonly Job[],
    failed: Map<MembersWrite, unknown>,
    late: Map<MembersWrite, readonly Promise<unknown>[]>,
  ): Promise<number> {
    const wait = ({ reasons }: Job, settled: Promise<unknown>): void => {
      for (const write of reasons) late.set(write, [...(late.get(write) ?? []), settled]);
    };
    const ready = jobs.filter((job) => this.#lateAt(job) === undefined);
    for (const job of jobs) {
      const before = this.#lateAt(job);
      if (before !== undefined) wait(job, before);
    }
    const lists = this.#lists(ready);
    let writes = 0;
    const started = ready.map((job) => ({ job, ...Promise.withResolvers<unknown>() }));
    void forEachConcurrently({ workers }, started, async ({ job, resolve }) => {
      try {
        const listed = await lists.get(scaleSetOf(job.id) ?? "");
        const count = await this.#edit(job, listed?.get(job.id.toLowerCase()));
        writes += count;
        resolve(undefined);
      } catch (error) {
        for (const write of job.reasons) failed.set(write, error);
        resolve(error);
      }
    });
    for (const { job, promise } of await inTime(started, this.#options.clock)) {
      const key = job.id.toLowerCase();
      this.#late.set(key, promise);
      void promise.then(() => this.#late.delete(key));
      wait(job, promise);
    }
    return writes;
  }

  /** An instance waits for the model of its scale set: ARM refuses to write both at once. */
  #lateAt({ id, kind }: Job): Promise<unknown> | undefined {
    const model = kind === "instance" ? scaleSetOf(id)?.toLowerCase() : undefined;
    return this.#late.get(id.toLowerCase()) ?? this.#late.get(model ?? "");
  }

  #edit({ id, kind, edits }: Pick<Job, "id" | "kind" | "edits">, known: VirtualMachineScaleSetVM | undefined) {
    if (kind === "model") return this.#models.edit(id, edits);
    if (kind === "interface") return editInterface(id, edits, this.#options);
    return editInstance(id, edits, known, this.#options);
  }

  /** By lower-case id, the instances of each scale set of which several are to be written. A failed list fails its jobs. */
  #lists(jobs: readonly Job[]): ReadonlyMap<string, Promise<ReadonlyMap<string, VirtualMachineScaleSetVM>>> {
    const instances = jobs.filter(({ kind }) => kind === "instance");
    const bySet = Map.groupBy(instances, ({ id }) => scaleSetOf(id) ?? "");
    const many = [...bySet].filter(([, ofSet]) => ofSet.length > fewInstances);
    const lists = new Map(many.map(([scaleSetId]) => [scaleSetId, readInstances(scaleSetId, this.#options)]));
    // A job may begin to wait for it only after it has failed.
    for (const list of lists.values()) list.catch(() => undefined);
    return lists;
  }

  async *#update({ id, family, join, leave }: UpdateMembers, nodes: readonly Node[]): AsyncGenerator<PlannedEdit> {
    const wanted = new Set(join);
    const edit: PoolEdit = { poolId: id, family, change: "join" };
    const scaleSets = new Set<string>();
    for (const node of nodes) {
      const instanceId = wanted.has(node.metadata?.name ?? "") ? instanceIdOf(node) : undefined;
      if (instanceId === undefined) continue;
      const uniform = scaleSetOf(instanceId);
      if (uniform === undefined) {
        const machine = await this.#machines
          .of(groupOf(instanceId))
          .find("newer", (machines) => machines.get(instanceId.toLowerCase()));
        if (machine?.primary !== undefined) yield { id: machine.primary, kind: "interface", edit };
        if (machine?.scaleSetId !== undefined) scaleSets.add(machine.scaleSetId);
      } else {
        yield { id: instanceId, kind: "instance", edit };
        scaleSets.add(uniform);
      }
    }
    for (const scaleSetId of scaleSets)
      if (await this.#needs(scaleSetId, edit)) yield { id: scaleSetId, kind: "model", edit };
    for (const ipConfigurationId of leave) yield* leaving(ipConfigurationId, { ...edit, change: "leave" });
  }

  async #needs(scaleSetId: string, edit: PoolEdit): Promise<boolean> {
    const model = (await this.#models.inGroup(groupOf(scaleSetId))).get(scaleSetId.toLowerCase());
    return model !== undefined && editedInterfaces(model, [edit], this.#options) !== undefined;
  }

  async *#release({ poolIds }: ReleasePools, loadBalancers: readonly LoadBalancer[]) {
    const released = new Set(poolIds.map((id) => id.toLowerCase()));
    const pools = loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
    const groups = new Set([this.#options.resourceGroup.toLowerCase()]);
    for (const { id = "", backendIPConfigurations = [] } of pools) {
      if (!released.has(id.toLowerCase())) continue;
      const edit: PoolEdit = { poolId: id, family: "IPv4", change: "leave" };
      for (const configuration of backendIPConfigurations) {
        groups.add(groupOf(configuration.id));
        yield* leaving(configuration.id ?? "", edit);
      }
    }
    for (const group of groups)
      for (const { id } of (await this.#models.inGroup(group)).values())
        for (const poolId of poolIds) {
          const edit: PoolEdit = { poolId, family: "IPv4", change: "leave" };
          if (await this.#needs(id, edit)) yield { id, kind: "model" as const, edit };
        }
  }
}

/** What one member needs must not fail the Services that do without it. */
const unlessFailed = <T>(read: Promise<T>): Promise<T | undefined> => read.catch(() => undefined);

const firstError = async (all: readonly Promise<unknown>[]): Promise<unknown> =>
  (await Promise.all(all)).find((error) => error !== undefined);
