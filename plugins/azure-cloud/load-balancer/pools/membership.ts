import type { VirtualMachineScaleSetVM } from "@azure/arm-compute";
import type { LoadBalancer } from "@azure/arm-network";
import { forEachConcurrently, type Node } from "cloud-controller-host/sdk";

import { inTime } from "../../arm/writes/in-time.ts";
import { scaleSetIdOf, vmIdOf } from "../../instances/provider-id.ts";
import { findPrimary } from "../../instances/vm-rules.ts";
import { groupOf } from "../model/ids.ts";
import type { ReleasePools, UpdateMembers } from "../model/plan-model.ts";
import { editInstance, editInterface, type MemberOptions, readInstances } from "./instance-pools.ts";
import { addEdit, type Job, leaving, type MembersWrite, type PlannedEdit } from "./member-jobs.ts";
import type { PoolEdit } from "./pool-edits.ts";
import type { PoolReads } from "./pool-reads.ts";
import { editModel } from "./scale-set-models.ts";

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
  readonly reads: PoolReads;
}

/** Instances and interfaces written at once. */
const workers = 32;
/** More instances of one scale set than this are read by a list instead of one by one. */
const fewInstances = 4;
/** Writes of the membership of network interfaces in backend pools. */
export class PoolMembers {
  readonly #options: PoolMembersOptions;
  /** Resources that are still being written after their batch has gone on, by lower-case id. Each keeps one writer. */
  readonly #late = new Map<string, Promise<unknown>>();

  constructor(options: PoolMembersOptions) {
    this.#options = options;
  }

  get reads(): PoolReads {
    return this.#options.reads;
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
        const listed = await lists.get(scaleSetIdOf(job.id) ?? "");
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
    const model = kind === "instance" ? scaleSetIdOf(id)?.toLowerCase() : undefined;
    return this.#late.get(id.toLowerCase()) ?? this.#late.get(model ?? "");
  }

  #edit({ id, kind, edits }: Pick<Job, "id" | "kind" | "edits">, known: VirtualMachineScaleSetVM | undefined) {
    if (kind === "model") return editModel(id, edits, this.#options);
    if (kind === "interface") return editInterface(id, edits, this.#options);
    return editInstance(id, edits, known, this.#options);
  }

  /** By lower-case id, the instances of each scale set of which several are to be written. A failed list fails its jobs. */
  #lists(jobs: readonly Job[]): ReadonlyMap<string, Promise<ReadonlyMap<string, VirtualMachineScaleSetVM>>> {
    const instances = jobs.filter(({ kind }) => kind === "instance");
    const bySet = Map.groupBy(instances, ({ id }) => scaleSetIdOf(id) ?? "");
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
      const vmId = wanted.has(node.metadata?.name ?? "") ? vmIdOf(node) : undefined;
      if (vmId === undefined) continue;
      const uniform = scaleSetIdOf(vmId);
      if (uniform === undefined) {
        const vm = await this.#options.reads.vm(vmId);
        const primary = findPrimary(vm?.interfaces ?? []);
        if (primary !== undefined) yield { id: primary.id, kind: "interface", edit };
        if (vm?.scaleSetId !== undefined) scaleSets.add(vm.scaleSetId);
      } else {
        yield { id: vmId, kind: "instance", edit };
        scaleSets.add(uniform);
      }
    }
    for (const scaleSetId of scaleSets)
      if (await this.#options.reads.needs(scaleSetId, edit)) yield { id: scaleSetId, kind: "model", edit };
    for (const ipConfigurationId of leave) yield* leaving(ipConfigurationId, { ...edit, change: "leave" });
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
      for (const { id } of await this.#options.scaleSets.inGroup(group).get("cached"))
        for (const poolId of poolIds) {
          const edit: PoolEdit = { poolId, family: "IPv4", change: "leave" };
          if (await this.#options.reads.needs(id, edit)) yield { id, kind: "model" as const, edit };
        }
  }
}

const firstError = async (all: readonly Promise<unknown>[]): Promise<unknown> =>
  (await Promise.all(all)).find((error) => error !== undefined);
