import { type CloudContext, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import type { Observed, PlanInput, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import type { GuardedRound, GuardedRounds } from "../removals/guarded-round.ts";
import type { Applier } from "./apply/apply.ts";
import type { NewServices } from "./apply/preconditions.ts";
import type { Drains } from "./drains.ts";
import type { Flight, InFlight } from "./in-flight.ts";
import type { UnendedOperations } from "./later/unended-operations.ts";
import type { Known } from "./observe/needed-reads.ts";
import type { Observer } from "./observe/observe.ts";
import { blockedBy, type Observation } from "./observe/unreadable.ts";
import type { OpenedRecords } from "./opened-records.ts";
import type { Outcomes } from "./outcomes.ts";
import type { ResourceLock } from "./resource-lock.ts";
import { awaitedMs, isAbandoning, planRound, type Round, withoutAwaited, withShared } from "./rounds.ts";
import type { Ticker } from "./ticker.ts";
import { doneKey, sameWish, superseded, type Wanted } from "./wanted.ts";
import type { WriteStarter } from "./write-starter.ts";

export interface TickOptions {
  readonly config: PlannerConfig;
  readonly observer: Observer;
  readonly applier: Pick<Applier, "prepare">;
  readonly lock: Pick<ResourceLock, "take">;
  readonly rounds: GuardedRounds;
  readonly newServices: NewServices;
  readonly drains?: Drains | undefined;
  readonly records: Pick<OpenedRecords, "widen" | "settle">;
  readonly unended: Pick<UnendedOperations, "seen">;
  readonly context: Pick<CloudContext, "clock">;
  readonly wanted: ReadonlyMap<ServiceKey, Wanted>;
  /** Nodes of the latest ensure, which may come during the tick. */
  readonly nodes: () => readonly Node[];
  readonly known: Known;
  readonly inFlight: InFlight;
  readonly starter: WriteStarter;
  readonly outcomes: Outcomes;
  readonly ticker: Ticker;
}

/**
 * One pass over the wanted Services that no write or other Service delays: observes and plans them together, starts the
 * writes whose resources are free, and finishes the Services of which nothing is planned or in flight.
 */
export class Tick {
  readonly #options: TickOptions;
  /** Writes that were in flight as the tick began: the observation may lack them, although they have ended since. */
  readonly #flights: readonly Flight[];
  /** The Services to plan, each with its intent as the tick began. A newer one is for the next tick. */
  readonly #begun: ReadonlyMap<Wanted, ServiceIntent>;

  constructor(options: TickOptions) {
    const { wanted, inFlight, outcomes } = options;
    this.#options = options;
    this.#flights = inFlight.current();
    const busy = new Set(this.#flights.flatMap(({ services }) => services));
    const isDelayed = (key: ServiceKey): boolean => busy.has(key) || outcomes.rejections.isWaiting(key);
    const entries = [...wanted.values()].filter(({ key, failure }) => failure === undefined && !isDelayed(key));
    this.#begun = new Map(entries.map((entry) => [entry, entry.intent]));
  }

  /** Never rejects: an error fails the Services. */
  async run(): Promise<void> {
    const intents = [...this.#begun].flatMap(([entry, intent]) => this.#newest(intent) ?? entry.supersede());
    for (const entry of this.#begun.keys()) entry.planned();
    try {
      if (intents.length > 0) return await this.#carryOut(await this.#observe(intents));
    } catch (error) {
      for (const entry of this.#begun.keys()) entry.fail(error);
    }
    // Nothing is planned: rejected Services that let others go first have no write to wait for.
    this.#options.outcomes.releaseRejected([]);
  }

  /** The newest intent: a Service may change, or leave, during reads and writes, before its caller reacts. */
  #newest({ action, service: known }: ServiceIntent): ServiceIntent | undefined {
    const { observer, outcomes, nodes } = this.#options;
    if (action === "delete" && observer.isDeletionOver(known)) return undefined;
    const service = action === "delete" ? known : observer.newest(known);
    return service && outcomes.withFailures({ action, service, nodes: nodes() });
  }

  /** Services that are wanted as well, and wait for a write or for their turn. */
  #others(planned: readonly ServiceIntent[]): readonly ServiceIntent[] {
    const keys = new Set(planned.map(({ service }) => keyOf(service)));
    const others = [...this.#options.wanted.values()].filter(({ key }) => !keys.has(key));
    return others.flatMap(({ intent }) => this.#newest(intent) ?? []);
  }

  /** The Services that can be planned, and what they are planned from. */
  async #observe(intents: readonly ServiceIntent[]): Promise<PlanInput> {
    const { observer, newServices, drains, unended, known } = this.#options;
    newServices.begin();
    const observation = await observer.observe(intents, known);
    const { observed } = observation;
    drains?.keep(observed, this.#flights);
    unended.seen(observed, this.#flights);
    return { intents: intents.filter((intent) => this.#isCurrent(intent, observation)), observed };
  }

  /** False for a Service that cannot be read, or has left or changed meanwhile: what it wants now may need other reads. */
  #isCurrent(intent: ServiceIntent, observation: Observation): boolean {
    const { config, ticker } = this.#options;
    const { service } = intent;
    const newest = this.#newest(intent)?.service;
    const error = blockedBy(intent, observation, config) ?? (newest ? undefined : superseded(service));
    if (error !== undefined) this.#fail(keyOf(service), error);
    else if (newest !== undefined && !sameWish(newest, service)) ticker.soon();
    else return true;
    return false;
  }

  async #carryOut(input: PlanInput): Promise<void> {
    const { observer, outcomes, starter, ticker } = this.#options;
    const guarded = await this.#plan(input, this.#others(input.intents));
    const { round, observed } = guarded;
    this.#report(guarded);
    const ready = await this.#startable(guarded);
    const outdated = outcomes.outdated.take([...ready, ...this.#takeDone(round)]);
    for (const id of outdated) observer.outdate(id);
    if (outdated.length > 0) return ticker.soon();
    if (ready.length > 0 && !(await this.#lock(ready))) return ticker.soon();
    if (!(await this.#record(ready, guarded))) return ticker.soon();
    starter.start(ready, observed, this.#flights);
    this.#prepare(guarded, ready);
    await this.#finish(guarded);
    outcomes.releaseRejected(round.writes);
  }

  #plan(input: PlanInput, others: readonly ServiceIntent[]): Promise<GuardedRound<Round>> {
    const { rounds, config, inFlight, wanted } = this.#options;
    // Held nodes change no resource: a write is as free as it is with the input.
    const isFree = (write: Write): boolean => this.#isFree(write, input.observed);
    const isHeldBack = (write: Write): boolean => inFlight.isHeldBack(write);
    const isDone = (write: Write, key: ServiceKey): boolean => wanted.get(key)?.isDone(write) ?? false;
    const options = { config, others, isFree, isHeldBack, isDone };
    return rounds.plan(input, (intents, observed) => planRound(intents, observed, options), isFree);
  }

  #isFree(write: Write, observed: Observed): boolean {
    return this.#options.inFlight.isFree(write, observed, this.#flights);
  }

  #report({ round: { planned, active }, observed, held }: GuardedRound<Round>): void {
    for (const [key, error] of held) this.#fail(key, error);
    this.#options.outcomes.notices.report(planned, active, observed);
    for (const [key, { problem }] of planned.results)
      if (problem !== undefined) this.#options.wanted.get(key)?.refuse(problem);
  }

  /** The writes that can start, without those that take away what others are about to use. */
  async #startable({ round, observed }: GuardedRound<Round>): Promise<readonly Write[]> {
    const { inFlight, ticker } = this.#options;
    let { ready } = round;
    // A Service that first needs another write does not delay those that it shares.
    if (round.early.size > 0)
      ready = withShared(round, (await this.#plan({ intents: round.rest, observed }, [])).round);
    if (inFlight.graceMs() > 0) void ticker.afterAll(() => inFlight.graceMs());
    return ready.some(isAbandoning) ? this.#withoutAwaited(ready, round, observed) : ready;
  }

  #withoutAwaited(ready: readonly Write[], { active }: Round, observed: Observed): readonly Write[] {
    const { config, context, inFlight, ticker } = this.#options;
    const sinceMs = context.clock.monotonic() - awaitedMs;
    const recent = inFlight.current().filter(({ startedMs }) => startedMs > sinceMs);
    const writing = new Set(recent.flatMap(({ services }) => services));
    const awaiting = this.#others(active).filter(({ service }) => writing.has(keyOf(service)));
    if (awaiting.length > 0) ticker.after(awaitedMs);
    return withoutAwaited(ready, awaiting, { active, observed, config });
  }

  /**
   * Takes the member writes that are done and not planned any more. One whose load balancer was not read since is not
   * planned because the nodes have changed.
   */
  #takeDone({ planned, active }: Round): readonly Write[] {
    const keys = new Set(planned.stages.flatMap(({ writes }) => writes.map(doneKey)));
    return active.flatMap(({ service }) => this.#options.wanted.get(keyOf(service))?.takeDone(keys) ?? []);
  }

  /** False when it cannot be taken, or when everything must be read again. */
  async #lock(ready: readonly Write[]): Promise<boolean> {
    const { lock, observer } = this.#options;
    try {
      const isOutdated = await lock.take();
      if (isOutdated) observer.forget();
      return !isOutdated;
    } catch (error) {
      for (const { services } of ready) for (const key of services) this.#fail(key, error);
      return false;
    }
  }

  /** Records what the security rules are about to open. False when that fails for a Service, which is left out. */
  async #record(ready: readonly Write[], { round, observed }: GuardedRound<Round>): Promise<boolean> {
    const opened = new Set(ready.flatMap(({ kind, services }) => (kind === "put-security-group" ? services : [])));
    const services = ensuredIn(round).filter((service) => opened.has(keyOf(service)));
    return this.#failEach(await this.#options.records.widen(services, observed));
  }

  /** Reads what the writes that have to wait will need, while those before them are in flight. */
  #prepare({ round, observed }: GuardedRound<Round>, ready: readonly Write[]): void {
    const { applier, observer, outcomes } = this.#options;
    const { outdated } = outcomes;
    const later = Map.groupBy(
      round.writes.filter((write) => !ready.includes(write)),
      (write) => (outdated.has(write) ? "outdated" : "current"),
    );
    const readAgain = (later.get("outdated") ?? []).filter(
      (write) => write.kind === "put-load-balancer" && this.#isFree(write, observed),
    );
    for (const id of outdated.take(readAgain)) observer.outdate(id);
    applier.prepare([...(later.get("current") ?? []), ...readAgain], observed);
  }

  /** Of the Services that nothing is planned or in flight for, only the records are still to be written. */
  async #finish({ round, observed }: GuardedRound<Round>): Promise<void> {
    const { planned, active, writes } = round;
    const entries = active.flatMap(({ service }) => this.#options.wanted.get(keyOf(service)) ?? []);
    const ended = entries.filter(
      (entry) =>
        this.#isUnchanged(entry) && !writes.some((write) => write.services.includes(entry.key) && !entry.isDone(write)),
    );
    const settled = new Set(ended.flatMap(({ key }) => (planned.results.get(key)?.settled === true ? [key] : [])));
    const services = ensuredIn(round).filter((service) => settled.has(keyOf(service)));
    this.#failEach(await this.#options.records.settle(services, observed));
    for (const entry of ended)
      if (this.#isUnchanged(entry)) entry.finish(planned.results.get(entry.key)?.status, settled.has(entry.key));
  }

  /** False if it has failed, or something else is wanted since the tick began. */
  #isUnchanged(entry: Wanted): boolean {
    return entry.failure === undefined && this.#begun.get(entry) === entry.intent;
  }

  #fail(key: ServiceKey, error: unknown): void {
    this.#options.wanted.get(key)?.fail(error);
  }

  #failEach(errors: ReadonlyMap<ServiceKey, unknown>): boolean {
    for (const [key, error] of errors) this.#fail(key, error);
    return errors.size === 0;
  }
}

/** The Services of a round that are to have a load balancer. */
const ensuredIn = ({ active }: Round): readonly Service[] =>
  active.flatMap(({ action, service }) => (action === "ensure" ? [service] : []));
