import {
  type Cloud,
  type CloudPlugin,
  type ControllerPlugin,
  type HeldRemovals,
  kinds,
  type KubeClient,
  type Logger,
  type Node,
  type Service,
  type WriteInFlight,
} from "cloud-controller-host/sdk";

import { LinkedSignal } from "../async/linked-signal.ts";
import { fieldChanges } from "../changes/fields.ts";
import type { Document } from "../changes/patches.ts";
import { Reasons } from "../changes/reasons.ts";
import { prepare } from "../generation/prepare/prepare.ts";
import { ReloadReport } from "../generation/report/reload-report.ts";
import type { ProcessInformers, ProcessScope } from "../generation/scope/scope.ts";
import type { Generation } from "../generation/slot/generation.ts";
import { readCloudConfig } from "../generation/triggers/cloud-config.ts";
import type { ConfigSource } from "../generation/triggers/config-source.ts";
import { settledContent } from "../generation/triggers/content-trigger.ts";
import type { ShardStatus } from "../process/leader-election/shards.ts";
import { untakenLocks } from "../run/leadership.ts";
import { component, createParts, type HostInput, type ProcessParts } from "../run/process-parts.ts";
import { configSource, processScope } from "../run/process-scope.ts";
import { shardsOf, unservedServices } from "../run/shards.ts";
import { Activity } from "./activity.ts";
import type { PlanReads } from "./capture.ts";
import { actionOf, type Change } from "./changes.ts";
import { PlanClock } from "./plan-clock.ts";
import { plannedInformers } from "./planned-informers.ts";
import { planningPlugin } from "./planning-cloud.ts";
import { ReadableSignal } from "./readable-signal.ts";
import { type RecordedChange, RecordedWrites } from "./recorded.ts";
import { RecordingClient } from "./recording-client.ts";
import { WrittenObjects } from "./written-objects.ts";

/** Writes that controllers would send now. */
export interface Plan {
  /** The cloud's name, as in `--cloud-provider`. */
  readonly cloud: string;
  readonly changes: readonly Change[];
  /** Removals that no cause explains: the host would hold them. */
  readonly held: readonly HeldRemovals[];
  /** Resources that another manager is changing while the plan is made. */
  readonly inFlight: readonly WriteInFlight[];
  /** Refusals of the cloud, by subject such as `service default/web`: known outcomes, without a change there. */
  readonly refused: readonly (readonly [subject: string, reason: string])[];
  /** Subjects that could not be planned, with the reason. The plan is incomplete unless this is empty. */
  readonly failures: readonly string[];
  /** Controllers and plugins that would not run, and why. */
  readonly skipped: readonly string[];
  /** Services that no shard serves; undefined where this process serves all. */
  readonly unserved?: readonly string[] | undefined;
  /** Why a host with these flags would not lead: shards that lead and serve some of the same Services. */
  readonly overlaps: readonly string[];
  /** Values in changes that stand for those which the cloud will choose. */
  readonly placeholders: ReadonlySet<string>;
  /** Inputs of the plan. */
  readonly read: PlanReads;
}

/** Inputs of a plan, while its generation runs. */
export interface Inspection {
  readonly client: KubeClient;
  readonly cloud: Cloud;
  readonly nodes: readonly Node[];
  readonly services: readonly Service[];
}

export interface PlanRequest {
  readonly input: HostInput;
  /** Aborts a plan that takes too long; it is then incomplete. */
  readonly signal: AbortSignal;
  /** Keep what the cloud reads, for a bundle. */
  readonly keepsReads?: boolean;
  /** Called as planning begins; the function counts the changes so far. */
  readonly began?: (changes: () => number) => void;
  /** Called before anything is planned. A rejection is a failure of the plan. */
  readonly inspect?: (inspection: Inspection) => Promise<void>;
}

interface Recording {
  readonly writes: RecordedWrites;
  readonly written: WrittenObjects;
  readonly activity: Activity;
  readonly clock: PlanClock;
  /** Once it has been created. */
  cloud?: Cloud;
  /** The cloud config, once it has been read. */
  config?: Document;
}

/** Shared by all plans of one process. */
export interface PlanningProcess {
  readonly parts: ProcessParts;
  readonly source: ConfigSource | undefined;
  readonly informers: ProcessInformers;
  /** For what controllers log as they plan. */
  readonly log: Logger;
}

/** The roles of a host may write, and lack the events that `explain` reads. */
const permissionHint =
  "grant it with a role: `cloud-controller-host rbac --plan` with the same flags prints one that only reads";

/** One plan, with connections and watches of its own. */
export async function makePlan(request: PlanRequest): Promise<Plan> {
  await using ending = new AsyncDisposableStack();
  const parts = await createParts({ permissionHint, ...request.input }, ending);
  const source = configSource(request.input, parts, ending);
  const plan = await planWith(request, { parts, source, informers: parts.informers, log: parts.log });
  return { ...plan, failures: [...plan.failures, ...plan.overlaps] };
}

/** A plan that a failure has disturbed which passed is made again: what the failed attempt wrote would stay in it. */
export async function planWith(request: PlanRequest, process: PlanningProcess): Promise<Plan> {
  const { plan, isDisturbed } = await planOnce(request, process);
  return isDisturbed && !request.signal.aborted ? (await planOnce(request, process)).plan : plan;
}

/**
 * Runs one generation with the host's own code, on clients that record writes in place of sending them, until its
 * controllers rest. It takes no lease, serves nothing, and records no event.
 */
async function planOnce(
  { input, signal, inspect, began, keepsReads = false }: PlanRequest,
  process: PlanningProcess,
): Promise<{ readonly plan: Plan; readonly isDisturbed: boolean }> {
  await using ending = new AsyncDisposableStack();
  const { parts } = process;
  const { cloudProvider } = input.options;
  const recording: Recording = {
    writes: new RecordedWrites(cloudProvider, { keepsReads }),
    written: new WrittenObjects(),
    activity: new Activity(parts.clock),
    clock: new PlanClock(parts.clock),
  };
  began?.(() => recording.writes.touched);
  const shards = shardsOf(input, parts, parts.clients.client("shards"));
  const locks = { ...untakenLocks(input), shards };
  const scope = planningScope(input, process, recording, locks);
  const reading = ending.use(new ReadableSignal(parts, signal));
  const generation = await prepareGeneration(scope, { input, process, recording, signal: reading.signal });
  ending.defer(() => generation.dispose());
  const objects = parts.informers.share();
  ending.defer(() => objects.release());
  const [services, nodes] = [objects.of(kinds.Service), objects.of(kinds.Node)];
  // They name the reasons of changes: without them a plan has none.
  await objects.synced(reading.signal).catch(() => signal.throwIfAborted());
  reading.stop();
  // Before the controllers start: reads show what a plan has written.
  const { cloud } = recording;
  if (inspect !== undefined && cloud !== undefined) {
    const inspection = {
      client: parts.clients.client(component),
      cloud,
      nodes: nodes.store.list(),
      services: services.store.list(),
    };
    await inspect(inspection).catch((error: unknown) => recording.activity.fail("explain", error));
  }
  generation.start(locks.names);
  await finished(generation, recording, signal);
  await generation.drain(input.options.generationDrainTimeout);
  const { writes, written, activity } = recording;
  const unserved = await (shards && unservedServices(shards, services.store.list()))?.catch((error: unknown) => {
    activity.fail("shards", error);
    return [];
  });
  const reasons = new Reasons(
    [...services.store.list(), ...written.all(kinds.Service)],
    [...nodes.store.list(), ...written.all(kinds.Node)],
  );
  const plan = {
    cloud: cloudProvider,
    changes: writes.changes.map((each) => changeOf(each, reasons)),
    held: writes.held,
    inFlight: writes.writesInFlight,
    refused: activity.refusals,
    failures: activity.failures,
    skipped: [
      ...generation.skipped.map(({ name, reason }) => `${name}: ${reason}`),
      ...input.plugins.refused.map(({ plugin, reason }) => `${plugin}: ${reason}`),
    ],
    unserved,
    overlaps: (shards?.known ?? []).filter(({ relation }) => relation === "overlaps").map(whyNotLeading),
    placeholders: writes.placeholders,
    read: { cloudConfig: recording.config ?? {}, kinds: parts.informers.contents(), resources: writes.resources },
  };
  return { plan, isDisturbed: activity.hasRecovered };
}

const whyNotLeading = ({ lease, leader }: ShardStatus): string =>
  `leadership: a host with these flags would not lead: ${leader}, the holder of the Lease ${lease}, serves some of the same Services`;

function planningScope(
  input: HostInput,
  { parts, informers, log }: PlanningProcess,
  recording: Recording,
  locks: Parameters<typeof processScope>[2],
): ProcessScope {
  const { activity } = recording;
  const real = processScope(input, parts, locks);
  const silent = { event: () => undefined };
  return {
    ...real,
    clock: recording.clock,
    settings: { ...real.settings, controllerStartInterval: 0 },
    log: activity.log(log),
    informers: plannedInformers(informers, recording.written),
    health: { replaceGeneration: () => undefined },
    recordWrite: () => undefined,
    client: (name) => new RecordingClient(parts.clients.client(name), recording, parts.informers),
    recorder: () => silent,
    announce: () => undefined,
    workqueue: (name, options) => activity.queue(real.workqueue(name, options)),
  };
}

async function prepareGeneration(
  scope: ProcessScope,
  {
    input,
    process: { parts, source },
    recording,
    signal,
  }: PlanRequest & { readonly process: PlanningProcess; readonly recording: Recording },
): Promise<Generation> {
  const content = source && (await settledContent(source, parts.clock, signal, input.firstReading));
  const config = readCloudConfig(source, content, parts.log);
  recording.config = config.document;
  const clouds = input.plugins.clouds.map((cloud: CloudPlugin) => planningPlugin(cloud, recording));
  const spec = { plugins: { ...input.plugins, clouds }, config };
  const { runs: report } = new ReloadReport(scope);
  // As at a cold start.
  const mayLeaveOut = ({ name }: ControllerPlugin): boolean =>
    scope.settings.pluginFailurePolicy === "skip" && input.plugins.thirdParty.has(name);
  return prepare({ scope, report, number: 1, spec, signal, mayLeaveOut, mayRetry: () => false });
}

/** Loops that still find something to write after this many periods do not come to an end. */
const maxPeriods = 10;

/**
 * Waits until the controllers rest and another period of their loops finds nothing more to write, until one of them
 * fails, or until the time is over.
 */
async function finished(
  generation: Generation,
  { activity, clock, writes }: Recording,
  signal: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  using link = new LinkedSignal(signal, over.signal);
  const settle = async (): Promise<string | undefined> => {
    for (let period = 0; period < maxPeriods; period += 1) {
      const before = writes.count;
      if (!(await activity.rests(link.signal))) return "the time was over before the controllers had finished";
      if (period > 0 && writes.count === before) return undefined;
      clock.skip();
    }
    return "controllers still write after ten periods of their loops";
  };
  const failed = Promise.withResolvers<string>();
  generation.onFailure(({ name, reason }) => failed.resolve(`${name}: ${reason}`));
  const problem = await Promise.race([settle(), failed.promise]);
  over.abort();
  if (problem !== undefined) activity.fail("plan", new Error(problem));
}

function changeOf(recorded: RecordedChange, reasons: Reasons): Change {
  const { system, resource, title, interruptions, before, after } = recorded;
  const action = actionOf(recorded);
  const fields = fieldChanges(before, after);
  const removed = action === "delete" ? fieldChanges(undefined, before) : [];
  const found = system === "cloud" ? reasons.of(resource, [...fields, ...removed], interruptions) : [];
  return { system, action, resource, title, reasons: found, interruptions, fields };
}
