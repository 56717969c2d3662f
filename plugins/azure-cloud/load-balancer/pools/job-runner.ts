import type { VirtualMachineScaleSet, VirtualMachineScaleSetVM } from "@azure/arm-compute";
import type { Clock } from "cloud-controller-host/sdk";

import { ReadsAhead } from "../../arm/reads/reads-ahead.ts";
import { isRefused, isRejected } from "../../arm/writes/write-errors.ts";
import { ExpiringSet } from "../../instances/expiring-set.ts";
import { scaleSetIdOf } from "../../instances/provider-id.ts";
import { editInstance, readInstances } from "./instance-pools.ts";
import { editInterface } from "./interface-pools.ts";
import { familiesOf, isModel, type Job, type MembersWrite } from "./member-jobs.ts";
import type { MemberOptions } from "./member-write.ts";
import { leavingMissing } from "./missing-pools.ts";
import { readScaleSet, ScaleSetModels } from "./scale-set-models.ts";
import { WriteWindow } from "./write-window.ts";

/** More instances of one scale set than this are read by a list instead of one by one. */
const fewInstances = 4;
/** Time to wait for an instance; most take a few seconds. */
const patienceMs = 10_000;
/** Maximum age of a read ahead. A resource that has changed since is read again because of its etag. */
const aheadMs = 30_000;
/** For so long, an instance that ARM refused to write for both families is written for each right away. */
const dividedMs = 10 * 60_000;

/** Outcome of the writes of some jobs. */
export interface Run {
  /** Requests that changed something. */
  writes: number;
  readonly failed: Map<MembersWrite, unknown>;
  /** Writes with jobs that are left in flight. Each promise resolves when one has ended, with its error. */
  readonly late: Map<MembersWrite, readonly Promise<unknown>[]>;
  /** Receives each job that changed something, also after the run. */
  readonly written: (job: Job) => void;
  /** Those in flight, which share the places of one window. */
  readonly running: Set<Promise<void>>;
}

type Instances = ReadonlyMap<string, VirtualMachineScaleSetVM>;

interface Started {
  readonly job: Job;
  readonly promise: Promise<unknown>;
}

/** A job that waits for another one. */
interface Before extends Started {
  readonly startedMs: number;
}

/**
 * Writes instances, interfaces and models, each with one write at a time. A slow one is left in flight: it holds
 * up neither the others nor the Services of the pool.
 */
export class JobRunner {
  readonly #options: MemberOptions;
  readonly #window: WriteWindow;
  /** By lower-case id of the resource. */
  readonly #inFlight = new Map<string, Omit<Before, "job">>();
  /** By id of the scale set. */
  readonly #instancesAhead: ReadsAhead<Instances>;
  readonly #models: ScaleSetModels;
  readonly #modelsAhead: ReadsAhead<VirtualMachineScaleSet | undefined>;
  readonly #unrepaired: ExpiringSet;
  /** Lower-case ids of those that ARM has refused to write for both families. */
  readonly #divided: ExpiringSet;

  constructor(options: MemberOptions) {
    this.#options = options;
    this.#divided = new ExpiringSet(options.clock);
    this.#unrepaired = new ExpiringSet(options.clock);
    this.#models = new ScaleSetModels(options);
    this.#window = new WriteWindow(options.clock, options.clients.budget);
    const ahead = { clock: options.clock, maxAgeMs: aheadMs };
    this.#instancesAhead = new ReadsAhead({ ...ahead, read: (id) => readInstances(id, options) });
    this.#modelsAhead = new ReadsAhead({ ...ahead, read: (id) => readScaleSet(id, options) });
  }

  /** Begins reads that the jobs will need, while something else is being waited for. */
  prepare(jobs: readonly Job[]): void {
    for (const { id } of jobs.filter(isModel)) this.#modelsAhead.begin(id);
    this.#listInstances(jobs);
  }

  #listInstances(jobs: readonly Job[]): void {
    for (const [id] of manyOf(jobs)) this.#instancesAhead.begin(id);
  }

  /** Resolves when all have ended, apart from those that take long. */
  async run(jobs: readonly Job[], run: Run): Promise<void> {
    const before = jobs.flatMap((job) => {
      const other = this.#before(job);
      return other === undefined ? [] : [{ job, ...other }];
    });
    const waiting = new Set(before.map(({ job }) => job));
    const free = jobs.filter((job) => !waiting.has(job));
    // The instances of one scale set do not wait for the model of another.
    const groups = Map.groupBy(before, ({ promise }) => promise).values();
    await Promise.all([this.#start(free, run), ...groups.map((group) => this.#startAfter(group, run))]);
  }

  /** Does not wait again for writes that are already late. What the jobs need is read meanwhile. */
  async #startAfter(before: readonly Before[], run: Run): Promise<void> {
    this.#listInstances(before.map(({ job }) => job));
    const lateMs = this.#options.clock.monotonic() - patienceMs;
    for (const one of before) if (one.startedMs <= lateMs) leave(one, run);
    const late = new Set(
      await this.#late(
        before.filter(({ startedMs }) => startedMs > lateMs),
        run,
      ),
    );
    for (const one of before) if (one.startedMs <= lateMs) late.add(one);
    const ended = before.filter((one) => !late.has(one)).map(({ job }) => job);
    // Again, because several may have waited for the same one.
    if (ended.length > 0) await this.run(ended, run);
  }

  async #start(jobs: readonly Job[], run: Run): Promise<void> {
    const lists = new Map([...manyOf(jobs)].map(([id]) => [id, this.#instancesAhead.take(id)]));
    const started = jobs.map((job) => ({ job, ...Promise.withResolvers<unknown>() }));
    for (const { job, promise } of started) {
      const key = job.id.toLowerCase();
      this.#inFlight.set(key, { promise, startedMs: this.#options.clock.monotonic() });
      void promise.then(() => this.#ended(job));
    }
    const write = async ({ job, resolve, promise }: (typeof started)[number]): Promise<unknown> => {
      resolve(await this.#carryOut(job, run, lists.get(scaleSetIdOf(job.id) ?? "")));
      return promise;
    };
    void this.#window.each(started, write, run.running);
    await this.#late(started, run);
  }

  /**
   * Writes the resource for all pools at once or, if ARM refuses that, for one family after the other: what keeps it out of
   * the pools of one does not keep it out of the others. Resolves with an error if it failed for any.
   */
  async #carryOut(job: Job, run: Run, listed?: Promise<Instances>): Promise<unknown> {
    const families = familiesOf(job);
    if (families.length > 1 && this.#divided.has(job.id.toLowerCase())) return this.#oneByOne(families, run);
    try {
      const writes = await this.#edit(job, (await listed)?.get(job.id.toLowerCase()));
      run.writes += writes;
      if (writes > 0) run.written(job);
      return undefined;
    } catch (error) {
      if (families.length > 1 && isRejected(error) && isRefused(error)) {
        this.#divided.add(job.id.toLowerCase(), dividedMs);
        return this.#oneByOne(families, run);
      }
      for (const reason of job.reasons) run.failed.set(reason, error);
      return error;
    }
  }

  async #oneByOne(jobs: readonly Job[], run: Run): Promise<unknown> {
    const errors: unknown[] = [];
    for (const job of jobs) errors.push(await this.#carryOut(job, run));
    return errors.find((error) => error !== undefined);
  }

  /** A read that began before may show a change that is undone by now. Without a write, no etag would reveal that. */
  #ended({ id }: Job): void {
    this.#inFlight.delete(id.toLowerCase());
    this.#instancesAhead.drop(scaleSetIdOf(id) ?? "");
  }

  /** Waits for the jobs, and returns those that take long. */
  async #late<One extends Started>(started: readonly One[], run: Run): Promise<readonly One[]> {
    const left = await inTime(started, this.#options.clock);
    for (const one of left) leave(one, run);
    return left;
  }

  /** An instance waits for the model of its scale set: ARM refuses to write both at once. */
  #before({ id, kind }: Job): Omit<Before, "job"> | undefined {
    const model = kind === "instance" ? scaleSetIdOf(id)?.toLowerCase() : undefined;
    return this.#inFlight.get(id.toLowerCase()) ?? this.#inFlight.get(model ?? "");
  }

  #edit({ id, kind, edits: planned, reasons }: Job, known: VirtualMachineScaleSetVM | undefined): Promise<number> {
    const services = [...reasons].flatMap((write) => write.services);
    return leavingMissing(planned, (edits) => {
      if (kind === "model") return this.#models.edit(id, edits, this.#modelsAhead.take(id));
      if (kind === "interface")
        return editInterface(id, edits, { services, unrepaired: this.#unrepaired }, this.#options);
      return editInstance(id, edits, { known, services }, this.#options);
    });
  }
}

function leave({ job, promise }: Started, { late }: Run): void {
  for (const write of job.reasons) late.set(write, [...(late.get(write) ?? []), promise]);
}

/** Jobs by scale set, for those of which several instances are to be written. */
const manyOf = (jobs: readonly Job[]): ReadonlyMap<string, readonly Job[]> => {
  const instances = jobs.filter(({ kind }) => kind === "instance");
  const bySet = Map.groupBy(instances, ({ id }) => scaleSetIdOf(id) ?? "");
  return new Map([...bySet].filter(([, ofSet]) => ofSet.length > fewInstances));
};

/** Waits for all promises, but not for long. Returns the items whose promise is still pending then. */
async function inTime<One extends Started>(started: readonly One[], clock: Clock): Promise<readonly One[]> {
  const back = new Set<One>();
  const done = new AbortController();
  const work = Promise.all(started.map(async (one) => back.add(await one.promise.then(() => one))));
  await Promise.race([work, pause(clock, done.signal)]);
  done.abort();
  return started.filter((one) => !back.has(one));
}

async function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  const until = clock.monotonic() + patienceMs;
  for (let now = clock.monotonic(); now < until && !signal.aborted; now = clock.monotonic())
    await clock.sleep(until - now, signal);
}
