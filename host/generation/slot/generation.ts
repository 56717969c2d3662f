import { type Cloud, type Controller, type Logger, messageOf } from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import { within } from "../../async/timeout.ts";
import type { GenerationMetrics } from "../../process/metrics/metrics.ts";
import type { HealthCheck } from "../../process/serving/health.ts";
import type { LeftOutPlugin, LoadedPlugins } from "../plugins/load.ts";
import type { ReloadReport, SkippedController } from "../report/reload-report.ts";
import type { GenerationCaches } from "../scope/caches.ts";
import type { Fences } from "../scope/fences.ts";
import type { ProcessScope } from "../scope/scope.ts";
import type { CloudConfig } from "../triggers/cloud-config.ts";

/** Everything that a generation is made from. Kept after a swap, so that the previous one can run again. */
export interface GenerationSpec {
  readonly plugins: LoadedPlugins;
  readonly config: CloudConfig;
}

/** An initialized controller of a generation. */
export interface ManagedController {
  readonly name: string;
  /** Its name in `running_managed_controllers`, which is upstream's short one. */
  readonly metricName: string;
  /** It runs while this lock is held. */
  readonly lock: string;
  readonly controller: Controller;
  readonly log: Logger;
}

/** What runs in place of a skipped controller. */
export interface Substitute extends Pick<ManagedController, "name" | "lock" | "log"> {
  readonly run: (signal: AbortSignal) => Promise<void>;
}

export interface GenerationParts {
  readonly scope: ProcessScope;
  readonly report: ReloadReport;
  readonly number: number;
  readonly spec: GenerationSpec;
  readonly cloud: Cloud;
  readonly controllers: readonly ManagedController[];
  readonly substitutes: readonly Substitute[];
  readonly skipped: readonly SkippedController[];
  /** Names of those among `skipped` that failed. */
  readonly leftOut: readonly string[];
  readonly fences: Fences;
  readonly caches: GenerationCaches;
  readonly metrics: GenerationMetrics;
  readonly aborter: AbortController;
  /** Undoes, in reverse order, all that was made for this generation. */
  readonly resources: AsyncDisposableStack;
}

/** A controller whose `run` ended before its signal was aborted. */
export interface RunFailure {
  readonly name: string;
  readonly reason: string;
}

/** A controller that has not returned this long after its abort is named, well before the drain timeout. */
const slowDrainMs = 1000;
/** Nothing waits longer than this for a cloud and its resources to be disposed of. */
const disposalLimitMs = 5000;

/** Undoes all that was made for a generation, within a limit. Failures are logged, not thrown. */
export async function disposeWithin(
  { clock, outstanding, log }: Pick<ProcessScope, "clock" | "outstanding" | "log">,
  generation: number,
  resources: AsyncDisposableStack,
): Promise<void> {
  const name = `disposal of generation ${generation}`;
  const hint = "the process continues without it; the lease is not released while it lasts";
  try {
    await bounded({ kind: "dispose", name, clock, outstanding, limitMs: disposalLimitMs, hint }, () =>
      resources.disposeAsync(),
    );
  } catch (error) {
    log.error("Failed to dispose of a generation", { generation, error });
  }
}

/**
 * One prepared or running set of controllers. Life: `start`, again for each lock that is won later → `drain` →
 * `fence` → `dispose`; or `dispose` alone.
 */
export class Generation {
  readonly number: number;
  readonly spec: GenerationSpec;
  readonly skipped: readonly SkippedController[];
  /** Names of the controllers that are missing because they failed. */
  readonly leftOut: readonly string[];
  readonly #parts: GenerationParts;
  readonly #started = new Set<string>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #failure = Promise.withResolvers<RunFailure>();
  readonly #manager = "cloud-controller-manager";
  #startedAt: number | undefined;
  #disposal: Promise<void> | undefined;

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    this.number = parts.number;
    this.spec = parts.spec;
    this.skipped = parts.skipped;
    this.leftOut = parts.leftOut;
  }

  /** The plugins that were left out as they were loaded, and those whose controllers were. */
  get refused(): readonly LeftOutPlugin[] {
    const leftOut = this.skipped.filter(({ name }) => this.leftOut.includes(name));
    return [...this.spec.plugins.refused, ...leftOut.map(({ name, reason }) => ({ plugin: name, reason }))];
  }

  get controllers(): readonly string[] {
    return this.#parts.controllers.map(({ name }) => name);
  }

  /** The controllers that have been started under a lock. */
  startedUnder(lock: string): readonly string[] {
    return this.#started.has(lock) ? this.#under([lock]).map(({ name }) => name) : [];
  }

  /** Settles with the first controller whose `run` ended before its signal was aborted. */
  get failure(): Promise<RunFailure> {
    return this.#failure.promise;
  }

  /** Aborts when it is asked to return. */
  get signal(): AbortSignal {
    return this.#parts.aborter.signal;
  }

  /** For how long it has been running, in milliseconds; 0 before `start`. */
  get age(): number {
    return this.#startedAt === undefined ? 0 : this.#parts.scope.clock.monotonic() - this.#startedAt;
  }

  /** Whether every lock that its work runs under is safely held. */
  get safelyHeld(): boolean {
    return this.#parts.fences.safelyHeld;
  }

  /** Whether one of its fences is open and its lock safely held. */
  get mayWrite(): boolean {
    return this.#parts.fences.anyOpen;
  }

  /** True if no informer cache is older than the lock. */
  isFresh(lock: string): boolean {
    return this.#parts.caches.isFresh(lock);
  }

  /** Resolves when no cache is older than the lock or the generation has ended, or with an error after a limit. */
  refresh(lock: string): Promise<Error | undefined> {
    return this.#parts.caches.refresh(lock, this.#parts.aborter.signal);
  }

  /** The health checks of the controllers that run: their own, or none, which passes while they run. */
  get checks(): readonly HealthCheck[] {
    return this.#under([...this.#started]).map(({ name, controller }) => ({
      name,
      check: () => controller.check?.(),
    }));
  }

  /** Conditions of the running controllers and of the cloud that need an operator, each with the name. */
  get warnings(): readonly string[] {
    const { cloud } = this.#parts;
    const controllers = this.#under([...this.#started]).map(({ name, controller }) => ({ name, source: controller }));
    return [...controllers, { name: `${cloud.name}-cloud`, source: cloud }].flatMap(({ name, source }) =>
      (source.warnings?.() ?? []).map((warning) => `${name}: ${warning}`),
    );
  }

  /**
   * Opens the fences of these locks and starts the controllers that belong to them in order, with the start interval
   * between them. The cloud's own work begins with the first call.
   */
  start(locks: readonly string[]): void {
    const { scope, fences, cloud, metrics } = this.#parts;
    for (const lock of locks) {
      fences.open(lock);
      this.#started.add(lock);
    }
    if (this.#startedAt === undefined) {
      metrics.start();
      this.#startedAt = scope.clock.monotonic();
      if (cloud.run !== undefined) this.#start(`${cloud.name}-cloud`, (signal) => cloud.run?.(signal), scope.log);
    }
    for (const { name, lock, run, log } of this.#parts.substitutes)
      if (locks.includes(lock)) this.#start(name, run, log);
    const controllers = this.#under(locks);
    if (scope.settings.controllerStartInterval === 0)
      for (const controller of controllers) this.#startController(controller);
    else this.#startSlowly(`start of controllers under ${locks.join(", ")}`, controllers);
  }

  /**
   * Asks every controller to return and waits for them, for a limited time; returns the names of those that have not.
   * They stay in the ledger of outstanding work until they do.
   */
  async drain(timeoutMs: number): Promise<readonly string[]> {
    const { aborter, scope, report } = this.#parts;
    const began = scope.clock.monotonic();
    aborter.abort();
    const all = Promise.allSettled(this.#running.values());
    const early = await within(scope.clock, Math.min(slowDrainMs, timeoutMs), all);
    if (!early.done && timeoutMs > slowDrainMs) {
      report.drainSlow(this.number, [...this.#running.keys()], timeoutMs);
      await within(scope.clock, timeoutMs - (scope.clock.monotonic() - began), all);
    }
    return [...this.#running.keys()];
  }

  /** Closes every fence for good and cuts off writes in flight. */
  fence(): void {
    this.#parts.fences.close();
  }

  /** Fences the generation off and undoes all that was made for it, within a limit. Failures are logged, not thrown. */
  dispose(): Promise<void> {
    this.#disposal ??= this.#dispose();
    return this.#disposal;
  }

  async #dispose(): Promise<void> {
    this.fence();
    // Before anything is undone: plugins tie what `init` has begun to their signal.
    this.#parts.aborter.abort();
    await disposeWithin(this.#parts.scope, this.number, this.#parts.resources);
  }

  #under(locks: readonly string[]): readonly ManagedController[] {
    return this.#parts.controllers.filter(({ lock }) => locks.includes(lock));
  }

  #startSlowly(name: string, controllers: readonly ManagedController[]): void {
    const { scope, aborter } = this.#parts;
    const startAll = async (): Promise<void> => {
      for (const controller of controllers) {
        if (aborter.signal.aborted) return;
        this.#startController(controller);
        await scope.clock.sleep(scope.settings.controllerStartInterval * (1 + Math.random()), aborter.signal);
      }
    };
    this.#running.set(
      name,
      startAll().finally(() => this.#running.delete(name)),
    );
  }

  #startController({ name, metricName, controller, log }: ManagedController): void {
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
      log,
      () => {
        running.set(0, { name: metricName, manager: this.#manager });
        log.info("Controller stopped");
      },
    );
  }

  #start(name: string, run: (signal: AbortSignal) => Promise<void> | undefined, log: Logger, ended?: () => void): void {
    const { aborter, scope } = this.#parts;
    const { signal } = aborter;
    const settled = (reason: string, error?: unknown): void => {
      this.#running.delete(name);
      ended?.();
      if (!signal.aborted) this.#failure.resolve({ name, reason });
      else if (error !== undefined) log.error("Controller failed while stopping", { controller: name, error });
    };
    const work = Promise.try(() => scope.loopOwner.run(name, () => run(signal))).then(
      () => settled("run() returned before its signal was aborted"),
      (error: unknown) => settled(messageOf(error), error),
    );
    this.#running.set(name, work);
    scope.outstanding.add("run", name, work);
  }
}
