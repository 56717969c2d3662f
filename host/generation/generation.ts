import { type Cloud, type Controller, type Logger, messageOf } from "cloud-controller-host/sdk";

import { within } from "../async/timeout.ts";
import type { GenerationMetrics } from "../process/metrics/metrics.ts";
import type { HealthCheck } from "../process/serving/health.ts";
import type { Fences } from "./fences.ts";
import type { Recipe } from "./prepare.ts";
import type { ProcessScope } from "./scope.ts";

/** A controller of a generation, initialised and not yet running. */
export interface Member {
  readonly name: string;
  /** Its name in `running_managed_controllers`, which is upstream's short one. */
  readonly metricName: string;
  /** It runs while this lock is held. */
  readonly lock: string;
  readonly controller: Controller;
  readonly log: Logger;
}

export interface GenerationParts {
  readonly scope: ProcessScope;
  readonly number: number;
  readonly recipe: Recipe;
  readonly cloud: Cloud;
  readonly members: readonly Member[];
  readonly fences: Fences;
  readonly metrics: GenerationMetrics;
  readonly aborter: AbortController;
  /** Undoes, in reverse order, all that was made for this generation. */
  readonly resources: AsyncDisposableStack;
}

/** Why a controller's `run` ended though nobody had asked it to. */
export interface RunFailure {
  readonly name: string;
  readonly reason: string;
}

/**
 * One prepared or running set of controllers. Life: `start`, again for each lock that is won later → `drain` →
 * `dispose`; or `dispose` alone.
 */
export class Generation {
  readonly number: number;
  readonly recipe: Recipe;
  readonly #parts: GenerationParts;
  readonly #started = new Set<string>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #failure = Promise.withResolvers<RunFailure>();
  readonly #manager = "cloud-controller-manager";
  #startedAt: number | undefined;

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    this.number = parts.number;
    this.recipe = parts.recipe;
  }

  get controllers(): readonly string[] {
    return this.#parts.members.map(({ name }) => name);
  }

  /** The controllers that have been started under a lock. */
  startedUnder(lock: string): readonly string[] {
    return this.#started.has(lock) ? this.#under([lock]).map(({ name }) => name) : [];
  }

  /** Settles with the first controller whose `run` ended unasked. */
  get failure(): Promise<RunFailure> {
    return this.#failure.promise;
  }

  /** For how long it has been running, in milliseconds; 0 before `start`. */
  get age(): number {
    return this.#startedAt === undefined ? 0 : this.#parts.scope.clock.monotonic() - this.#startedAt;
  }

  /** The health checks of the controllers that run: their own, or none, which passes while they run. */
  get checks(): readonly HealthCheck[] {
    return this.#under([...this.#started]).map(({ name, controller }) => ({
      name,
      check: () => controller.check?.(),
    }));
  }

  /** Conditions of the running controllers that need an operator, each with the controller's name. */
  get warnings(): readonly string[] {
    return this.#under([...this.#started]).flatMap(({ name, controller }) =>
      (controller.warnings?.() ?? []).map((warning) => `${name}: ${warning}`),
    );
  }

  /**
   * Opens the fences of these locks and starts the controllers that belong to them in order, with the start interval
   * between them. The cloud's own work begins with the first call.
   */
  start(locks: readonly string[]): void {
    const { scope, fences, cloud } = this.#parts;
    for (const lock of locks) {
      fences.open(lock);
      this.#started.add(lock);
    }
    if (this.#startedAt === undefined) {
      this.#startedAt = scope.clock.monotonic();
      if (cloud.run !== undefined) this.#start(`${cloud.name}-cloud`, (signal) => cloud.run?.(signal));
    }
    const members = this.#under(locks);
    if (scope.settings.controllerStartInterval === 0) for (const member of members) this.#startMember(member);
    else this.#startSlowly(`start of controllers under ${locks.join(", ")}`, members);
  }

  /**
   * Asks every controller to stop and waits for them, for a limited time; returns who did not come back. Where a lock
   * is lost nobody may write any more, under whichever lock, not even while it stops.
   */
  async drain(timeoutMs: number): Promise<readonly string[]> {
    const { aborter, fences, scope } = this.#parts;
    if (!fences.safelyHeld) fences.close();
    aborter.abort();
    await within(scope.clock, timeoutMs, Promise.allSettled(this.#running.values()));
    return [...this.#running.keys()];
  }

  /** Fences the generation off and undoes all that was made for it. What fails here is logged, not thrown. */
  async dispose(): Promise<void> {
    this.#parts.fences.close();
    try {
      await this.#parts.resources.disposeAsync();
    } catch (error) {
      this.#parts.scope.log.error("The old generation could not be disposed of in full", {
        generation: this.number,
        error,
      });
    }
  }

  fence(): void {
    this.#parts.fences.close();
  }

  #under(locks: readonly string[]): readonly Member[] {
    return this.#parts.members.filter(({ lock }) => locks.includes(lock));
  }

  #startSlowly(name: string, members: readonly Member[]): void {
    const { scope, aborter } = this.#parts;
    const startAll = async (): Promise<void> => {
      for (const member of members) {
        if (aborter.signal.aborted) return;
        this.#startMember(member);
        await scope.clock.sleep(scope.settings.controllerStartInterval * (1 + Math.random()), aborter.signal);
      }
    };
    this.#running.set(
      name,
      startAll().finally(() => this.#running.delete(name)),
    );
  }

  #startMember({ name, metricName, controller, log }: Member): void {
    const running = this.#parts.metrics.gauge<"name" | "manager">({
      name: "running_managed_controllers",
      help: "Indicates where instances of a controller are currently running",
      labels: ["name", "manager"],
    });
    log.info("Starting controller");
    running.set(1, { name: metricName, manager: this.#manager });
    this.#start(
      name,
      (signal) => controller.run(signal),
      () => {
        running.set(0, { name: metricName, manager: this.#manager });
        log.info("Controller stopped");
      },
    );
  }

  #start(name: string, run: (signal: AbortSignal) => Promise<void> | undefined, ended?: () => void): void {
    const { signal } = this.#parts.aborter;
    const settled = (reason: string): void => {
      this.#running.delete(name);
      ended?.();
      if (!signal.aborted) this.#failure.resolve({ name, reason });
    };
    this.#running.set(
      name,
      Promise.try(run, signal).then(
        () => settled("its run() returned though nobody had asked it to stop"),
        (error: unknown) => settled(messageOf(error)),
      ),
    );
  }
}
