import type { LoadBalancer } from "@azure/arm-network";
import type { Node } from "cloud-controller-host/sdk";

import { groupOf } from "../../arm/resource-id.ts";
import { scaleSetIdOf, vmIdOf } from "../../instances/provider-id.ts";
import type { VirtualMachineRecord } from "../../instances/virtual-machine-record.ts";
import { findPrimary } from "../../instances/vm-rules.ts";
import type { ReleasePools, UpdateMembers } from "../model/plan-model.ts";
import { JobRunner, type Run } from "./job-runner.ts";
import { addEdit, isModel, type Job, leaving, type MembersWrite, type PlannedEdit } from "./member-jobs.ts";
import type { MemberOptions } from "./member-write.ts";
import type { PoolEdit } from "./pool-edits.ts";
import type { PoolReads } from "./pool-reads.ts";

export interface MembersResult {
  /** Requests that changed something. */
  readonly writes: number;
  /** Writes that did not succeed for some instance, with an error of each. */
  readonly failed: ReadonlyMap<MembersWrite, unknown>;
  /** Writes with jobs that are left in flight. Each promise resolves when one has ended, with its error. */
  readonly late: ReadonlyMap<MembersWrite, readonly Promise<unknown>[]>;
}

export interface PoolMembersOptions extends MemberOptions {
  /** The cluster's own: its scale sets are looked at when a load balancer is deleted. */
  readonly resourceGroup: string;
  readonly reads: PoolReads;
  /**
   * Called when the models of scale sets are to be looked at again: one was written, or an instance had to join although
   * its model seemed to name the pool.
   */
  readonly lookAtModels?: () => void;
}

interface Found {
  readonly vmId: string;
  readonly vm: VirtualMachineRecord | undefined;
}

/** Writes of the membership of network interfaces in backend pools. */
export class PoolMembers {
  readonly #options: PoolMembersOptions;
  readonly #runner: JobRunner;

  constructor(options: PoolMembersOptions) {
    this.#options = options;
    this.#runner = new JobRunner(options);
  }

  get reads(): PoolReads {
    return this.#options.reads;
  }

  /**
   * Carries out membership writes together: an instance that several of them concern is written once. A slow
   * one is left in flight.
   */
  async apply(
    writes: readonly MembersWrite[],
    loadBalancers: readonly LoadBalancer[],
    nodes: readonly Node[],
  ): Promise<MembersResult> {
    const { jobs, failed } = await this.#jobs(writes, loadBalancers, nodes);
    const models = jobs.filter(isModel);
    const doubts = this.#doubts(models);
    const written = (job: Job): void => (isModel(job) ? this.#options.lookAtModels?.() : doubts.add(job));
    const run: Run = { writes: 0, failed, late: new Map(), written, running: new Set() };
    // A model comes before its instances: one that starts meanwhile then joins by itself. Those of a uniform scale set find it
    // in flight; an interface may be one of any flexible scale set.
    const ofModels = this.#runner.run(models, run);
    const ofKind = (kind: Job["kind"]): Promise<void> =>
      this.#runner.run(
        jobs.filter((job) => job.kind === kind),
        run,
      );
    await Promise.all([ofKind("instance"), ofModels.then(() => ofKind("interface"))]);
    if (doubts.scaleSets.size > 0) await this.#runModels(writes, nodes, run);
    return { writes: run.writes, failed, late: run.late };
  }

  /**
   * An instance had to join although nothing was to be written in the model of its scale set: that may be another one,
   * created under the name of the one that was read.
   */
  #doubts(models: readonly Job[]) {
    const written = new Set(models.map(({ id }) => id.toLowerCase()));
    const scaleSets = new Set<string>();
    const add = ({ id, edits }: Job): void => {
      const scaleSet = scaleSetIdOf(id)?.toLowerCase() ?? "";
      if (scaleSet === "" || written.has(scaleSet) || scaleSets.has(scaleSet)) return;
      if (edits.every(({ change }) => change === "leave")) return;
      scaleSets.add(scaleSet);
      this.#options.reads.forgetScaleSets(groupOf(id));
      this.#options.lookAtModels?.();
    };
    return { scaleSets, add };
  }

  /** Writes the models that a current list shows to need it. */
  async #runModels(writes: readonly MembersWrite[], nodes: readonly Node[], run: Run): Promise<void> {
    const { jobs, failed } = await this.#jobs(
      writes.filter(({ kind }) => kind === "update-members"),
      [],
      nodes,
    );
    for (const [write, error] of failed) run.failed.set(write, error);
    await this.#runner.run(jobs.filter(isModel), run);
  }

  /** Begins the reads of writes that are planned and cannot start yet. Never rejects. */
  async prepare(
    writes: readonly MembersWrite[],
    loadBalancers: readonly LoadBalancer[],
    nodes: readonly Node[],
  ): Promise<void> {
    const { jobs } = await this.#jobs(writes, loadBalancers, nodes);
    this.#runner.prepare(jobs);
  }

  async #jobs(
    writes: readonly MembersWrite[],
    loadBalancers: readonly LoadBalancer[],
    nodes: readonly Node[],
  ): Promise<{ readonly jobs: readonly Job[]; readonly failed: Map<MembersWrite, unknown> }> {
    const jobs = new Map<string, Job>();
    const failed = new Map<MembersWrite, unknown>();
    const planned = writes.map(async (write) => {
      const edits: PlannedEdit[] = [];
      try {
        const ofWrite =
          write.kind === "update-members" ? this.#update(write, nodes) : this.#release(write, loadBalancers);
        for await (const edit of ofWrite) edits.push(edit);
      } catch (error) {
        failed.set(write, error);
      }
      return { write, edits };
    });
    for (const { write, edits } of await Promise.all(planned)) for (const edit of edits) addEdit(jobs, write, edit);
    return { jobs: [...jobs.values()], failed };
  }

  async *#update({ id, family, join, leave }: UpdateMembers, nodes: readonly Node[]): AsyncGenerator<PlannedEdit> {
    const wanted = new Set(join);
    const edit: PoolEdit = { poolId: id, family, change: "join" };
    const scaleSets = new Set<string>();
    const vms: Promise<Found>[] = [];
    for (const node of nodes) {
      const vmId = wanted.has(node.metadata?.name ?? "") ? vmIdOf(node) : undefined;
      if (vmId === undefined) continue;
      const uniform = scaleSetIdOf(vmId);
      if (uniform === undefined) vms.push(this.#options.reads.vm(vmId).then((vm) => ({ vmId, vm })));
      else {
        yield { id: vmId, kind: "instance", edit };
        scaleSets.add(uniform);
      }
    }
    for (const { vmId, vm } of await Promise.all(vms)) {
      // A list may lack it for a while, and the node is ready: it is tried again.
      if (vm === undefined) this.#options.skipped?.(vmId);
      const primary = findPrimary(vm?.interfaces ?? []);
      if (primary !== undefined) yield { id: primary.id, kind: "interface", edit };
      if (vm?.scaleSetId !== undefined) scaleSets.add(vm.scaleSetId);
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
