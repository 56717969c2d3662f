import { type CloudContext, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import { isRefused } from "../../arm/writes/write-errors.ts";
import type { Observed, PlanInput, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { isMembersWrite } from "../pools/member-jobs.ts";
import type { GuardedRound, GuardedRounds } from "../removals/guarded-round.ts";
import type { Activity } from "./activity.ts";
import { type Applier, isResourceWrite, type WriteOutcome } from "./apply/apply.ts";
import type { NewServices } from "./apply/preconditions.ts";
import type { Drains } from "./drains.ts";
import { type Flight, InFlight } from "./in-flight.ts";
import type { UnendedOperations } from "./later/unended-operations.ts";
import { nothingKnown } from "./observe/needed-reads.ts";
import type { Observer } from "./observe/observe.ts";
import { blockedBy, type Observation } from "./observe/unreadable.ts";
import { Outcomes, type OutcomesOptions } from "./outcomes.ts";
import { LockKeeper, type ResourceLock } from "./resource-lock.ts";
import { createdPools, isAbandoning, keptMs, planRound, type Round, withoutAwaited, withShared } from "./rounds.ts";
import { planningPace, Ticker } from "./ticker.ts";
import { doneKey, type Reconciled, sameWish, superseded, Wanted } from "./wanted.ts";

export interface LoopOptions extends Pick<OutcomesOptions, "followUp" | "moved"> {
  readonly config: PlannerConfig;
  readonly observer: Observer;
  readonly applier: Applier;
  readonly activity: Activity;
  readonly lock: ResourceLock;
  readonly rounds: GuardedRounds;
  readonly newServices: NewServices;
  readonly drains?: Drains | undefined;
  readonly unended: Pick<UnendedOperations, "seen" | "lost">;
  readonly context: Pick<CloudContext, "clock" | "signal" | "events" | "log" | "planning">;
}

/**
 * Brings Services to their desired state. A tick observes and plans all of them, starts the writes whose resources are
 * free, and settles the Services of which nothing is planned or in flight; each change and each end of a write leads to
 * the next one. The next observation shows all that a write needs, so a crash at any point leads to the same plan.
 */
export class Loop {
  readonly #options: LoopOptions;
  readonly #wanted = new Map<ServiceKey, Wanted>();
  readonly #inFlight: InFlight;
  readonly #outcomes: Outcomes;
  readonly #ticker: Ticker;
  readonly #keeper: LockKeeper;
  /** Nodes of the latest ensure; a delayed Service must not restore older ones. */
  nodes: readonly Node[] = [];
  readonly #known = nothingKnown();

  constructor(options: LoopOptions) {
    const { context } = options;
    this.#options = options;
    this.#inFlight = new InFlight(context.clock);
    this.#outcomes = new Outcomes({
      ...options,
      tickSoon: () => this.#ticker.soon(),
      wanted: this.#wanted,
      inFlight: this.#inFlight,
    });
    this.#ticker = new Ticker(context, () => this.#tick(), context.planning && planningPace);
    this.#keeper = new LockKeeper(options.lock, context, (ms) => this.#ticker.after(ms));
  }

  /** Services of writes in flight. */
  get written(): readonly ServiceKey[] {
    return this.#inFlight.current().flatMap(({ services }) => services);
  }

  /** True while a caller waits for the Service. */
  readonly isWanted = (service: Service): boolean => this.#wanted.has(keyOf(service));

  /** Resolves when the newest intent of the Service is carried out. */
  submit(intent: ServiceIntent, signal?: AbortSignal): Promise<Reconciled> {
    const stop = this.#options.context.signal;
    if (stop.aborted || signal?.aborted) return Promise.reject(stop.aborted ? stop.reason : signal?.reason);
    if (intent.action === "ensure") this.nodes = intent.nodes;
    const key = keyOf(intent.service);
    const known = this.#wanted.get(key);
    const entry = known ?? new Wanted(intent);
    if (known === undefined) this.#outcomes.rejections.wanted(intent.service);
    else known.want(intent);
    this.#wanted.set(key, entry);
    this.#ticker.soon();
    return entry.wait(signal, () => this.#wanted.delete(key));
  }

  async #tick(): Promise<void> {
    const { signal } = this.#options.context;
    const flights = this.#inFlight.current();
    this.#ticker.after(this.#inFlight.pauseMs());
    if (!signal.aborted) await this.#advance(flights);
    else if (flights.length === 0) for (const entry of this.#wanted.values()) entry.fail(signal.reason);
    await this.#settle();
  }

  async #advance(flights: readonly Flight[]): Promise<void> {
    const busy = new Set(flights.flatMap(({ services }) => services));
    const isWaiting = (key: ServiceKey): boolean => busy.has(key) || this.#outcomes.rejections.isWaiting(key);
    const entries = [...this.#wanted.values()].filter(({ key, failure }) => failure === undefined && !isWaiting(key));
    const before = new Map(entries.map((entry) => [entry, entry.intent] as const));
    const intents = entries.flatMap((entry) => this.#newest(entry.intent) ?? entry.supersede());
    for (const entry of entries) entry.planned();
    try {
      if (intents.length > 0)
        return await this.#carryOut(intents, flights, (entry) => before.get(entry) === entry.intent);
    } catch (error) {
      for (const entry of entries) entry.fail(error);
    }
    // Nothing is planned: rejected Services that let others go first have no write to wait for.
    this.#outcomes.releaseRejected([]);
  }

  /** The newest intent: a Service may change, or leave, during reads and writes, before its caller reacts. */
  #newest({ action, service: known }: ServiceIntent): ServiceIntent | undefined {
    const { observer } = this.#options;
    if (action === "delete" && observer.isDeletionOver(known)) return undefined;
    const service = action === "delete" ? known : observer.newest(known);
    return service && this.#outcomes.withFailures({ action, service, nodes: this.nodes });
  }

  /** False for a Service that cannot be read, or has left or changed meanwhile: what it wants now may need other reads. */
  #isCurrent(intent: ServiceIntent, observation: Observation): boolean {
    const { service } = intent;
    const newest = this.#newest(intent)?.service;
    const blocked = blockedBy(intent, observation, this.#options.config);
    const error = blocked ?? (newest ? undefined : superseded(service));
    if (error !== undefined) this.#wanted.get(keyOf(service))?.fail(error);
    else if (newest !== undefined && !sameWish(newest, service)) this.#ticker.soon();
    else return true;
    return false;
  }

  /** Services that are wanted as well, and wait for a write or for their turn. */
  #others(planned: readonly ServiceIntent[]): readonly ServiceIntent[] {
    const keys = new Set(planned.map(({ service }) => keyOf(service)));
    return [...this.#wanted.values()].flatMap(({ key, intent }) => (keys.has(key) ? [] : (this.#newest(intent) ?? [])));
  }

  async #carryOut(
    intents: readonly ServiceIntent[],
    flights: readonly Flight[],
    isNewest: (entry: Wanted) => boolean,
  ): Promise<void> {
    const { observer, newServices } = this.#options;
    newServices.begin();
    const observation = await observer.observe(intents, this.#known);
    this.#options.drains?.keep(observation.observed, flights);
    this.#options.unended.seen(observation.observed, flights);
    const current = intents.filter((intent) => this.#isCurrent(intent, observation));
    const input = { intents: current, observed: observation.observed };
    const guarded = await this.#plan(input, flights, this.#others(current));
    const { round, observed } = guarded;
    for (const [key, error] of guarded.held) this.#wanted.get(key)?.fail(error);
    this.#report(round, observed);
    const ready = this.#startable(round, observed, await this.#shared(guarded, flights));
    const outdated = this.#outcomes.outdated.take([...ready, ...this.#takeDone(round)]);
    for (const id of outdated) observer.outdate(id);
    if (outdated.length > 0) return this.#ticker.soon();
    if (ready.length > 0 && !(await this.#lock(ready))) return this.#ticker.soon();
    this.#start(ready, observed, flights);
    this.#prepare(round, ready, (write) => this.#inFlight.isFree(write, observed, flights), observed);
    this.#finish(round, isNewest);
    this.#outcomes.releaseRejected(round.writes);
  }

  #plan(input: PlanInput, flights: readonly Flight[], others: readonly ServiceIntent[]): Promise<GuardedRound<Round>> {
    const { rounds, config } = this.#options;
    const isFree = (write: Write, observed: Observed) => this.#inFlight.isFree(write, observed, flights);
    const planWith = (active: readonly ServiceIntent[], observed: Observed): Round =>
      planRound(active, observed, {
        config,
        others,
        isFree: (write) => isFree(write, observed),
        isHeldBack: (write) => this.#inFlight.isHeldBack(write),
        isDone: (write, key) => this.#wanted.get(key)?.isDone(write) ?? false,
      });
    return rounds.plan(input, planWith, isFree);
  }

  /** The writes that can start. A Service that first needs another write does not delay those that it shares. */
  async #shared({ round, observed }: GuardedRound<Round>, flights: readonly Flight[]): Promise<readonly Write[]> {
    if (round.early.size === 0) return round.ready;
    return withShared(round, (await this.#plan({ intents: round.rest, observed }, flights, [])).round);
  }

  #report({ planned, active }: Round, observed: Observed): void {
    this.#outcomes.notices.report(planned, active, observed);
    for (const [key, { problem }] of planned.results) if (problem !== undefined) this.#wanted.get(key)?.refuse(problem);
  }

  /** The writes that can start, without those that take away what others are about to use. */
  #startable({ active }: Round, observed: Observed, ready: readonly Write[]): readonly Write[] {
    if (this.#inFlight.graceMs() > 0) this.#tickAfterWave();
    if (!ready.some(isAbandoning)) return ready;
    const youngMs = this.#options.context.clock.monotonic() - keptMs;
    const young = this.#inFlight.current().filter(({ startedMs }) => startedMs > youngMs);
    const soon = new Set(young.flatMap(({ services }) => services));
    const awaiting = this.#others(active).filter(({ service }) => soon.has(keyOf(service)));
    if (awaiting.length > 0) this.#ticker.after(keptMs);
    return withoutAwaited(ready, awaiting, { active, observed, config: this.#options.config });
  }

  /** Member writes that are not planned any more although their load balancer was not read again: the nodes have changed. */
  #takeDone({ planned, active }: Round): readonly Write[] {
    const keys = new Set(planned.stages.flatMap((stage) => stage.writes.map(doneKey)));
    return active.flatMap(({ service }) => this.#wanted.get(keyOf(service))?.takeDone(keys) ?? []);
  }

  /** Reads what waits for earlier writes of its Services, while these are in flight. */
  #prepare({ writes }: Round, ready: readonly Write[], isFree: (write: Write) => boolean, observed: Observed): void {
    const { applier, observer } = this.#options;
    const { outdated } = this.#outcomes;
    const later = writes.filter((write) => !ready.includes(write));
    const current = later.filter((write) => !outdated.has(write));
    const read = later.filter((write) => outdated.has(write) && write.kind === "put-load-balancer" && isFree(write));
    for (const id of outdated.take(read)) observer.outdate(id);
    applier.prepare([...current, ...read], observed);
  }

  /** False when it cannot be taken, or when everything must be read again. */
  async #lock(ready: readonly Write[]): Promise<boolean> {
    const { lock, observer } = this.#options;
    try {
      const isOutdated = await lock.take();
      if (isOutdated) observer.forget();
      return !isOutdated;
    } catch (error) {
      for (const { services } of ready) for (const key of services) this.#wanted.get(key)?.fail(error);
      return false;
    }
  }

  #start(ready: readonly Write[], observed: Observed, flights: readonly Flight[]): void {
    const { applier, observer } = this.#options;
    const started = new Map<Write, { readonly flight: Flight; readonly ensured: readonly Service[] }>();
    for (const write of ready) {
      if (!this.#inFlight.isFree(write, observed, flights, started)) continue;
      const isAllowed = write.services.map((key) => this.#wanted.get(key)?.starts(write)).every((one) => one !== false);
      if (!isAllowed) this.#ticker.soon();
      else {
        const ensured = write.services.flatMap((key) => this.#wanted.get(key)?.ensured ?? []);
        started.set(write, { flight: this.#inFlight.start(write, observed), ensured });
        this.#options.rounds.started(write);
      }
      for (const id of createdPools(write, observed)) this.#known.createdPools.add(id);
    }
    const take = async (outcome: WriteOutcome): Promise<void> => {
      const { flight, ensured = [] } = started.get(outcome.write) ?? {};
      this.#options.rounds.ended(outcome);
      if (!("error" in outcome && isRefused(outcome.error))) observer.wrote(outcome, ensured);
      if (flight !== undefined) await this.#outcomes.take(flight, outcome);
      if (flight?.wave === undefined || this.#inFlight.graceMs() === 0) this.#ticker.soon();
      else this.#tickAfterWave();
    };
    const writes = [...started.keys()];
    for (const { promise } of applier.start(writes.filter(isResourceWrite), observed)) void promise.then(take);
    void applier.members(writes.filter(isMembersWrite), observed).then((outcomes) => outcomes.map(take));
  }

  #tickAfterWave(): void {
    void this.#ticker.afterAll(() => this.#inFlight.graceMs());
  }

  #finish({ planned, active, writes }: Round, isNewest: (entry: Wanted) => boolean): void {
    for (const { service } of active) {
      const key = keyOf(service);
      const entry = this.#wanted.get(key);
      if (entry === undefined || entry.failure !== undefined || !isNewest(entry)) continue;
      if (writes.some((write) => write.services.includes(key) && !entry.isDone(write))) continue;
      const result = planned.results.get(key);
      entry.finish(result?.status, result?.settled === true);
    }
  }

  /** The lock is released before the last Services are settled, which fail when it cannot be. */
  async #settle(): Promise<void> {
    const { notices, outdated } = this.#outcomes;
    const settled = [...this.#wanted.values()].filter(({ isEnded }) => isEnded);
    for (const { key } of settled) this.#wanted.delete(key);
    const unlockError = await this.#keeper.keep({
      isWriting: this.#inFlight.size > 0,
      isIdle: this.#wanted.size === 0,
    });
    for (const entry of settled) {
      notices.forget(entry.key);
      if (entry.failure === undefined) {
        this.#outcomes.cleared(entry.key);
        this.#options.rounds.settled(entry.intent);
      }
      entry.settle(unlockError);
    }
    if (this.#wanted.size > 0) return;
    notices.forget();
    for (const known of Object.values(this.#known)) known.clear();
    for (const id of outdated.take()) this.#options.observer.outdate(id);
  }
}
