import { type Controller, type Logger, messageOf } from "cloud-controller-host/sdk";

import { Backoff } from "../../async/backoff.ts";
import { within } from "../../async/timeout.ts";
import type { GenerationMetrics } from "../../process/metrics/metrics.ts";
import type { RunFailure, SkippedController } from "../report/reload-status.ts";
import type { RunReport } from "../report/run-report.ts";
import type { ProcessScope } from "../scope/scope.ts";

/** An initialized controller of a generation, or what runs in the place of one that skipped itself. */
export interface ManagedController {
  readonly name: string;
  /** Its name in `running_managed_controllers`, which is upstream's short one. */
  readonly metricName: string;
  /** The lock under which it runs. */
  readonly lock: string;
  readonly log: Logger;
  /** Undefined for one that skipped itself, whose `run` stands in. */
  readonly controller: Controller | undefined;
  /** Why it skipped itself. */
  readonly skipped: string;
  /** Runs until its own signal aborts. */
  readonly run: () => Promise<void>;
  /** Its work on every replica, with or without the lock. Returns as `run` does. */
  readonly everyReplica: (() => Promise<void>) | undefined;
  /** Ends what was made for it alone: refuses its writes, aborts its signal, releases its informers. */
  readonly stop: () => void;
  /** Resolves when no cloud call of it is in flight and no init that was given up is at work. */
  readonly quiet: () => Promise<unknown>;
  /** Makes it again. Undefined where its failure is the generation's. */
  readonly again: (() => Promise<ManagedController>) | undefined;
}

export interface RunsParts {
  readonly scope: ProcessScope;
  readonly report: RunReport;
  readonly number: number;
  readonly controllers: readonly ManagedController[];
  readonly metrics: GenerationMetrics;
  /** Asks all of them to return. */
  readonly signal: AbortSignal;
}

/** A controller that has not returned this long after its abort is named, well before the drain timeout. */
const slowDrainMs = 1000;
/** Pauses before a failed controller is tried again; with their random part at most twice as long. */
const retry = { baseMs: 5_000, maxMs: 150_000 };
/** A controller that has run for this long begins with the shortest pause again. */
const goodRunMs = 600_000;

const manager = "cloud-controller-manager";

/** Called as work ends, with the failure where that came unasked. */
type Settled = (failure: RunFailure | undefined) => void;

/** The controllers of one generation at work: all run until the signal, or alone again and again where they may fail. */
export class ControllerRuns {
  readonly #parts: RunsParts;
  /** By name, as they are now. */
  readonly #controllers: Map<string, ManagedController>;
  readonly #running = new Map<string, Promise<unknown>>();
  /** Controllers that wait for their next attempt. */
  readonly #stopped = new Map<string, string>();
  /** Called with each failure that is not a retried controller's. */
  onFailure: (failure: RunFailure) => void = () => undefined;
  /** Called when a controller has been stopped or has begun again. */
  onChange: () => void = () => undefined;

  constructor(parts: RunsParts) {
    this.#parts = parts;
    this.#controllers = new Map(parts.controllers.map((each) => [each.name, each]));
  }

  /** Controllers that wait for their next attempt, with the reason. */
  get stopped(): readonly SkippedController[] {
    return [...this.#stopped].map(([name, reason]) => ({ name, reason }));
  }

  /** Controllers that run under these locks, without the stand-ins for skipped ones. */
  under(locks: readonly string[]): readonly (ManagedController & { readonly controller: Controller })[] {
    return [...this.#controllers.values()].flatMap((each) =>
      each.controller === undefined || this.#stopped.has(each.name) || !locks.includes(each.lock)
        ? []
        : [{ ...each, controller: each.controller }],
    );
  }

  /** Runs work that is not a controller's. */
  startWork(name: string, run: () => Promise<void> | undefined): void {
    this.#track(name, (settled) => this.#run(name, run, this.#parts.scope.log, settled));
  }

  /** Starts the work of controllers that runs on every replica. False if none has any. */
  startOnEveryReplica(): boolean {
    const all = [...this.#controllers.values()];
    for (const each of all) this.#startOnEveryReplica(each);
    return all.some(({ everyReplica }) => everyReplica !== undefined);
  }

  /** Starts what belongs to these locks, with the start interval between the controllers. */
  start(locks: readonly string[]): void {
    const { scope } = this.#parts;
    const all = [...this.#controllers.values()].filter(({ lock }) => locks.includes(lock));
    for (const each of all) if (each.controller === undefined) this.#start(each);
    const controllers = all.filter(({ controller }) => controller !== undefined);
    if (scope.settings.controllerStartInterval === 0) for (const each of controllers) this.#start(each);
    else this.#startSlowly(`start of controllers under ${locks.join(", ")}`, controllers);
  }

  /**
   * Stops a failed controller and tries it again with a backoff, while the others run. What it may have left running can
   * write no more. False where its failure is the generation's.
   */
  retry(failure: RunFailure): boolean {
    const { name } = failure;
    const failed = this.#controllers.get(name);
    if (failed?.again === undefined) return false;
    const loop = this.#retry(failed, failure).finally(() => this.#running.delete(name));
    this.#running.set(name, loop);
    return true;
  }

  /** Waits for all to return, for a limited time; returns the names of those that have not. */
  async drained(timeoutMs: number): Promise<readonly string[]> {
    const { scope, report, number } = this.#parts;
    const began = scope.clock.monotonic();
    const all = Promise.allSettled(this.#running.values());
    const early = await within(scope.clock, Math.min(slowDrainMs, timeoutMs), all);
    if (!early.done && timeoutMs > slowDrainMs) {
      report.drainSlow(number, [...this.#running.keys()], timeoutMs);
      await within(scope.clock, timeoutMs - (scope.clock.monotonic() - began), all);
    }
    return [...this.#running.keys()];
  }

  #startSlowly(name: string, controllers: readonly ManagedController[]): void {
    const { scope, signal } = this.#parts;
    const startAll = async (): Promise<void> => {
      for (const each of controllers) {
        if (signal.aborted) return;
        this.#start(each);
        await scope.clock.sleep(scope.settings.controllerStartInterval * (1 + Math.random()), signal);
      }
    };
    this.#running.set(
      name,
      startAll().finally(() => this.#running.delete(name)),
    );
  }

  #startOnEveryReplica(each: ManagedController): void {
    const { everyReplica, log } = each;
    if (everyReplica === undefined) return;
    const name = `${each.name} on every replica`;
    // A drain waits for that of a controller that failed, too.
    const former = this.#running.get(name);
    const work = Promise.all([former, this.#keepRunning(each, name, everyReplica, log)]).finally(() => {
      if (this.#running.get(name) === work) this.#running.delete(name);
    });
    this.#running.set(name, work);
  }

  /**
   * Runs it until its controller is stopped or the generation ends, again after each failure. It begins when what ran in
   * its place has returned, or at the limit of a drain.
   */
  async #keepRunning(each: ManagedController, name: string, run: () => Promise<void>, log: Logger): Promise<void> {
    const { scope, signal } = this.#parts;
    const { clock } = scope;
    const backoff = new Backoff(retry);
    const isCurrent = (): boolean => !signal.aborted && this.#controllers.get(each.name) === each;
    await within(clock, scope.settings.drainTimeout, scope.outstanding.returned(name), signal);
    while (isCurrent()) {
      const began = clock.monotonic();
      const failure = await this.#run(name, run, log);
      if (!isCurrent() || this.#stopped.has(each.name)) return;
      if (clock.monotonic() - began >= goodRunMs) backoff.reset();
      const pauseMs = backoff.next();
      // Not an error, which would be one of a plan: beside a host, its port is taken.
      log.warn("Per-replica work failed; trying again", {
        error: failure?.error ?? failure?.reason,
        seconds: Math.round(pauseMs / 1000),
      });
      await clock.sleep(pauseMs, signal);
    }
  }

  #start(each: ManagedController): void {
    this.#track(each.name, (settled) => this.#runController(each, settled));
  }

  /** Keeps work on record until it has settled, and then reports a failure. */
  #track(name: string, start: (settled: Settled) => Promise<unknown>): void {
    const work = start((failure) => {
      this.#running.delete(name);
      if (failure !== undefined) this.onFailure(failure);
    });
    this.#running.set(name, work);
  }

  async #retry(first: ManagedController, firstFailure: RunFailure): Promise<void> {
    const { scope, report, number, signal } = this.#parts;
    const { clock } = scope;
    const { name } = first;
    const backoff = new Backoff(retry);
    let current = first;
    let failure = firstFailure;
    for (;;) {
      current.stop();
      const pauseMs = backoff.next();
      this.#stopped.set(name, failure.reason);
      report.controllerStopped(number, failure, pauseMs);
      this.onChange();
      await clock.sleep(pauseMs, signal);
      while (!signal.aborted && !(await within(clock, pauseMs, current.quiet(), signal)).done);
      if (signal.aborted) return;
      const began = clock.monotonic();
      try {
        current = await this.#again(current);
        failure = (await this.#runController(current)) ?? failure;
      } catch (error) {
        failure = { name, reason: messageOf(error), error };
      }
      if (signal.aborted) return;
      if (clock.monotonic() - began >= goodRunMs) backoff.reset();
    }
  }

  async #again(failed: ManagedController): Promise<ManagedController> {
    const { name, again } = failed;
    const made = await (again?.() ?? failed);
    this.#controllers.set(name, made);
    this.#startOnEveryReplica(made);
    if (made.controller === undefined) this.#stopped.set(name, made.skipped);
    else this.#stopped.delete(name);
    this.#parts.report.controllerRestarted(this.#parts.number, name);
    this.onChange();
    return made;
  }

  #runController(each: ManagedController, settled?: Settled): Promise<RunFailure | undefined> {
    const { name, metricName, log, run } = each;
    if (each.controller === undefined) return this.#run(name, run, log, settled);
    const running = this.#parts.metrics.gauge<"name" | "manager">({
      name: "running_managed_controllers",
      help: "Indicates where instances of a controller are currently running",
      labels: ["name", "manager"],
    });
    log.info("Starting controller");
    running.set(1, { name: metricName, manager });
    return this.#run(name, run, log, (failure) => {
      running.set(0, { name: metricName, manager });
      log.info("Controller stopped");
      settled?.(failure);
    });
  }

  /** Resolves when the work has ended; with the failure where that came unasked. */
  #run(
    name: string,
    run: () => Promise<void> | undefined,
    log: Logger,
    settled?: Settled,
  ): Promise<RunFailure | undefined> {
    const { scope, signal } = this.#parts;
    const end = (reason: string, error?: unknown): RunFailure | undefined => {
      if (signal.aborted && error !== undefined)
        log.error("Controller failed while stopping", { controller: name, error });
      const failure = signal.aborted ? undefined : { name, reason, error };
      settled?.(failure);
      return failure;
    };
    const work = Promise.try(() => scope.loopOwner.run(name, run)).then(
      () => end("run() returned before its signal was aborted"),
      (error: unknown) => end(messageOf(error), error),
    );
    scope.outstanding.add("run", name, work);
    return work;
  }
}
