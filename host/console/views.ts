import { kinds, type Node, type Service } from "cloud-controller-host/sdk";

import type { RecordedEvent } from "../kube/events/recorder.ts";
import type { MetricSample } from "../process/metrics/metrics.ts";
import { sectionsOf } from "./clean.ts";
import { nodeRow, serviceRow, writeRow } from "./object-rows.ts";
import { indexed, listingOf, ObjectRows, pageOf } from "./rows.ts";
import type { Answers, ConsoleEvent } from "./schema.ts";
import type { ConsoleSources, ConsoleStatus } from "./sources.ts";
import { problemsIn, rollbackText } from "./troubles.ts";

/** Answers the views, each from what the process knows anyway. */
export class Views {
  readonly #sources: ConsoleSources;
  /** The answer before: each of many pages would take a part of every turn of the event loop. */
  #before: Promise<unknown> = Promise.resolve();
  readonly #rates = new Map<
    string,
    { readonly count: number; readonly at: number; readonly rate: number | undefined }
  >();
  readonly services: ObjectRows<Service, ReturnType<typeof serviceRow>>;
  readonly nodes: ObjectRows<Node, ReturnType<typeof nodeRow>>;

  constructor(sources: ConsoleSources) {
    this.#sources = sources;
    this.services = new ObjectRows(() => sources.informers.stored(kinds.Service), serviceRow);
    this.nodes = new ObjectRows(() => sources.informers.stored(kinds.Node), nodeRow);
  }

  /** Answers one page after the other. */
  answer<T>(work: () => T | Promise<T>): Promise<T> {
    const answering = this.#before.then(work);
    this.#before = answering.catch(() => undefined);
    return answering;
  }

  async overview(): Promise<Answers["overview"]> {
    const { clock, status: read, ownWarnings, writes } = this.#sources;
    const status = read();
    const [services, nodes] = await Promise.all([this.services.all(), this.nodes.all()]);
    const findings = {
      status,
      warnings: ownWarnings(),
      services: services?.map(({ row }) => row),
      nodes: nodes?.map(({ row }) => row),
      writes: writes.records,
      now: clock.now(),
    };
    const { identity, leading, startedAt } = status;
    const leader = leaderIn(status);
    return {
      identity,
      leader,
      leading,
      ...(status.shadow !== undefined && { shadow: true }),
      startedAt,
      problems: problemsIn(findings),
      verified: verified(findings),
    };
  }

  leadership(): Answers["leadership"] {
    const status = this.#sources.status();
    const { lastRefusal, lastRollback } = status;
    return {
      identity: status.identity,
      locks: status.locks.map((lock) => ({ ...lock, controllers: [...lock.controllers] })),
      generation: {
        number: status.generation,
        phase: status.phase,
        ...(status.generationStartedAt !== undefined && { startedAt: status.generationStartedAt }),
        configHash: status.configHash,
        pluginHash: status.pluginHash,
        disabled: status.disabled,
        reloads: status.reloads,
        ...(status.lastReloadAt !== undefined && { lastReloadAt: status.lastReloadAt }),
      },
      reloads: status.recentReloads.toReversed().map((reload) => ({ ...reload, changed: [...reload.changed] })),
      ...(lastRefusal !== undefined && { lastRefusal: { at: lastRefusal.at, reason: lastRefusal.reason } }),
      ...(lastRollback !== undefined && {
        lastRollback: { at: lastRollback.at, reason: rollbackText(lastRollback) },
      }),
      timeline: eventsOf(this.#sources.events.recent.leases),
    };
  }

  async controllers(): Promise<Answers["controllers"]> {
    const { status: read, ownStatus, metrics, cloudName } = this.#sources;
    const status = read();
    const samples = await Promise.all(queueMetrics.map((name) => metrics.samples(name)));
    return {
      controllers: [
        ...controllersIn(status),
        ...status.skipped.map(({ name, reason }) => ({ name, state: "not running" as const, reason })),
      ],
      queues: this.#queuesOf(samples.flat()),
      sections: ownStatus()
        .filter(({ name }) => name !== `${cloudName}-cloud`)
        .map(({ name, sections }) => ({ name, sections: sectionsOf(sections) })),
    };
  }

  #queuesOf(samples: readonly MetricSample[]): Answers["controllers"]["queues"] {
    const queues = Map.groupBy(samples, ({ labels }) => labels["name"] ?? "");
    return [...queues].map(([name, own]) => {
      const value = (metric: string): number => own.find((sample) => sample.name === metric)?.value ?? 0;
      const done = value("workqueue_work_duration_seconds_count");
      const perSecond = this.#rateOf(name, done);
      const slowest = this.#sources.busy.slowest(name);
      return {
        name,
        depth: value("workqueue_depth"),
        retries: value("workqueue_retries_total"),
        done,
        ...(perSecond !== undefined && { perSecond }),
        meanSeconds: done === 0 ? 0 : value("workqueue_work_duration_seconds_sum") / done,
        ...(slowest !== undefined && { slowest }),
      };
    });
  }

  /** The growth of a counter, for all pages; undefined until it has been looked at for a while. */
  #rateOf(name: string, count: number): number | undefined {
    const at = this.#sources.clock.monotonic();
    const known = this.#rates.get(name);
    if (known !== undefined && at - known.at < ratePeriodMs) return known.rate;
    const rate = known && Math.max(0, count - known.count) / ((at - known.at) / 1000);
    this.#rates.set(name, { count, at, rate });
    return rate;
  }

  cloud(): Answers["cloud"] {
    const { ownStatus, cloudName, writes } = this.#sources;
    const own = ownStatus().filter(({ name }) => name === `${cloudName}-cloud`);
    const sent = writes.records.filter(({ system }) => system === "cloud");
    const latest = sent.at(-1)?.at;
    return {
      name: cloudName,
      sections: own.flatMap(({ sections }) => sectionsOf(sections)),
      failedWrites: sent.filter(({ error }) => error !== undefined).length,
      drift: sent.filter(({ operation }) => operation === "drift").length,
      slowest: sent
        .filter(({ milliseconds }) => milliseconds >= slowMs)
        .toSorted((one, other) => other.milliseconds - one.milliseconds)
        .slice(0, maxSlow)
        .map(writeRow),
      ...(latest !== undefined && { latestWriteAt: latest }),
    };
  }

  async listServices(query: URLSearchParams): Promise<Answers["services"]> {
    const all = await this.services.all();
    return { ...(await pageOf(all ?? [], listingOf(query), ({ state }) => state)), available: all !== undefined };
  }

  async listNodes(query: URLSearchParams): Promise<Answers["nodes"]> {
    const all = await this.nodes.all();
    return { ...(await pageOf(all ?? [], listingOf(query), ({ state }) => state)), available: all !== undefined };
  }

  async listWrites(query: URLSearchParams): Promise<Answers["writes"]> {
    const state = ({ outcome }: { readonly outcome: string }): string => (outcome === "done" ? "done" : "failed");
    const rows = this.#sources.writes.records.toReversed().map((record) => {
      const row = writeRow(record);
      return indexed(row, state(row));
    });
    return { ...(await pageOf(rows, listingOf(query), state)), available: true };
  }
}

const maxMessages = 200;

/** Newest first. */
export const eventsOf = (events: readonly RecordedEvent[]): ConsoleEvent[] =>
  events
    .toReversed()
    .slice(0, maxMessages)
    .map(({ at, type, reason, message, source }) => ({ at, type, reason, message, source }));

const queueMetrics = ["workqueue_depth", "workqueue_retries_total", "workqueue_work_duration_seconds"] as const;

/** A rate is of at least so long. */
const ratePeriodMs = 5_000;
/** Writes that take longer are worth a look. */
const slowMs = 1_000;
const maxSlow = 10;

type Findings = Parameters<typeof problemsIn>[0];

/** The holder of the main lock; empty for none, and for one that no longer renews it. */
const leaderIn = ({ locks: [main], leader }: ConsoleStatus): string => (main?.expired === true ? "" : leader);

/** The controllers of the generation. With several locks, those run whose lock is held. */
function controllersIn({ controllers, locks, running }: ConsoleStatus): Answers["controllers"]["controllers"] {
  const lockOf = new Map(locks.flatMap(({ lease, controllers: own }) => own.map((name) => [name, lease] as const)));
  const others = locks
    .filter(({ leading }) => !leading)
    .map(({ lease, leader }) => (leader === "" ? lease : `${lease}, held by ${leader}`));
  return controllers.map((name) => {
    const lock = lockOf.get(name);
    const isWaiting = running && lock === undefined && locks.length > 1;
    return {
      name,
      state: running && !isWaiting ? ("running" as const) : ("standing by" as const),
      ...(lock !== undefined && { lock }),
      ...(isWaiting && others.length > 0 && { reason: `waits for the lock ${others.join(" or ")}` }),
    };
  });
}

/** Facts that show what works, each with its time if known. */
function verified({ status, services, nodes, writes }: Findings): Answers["overview"]["verified"] {
  const managed = services?.filter(({ state }) => state !== "not managed");
  const ready = managed?.filter(({ state }) => state === "ready");
  const write = writes.findLast(({ error }) => error === undefined);
  const fresh = nodes?.filter(({ state }) => state !== "uninitialized");
  return [
    ...(leaderIn(status) === "" ? [] : [{ name: "Lease", value: `held by ${status.leader}` }]),
    ...(status.generationStartedAt === undefined
      ? []
      : [{ name: "Generation", value: `${status.generation}, running`, at: status.generationStartedAt }]),
    ...(managed === undefined || ready === undefined
      ? []
      : [{ name: "Services", value: `${ready.length} of ${managed.length} ready`, ...latestOf(ready) }]),
    ...(nodes === undefined || fresh === undefined
      ? []
      : [{ name: "Nodes", value: `${fresh.length} of ${nodes.length} initialized` }]),
    ...(write === undefined
      ? []
      : [{ name: "Latest write", value: `${write.operation} ${write.resource}`, at: write.at }]),
  ];
}

function latestOf(rows: readonly { readonly since?: string }[]): { readonly at?: string } {
  const at = rows.reduce((last, { since = "" }) => (since > last ? since : last), "");
  return at === "" ? {} : { at };
}
