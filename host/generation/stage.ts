import { CodedError, messageOf } from "cloud-controller-host/sdk";

import type { Generation, RunFailure } from "./generation.ts";
import type { Recipe } from "./prepare.ts";
import type { ReloadReport } from "./reload-report.ts";
import type { ProcessScope } from "./scope.ts";

/** A generation that fails sooner than this after its start is held to be bad, and the one before it runs again. */
const probationMs = 60_000;

/** The code of the error by which `lead` says that not all work has stopped. */
export const drainTimeout = "DrainTimeout";

type Prepare = (recipe: Recipe, signal: AbortSignal) => Promise<Generation>;

/**
 * Where at most one generation runs. Every change of who stands there (`install`, `disable`, begin and end of `lead`,
 * recovery) is one step, and steps never overlap: drain and fence of the old come before the run of the new.
 */
export class Stage {
  readonly #scope: ProcessScope;
  readonly #report: ReloadReport;
  readonly #prepare: Prepare;
  #steps: Promise<unknown> = Promise.resolve();
  #leading: AbortSignal | undefined;
  /** The locks that are held while this process leads, the main one first. */
  readonly #held: Set<string>;
  #fatal = Promise.withResolvers<never>();
  #active: Generation | undefined;
  #running = false;
  /** What ran before what runs now: the way back. */
  #previous: Recipe | undefined;

  constructor(scope: ProcessScope, report: ReloadReport, prepareAgain: Prepare) {
    this.#scope = scope;
    this.#held = new Set([scope.locks.main]);
    this.#report = report;
    this.#prepare = prepareAgain;
  }

  /** The generation that runs or stands by. */
  get active(): Generation | undefined {
    return this.#active;
  }

  get running(): boolean {
    return this.#running;
  }

  /** Swaps in a prepared generation: it runs if this process leads, and stands by if not. */
  install(next: Generation, reason: string, secondsSoFar: number): Promise<void> {
    return this.#step(async () => {
      const { clock } = this.#scope;
      const old = this.#active;
      const wasRunning = this.#running;
      const began = clock.monotonic();
      if (old !== undefined) await this.#stop(old);
      // What is written and not shown yet would be done again.
      if (wasRunning) await this.#scope.informers.showWrites();
      this.#active = next;
      if (this.#mayRun()) {
        this.#previous = wasRunning ? old?.recipe : this.#previous;
        this.#run(next);
      }
      const gap = clock.monotonic() - began;
      // Only now is the old one's share of the watches let go: the new one has its own, so none of them stops.
      await old?.dispose();
      if (reason === "start") return;
      const seconds = secondsSoFar + gap / 1000;
      if (this.#running) this.#report.swapped(next.number, reason, seconds, gap);
      else this.#report.prepared(next.number, reason, seconds);
      // The runtime is slow to notice a whole dropped generation: without this the process grows to twice its size.
      Bun.gc(true);
    });
  }

  /** Takes note of a further lock that has been won: what belongs to it runs from now on. */
  take(lock: string): Promise<void> {
    return this.#step(async () => {
      this.#held.add(lock);
      const generation = this.#active;
      if (generation === undefined || !this.#running || !this.#mayRun()) return;
      generation.start([lock]);
      this.#scope.health.replaceGeneration(generation.checks);
      this.#report.joined(generation.number, lock, generation.startedUnder(lock));
    });
  }

  /** Drains the controllers and leaves the stage empty; the lease stays where it is. */
  disable(hash: string): Promise<void> {
    return this.#step(async () => {
      await this.#empty();
      this.#report.disabled(hash);
    });
  }

  clear(): Promise<unknown> {
    return this.#step(() => this.#empty());
  }

  /**
   * Runs what stands by, and whatever is installed later, until the signal aborts and all of it has stopped. Rejects
   * with `DrainTimeout` where not all has: what still runs is fenced off, but the lease must not be handed to others.
   */
  async lead(signal: AbortSignal): Promise<void> {
    const ended = Promise.withResolvers<void>();
    const end = (): void => ended.resolve();
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    this.#fatal = Promise.withResolvers<never>();
    let overdue: readonly string[] = [];
    try {
      await this.#step(async () => {
        this.#leading = signal;
        if (this.#active !== undefined && this.#mayRun()) this.#run(this.#active);
      });
      await Promise.race([ended.promise, this.#fatal.promise]);
    } finally {
      signal.removeEventListener("abort", end);
      await this.#step(async () => {
        this.#leading = undefined;
        overdue = await this.#empty();
      });
    }
    if (overdue.length > 0)
      throw new CodedError(drainTimeout, `${overdue.join(", ")} did not stop in time; the lease is left to run out`);
  }

  #mayRun(): boolean {
    return this.#leading !== undefined && !this.#leading.aborted;
  }

  #run(generation: Generation): void {
    const locks = [...this.#held];
    generation.start(locks);
    this.#running = true;
    this.#scope.health.replaceGeneration(generation.checks);
    const names = locks.flatMap((lock) => generation.startedUnder(lock));
    this.#report.started(generation.number, generation.recipe.config.hash, names);
    void generation.failure.then((failure) => this.#step(() => this.#recover(generation, failure)));
  }

  /** Drain, then fence: after this the generation can no longer write, whether or not all of it has come back. */
  async #stop(generation: Generation): Promise<readonly string[]> {
    const timeoutMs = this.#scope.settings.drainTimeout;
    const overdue = await generation.drain(timeoutMs);
    generation.fence();
    this.#running = false;
    if (overdue.length > 0) this.#report.overdue(generation.number, overdue, timeoutMs);
    return overdue;
  }

  /** Returns who did not come back. */
  async #empty(): Promise<readonly string[]> {
    const old = this.#active;
    if (old === undefined) return [];
    const overdue = await this.#stop(old);
    this.#active = undefined;
    this.#scope.health.replaceGeneration([]);
    await old.dispose();
    return overdue;
  }

  /**
   * A controller has ended unasked. In its probation the generation gives way to the one before it; later on the same
   * plugins and config are started afresh. Where neither can be had the lease is better passed on.
   */
  async #recover(failed: Generation, failure: RunFailure): Promise<void> {
    if (this.#active !== failed || !this.#mayRun()) return;
    const isNew = failed.age < probationMs;
    const recipe = isNew ? this.#previous : failed.recipe;
    if (isNew) this.#previous = undefined;
    const next = isNew ? "the previous generation runs again" : "its generation is started afresh";
    this.#report.runFailed(
      failed.number,
      failure.name,
      failure.reason,
      recipe === undefined ? "the process ends" : next,
    );
    await this.#empty();
    try {
      if (recipe === undefined)
        throw new CodedError("RunFailed", `controller "${failure.name}" failed: ${failure.reason}`);
      const leading = this.#leading;
      if (leading === undefined) return;
      const replacement = await this.#prepare(recipe, leading);
      await this.#scope.informers.showWrites();
      this.#active = replacement;
      if (this.#mayRun()) this.#run(replacement);
    } catch (error) {
      if (!this.#mayRun()) return;
      this.#fatal.reject(
        new CodedError("RunFailed", `no generation can be run: ${messageOf(error)}`, { cause: error }),
      );
    }
  }

  #step<T>(step: () => Promise<T>): Promise<T> {
    const result = this.#steps.then(step);
    this.#steps = result.catch(() => undefined);
    return result;
  }
}
