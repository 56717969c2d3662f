import { CodedError, messageOf } from "cloud-controller-host/sdk";

import type { OutstandingEntry } from "../../async/outstanding-work.ts";
import type { ReloadReport } from "../report/reload-report.ts";
import type { RunFailure } from "../report/reload-status.ts";
import { type Effect, type EventName, initialState, type Phase, type SlotState, transition } from "../report/states.ts";
import type { ProcessScope } from "../scope/scope.ts";
import { type Candidate, candidateOf, type Generation } from "./generation.ts";
import { type Prepare, probationMs, Recovery } from "./recovery.ts";

/** Grace period for aborted work to return, after which the lease is left to expire because of it. */
const settleMs = 1000;

/** Outcome of the work under the lease. The lease may be released only when nothing is outstanding. */
export interface WorkEnd {
  readonly outstanding: readonly OutstandingEntry[];
  /** Why no generation could run any more. */
  readonly failure: Error | undefined;
}

/** Payload of an event. */
type Payload = Partial<{ readonly candidate: Candidate; readonly lock: string }>;

/**
 * The slot in which at most one generation runs: carries out the effects of the table in `states.ts`. Events are handled
 * at once and one at a time; waiting happens outside, and its end is an event.
 */
export class GenerationSlot {
  readonly #scope: ProcessScope;
  readonly #report: ReloadReport;
  readonly #recovery: Recovery;
  readonly #ended = Promise.withResolvers<WorkEnd>();
  /** Generations whose reload has been reported as done while they stood by. */
  readonly #reported = new WeakSet<Generation>();
  /** Settles when every generation that was dropped is disposed of. */
  #disposed: Promise<void> = Promise.resolve();
  /** The locks that are held while this process leads, the main one first. */
  readonly #heldLocks: Set<string>;
  #state: SlotState = initialState;
  /** Runs, drains or is fenced. */
  #active: Generation | undefined;
  /** Was swapped out, and its watches are released after the next one has taken its share of them; or ran until the end. */
  #retired: Generation | undefined;
  #candidate: Candidate | undefined;
  /** Called when no generation is draining or fenced. */
  readonly #waiters: (() => void)[] = [];
  #drainBegan: number | undefined;
  #disabledHash = "";
  #failure: Error | undefined;

  constructor(scope: ProcessScope, report: ReloadReport, prepareAgain: Prepare) {
    this.#scope = scope;
    this.#heldLocks = new Set([scope.locks.main]);
    this.#report = report;
    this.#recovery = new Recovery(prepareAgain);
  }

  get phase(): Phase {
    return this.#state.phase;
  }

  /** The generation that runs or, while none does, stands by. */
  get active(): Generation | undefined {
    return this.#active ?? this.#candidate?.generation;
  }

  get running(): boolean {
    return this.#state.phase === "running";
  }

  /** True if a write would be allowed now. */
  get mayWrite(): boolean {
    return this.#active?.mayWrite ?? false;
  }

  /** Offers a prepared generation. Resolves when it runs, stands by, or was disposed of for a newer one or the end. */
  async install(generation: Generation, trigger: string, secondsSoFar: number): Promise<void> {
    const candidate = candidateOf(generation, trigger, secondsSoFar);
    this.#dispatch("prepared", { candidate });
    await candidate.taken.promise;
  }

  /** Drains the controllers and leaves the slot empty; the lease stays where it is. Resolves when that is done. */
  async disable(hash: string): Promise<void> {
    this.#disabledHash = hash;
    this.#dispatch("disable");
    const settled = Promise.withResolvers<void>();
    if (this.#isMoving) this.#waiters.push(settled.resolve);
    else settled.resolve();
    await settled.promise;
  }

  /** Takes note of a further lock that has been won: what belongs to it runs from now on. */
  lockWon(lock: string): void {
    this.#heldLocks.add(lock);
    this.#dispatch("lockWon", { lock });
  }

  /**
   * Runs what stands by, and whatever is installed later, until the signal aborts. Where a lock is lost, by the reason of
   * the abort or by the local clock, it fences before it drains; otherwise it drains first.
   */
  async lead(leaseSignal: AbortSignal): Promise<WorkEnd> {
    const abort = (): void => {
      const { reason } = leaseSignal;
      const isLost = reason instanceof CodedError && reason.code === "LeaseLost";
      this.#dispatch(isLost || this.#active?.safelyHeld === false ? "lost" : "stop");
    };
    this.#dispatch("leading");
    leaseSignal.addEventListener("abort", abort, { once: true });
    if (leaseSignal.aborted) abort();
    return this.#ended.promise;
  }

  /** A lock is no longer held: fences at once, also in the middle of a stop. */
  lost(): void {
    this.#dispatch("lost");
  }

  /** Ends a slot that does not lead, or disposes of what was kept so that the lease is released sooner. */
  async close(): Promise<void> {
    this.#dispatch("stop");
    await Promise.all([this.#retired?.dispose(), this.#disposed]);
  }

  #dispatch(event: EventName, payload: Payload = {}): void {
    const { state, effects } = transition(this.#state, event);
    this.#scope.log.debug(2, "Generation state", { from: this.#state.phase, event, to: state.phase });
    this.#state = state;
    if (payload.candidate !== undefined && !effects.includes("adopt")) this.#drop(payload.candidate);
    for (const effect of effects) this.#effects[effect](payload);
    if (!this.#isMoving) for (const waiter of this.#waiters.splice(0)) waiter();
  }

  get #isMoving(): boolean {
    return this.#state.phase === "draining" || this.#state.phase === "fenced";
  }

  readonly #effects: Readonly<Record<Effect, (payload: Payload) => void>> = {
    adopt: ({ candidate }) => {
      const older = this.#candidate;
      this.#candidate = candidate;
      if (older !== undefined) this.#drop(older);
      if (this.#active === undefined && candidate !== undefined)
        this.#report.runs.withoutPlugins(candidate.generation.refused);
      if (candidate === undefined || this.#state.phase !== "standby") return;
      candidate.generation.standBy();
      candidate.taken.resolve();
      if (candidate.trigger === "start") return;
      this.#reported.add(candidate.generation);
      this.#report.prepared(candidate.generation.number, candidate.trigger, candidate.secondsSoFar);
    },
    discard: () => {
      const candidate = this.#candidate;
      this.#candidate = undefined;
      if (candidate !== undefined) this.#drop(candidate);
    },
    relist: () => this.#scope.informers.relist(this.#scope.locks.heldSince(this.#scope.locks.main)),
    refresh: () => void this.#refresh(),
    start: () => this.#start(),
    startLock: ({ lock = "" }) => void this.#join(lock),
    remember: () => this.#recovery.remember(this.#active),
    forget: () => this.#recovery.forget(),
    drain: () => void this.#drain(),
    fence: () => this.#active?.fence(),
    settle: () => void this.#scope.informers.showWrites().then(() => this.#dispatch("settled")),
    retire: () => this.#retire(),
    recover: () => void this.#recover(),
    abandon: () => this.#recovery.abandon(),
    disabled: () => {
      // A reload that ends this time without a cloud provider did not cause it.
      this.#drainBegan = undefined;
      this.#report.disabled(this.#disabledHash);
    },
    end: () => void this.#end(),
  };

  /** A candidate that was replaced meanwhile no longer counts. */
  async #refresh(): Promise<void> {
    const { generation } = this.#candidate ?? {};
    const failure = await generation?.refresh(this.#scope.locks.main);
    if (this.#candidate?.generation !== generation) return;
    this.#failure = failure;
    this.#dispatch(failure === undefined ? "cachesReady" : "cachesStale");
  }

  /** Starts what belongs to a further lock once the caches are as fresh as that. */
  async #join(lock: string): Promise<void> {
    const generation = this.#active;
    if (generation === undefined) return;
    const failure = generation.isFresh(lock) ? undefined : await generation.refresh(lock);
    if (this.#active !== generation || this.#state.phase !== "running") return;
    this.#failure = failure;
    if (failure !== undefined) return this.#dispatch("cachesStale");
    generation.start([lock]);
    this.#scope.health.replaceGeneration(generation.checks);
    this.#report.runs.joined(generation.number, lock, generation.startedUnder(lock));
  }

  #drop({ generation, trigger, taken }: Candidate): void {
    if (trigger !== "start" && trigger !== "recovery" && !this.#reported.has(generation))
      this.#report.superseded(generation.number, trigger);
    this.#dispose(generation);
    taken.resolve();
  }

  #dispose(generation: Generation): void {
    const disposal = generation.dispose().finally(() => {
      // At the end it would delay the release of the lease for nothing.
      if (this.#state.goal !== "end") this.#scope.collectGarbage?.();
    });
    const former = this.#disposed;
    this.#disposed = disposal.then(() => former);
  }

  #start(): void {
    const candidate = this.#candidate;
    if (candidate === undefined) return;
    const { generation, trigger, secondsSoFar, taken } = candidate;
    const { clock, health } = this.#scope;
    this.#retired = this.#active;
    this.#active = generation;
    this.#candidate = undefined;
    const { main } = this.#scope.locks;
    const locks = [...this.#heldLocks].filter((lock) => lock === main || generation.isFresh(lock));
    generation.onFailure((failure) => this.#failed(generation, failure));
    generation.start(locks);
    for (const lock of this.#heldLocks) if (!locks.includes(lock)) void this.#join(lock);
    health.replaceGeneration(generation.checks);
    const names = locks.flatMap((lock) => generation.startedUnder(lock));
    this.#report.runs.withoutPlugins(generation.refused);
    this.#report.runs.started(generation.number, generation.spec.config.hash, names, generation.skipped);
    const { wayBack } = this.#recovery;
    if (trigger === "recovery" && wayBack !== undefined) this.#report.runs.ranAgain(generation.number, wayBack);
    if (generation.controllers.length === 0) this.#report.runs.startedEmpty(generation.number);
    void this.#prove(generation);
    const gap = this.#drainBegan === undefined ? 0 : clock.monotonic() - this.#drainBegan;
    this.#drainBegan = undefined;
    if (trigger !== "start" && trigger !== "recovery" && !this.#reported.has(generation))
      this.#report.swapped(generation.number, trigger, secondsSoFar + gap / 1000, gap);
    taken.resolve();
  }

  async #prove({ signal }: Generation): Promise<void> {
    await this.#scope.clock.sleep(probationMs, signal);
    if (!signal.aborted) this.#dispatch("proven");
  }

  #retire(): void {
    const retired = this.#retired ?? this.#active;
    if (this.#retired === undefined) {
      this.#active = undefined;
      this.#scope.health.replaceGeneration([]);
      this.#report.runs.ended();
    }
    this.#retired = this.#state.goal === "end" ? retired : undefined;
    if (retired !== undefined && this.#retired === undefined) this.#dispose(retired);
  }

  async #drain(): Promise<void> {
    const generation = this.#active;
    if (generation === undefined) return this.#dispatch("drained");
    if (this.#state.goal === "run") this.#scope.collectYoungGarbage?.();
    this.#drainBegan = this.#scope.clock.monotonic();
    const timeoutMs = this.#scope.settings.drainTimeout;
    const overdue = await generation.drain(timeoutMs);
    this.#report.runs.drainEnded();
    if (overdue.length > 0) this.#report.runs.drainOverdue(generation.number, overdue, timeoutMs);
    this.#dispatch("drained");
  }

  #failed(generation: Generation, failure: RunFailure): void {
    if (this.#active !== generation || this.#state.phase !== "running") return;
    if (this.#recovery.wayBack === undefined && generation.retry(failure)) return;
    this.#report.runs.runFailed(generation.number, failure, this.#recovery.choose(generation, failure));
    this.#dispatch("failed");
  }

  async #recover(): Promise<void> {
    try {
      const generation = await this.#recovery.prepare();
      if (generation === undefined) return;
      this.#dispatch("recovered", { candidate: candidateOf(generation, "recovery", 0) });
    } catch (error) {
      this.#failure = new CodedError("RunFailed", `no generation can run: ${messageOf(error)}`, { cause: error });
      this.#dispatch("recoveryFailed");
    }
  }

  async #end(): Promise<void> {
    this.#recovery.forget();
    await Promise.all([this.#retired?.disposeCloud(), this.#disposed]);
    const outstanding = await this.#scope.outstanding.settled(settleMs);
    if (outstanding.length > 0) this.#report.runs.leaseKept(outstanding);
    this.#ended.resolve({ outstanding, failure: this.#failure });
  }
}
