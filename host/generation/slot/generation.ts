import type { Cloud } from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import type { GenerationMetrics } from "../../process/metrics/metrics.ts";
import type { HealthCheck } from "../../process/serving/health.ts";
import type { LeftOutPlugin, LoadedPlugins } from "../plugins/load.ts";
import type { RunFailure, SkippedController } from "../report/reload-status.ts";
import type { RunReport } from "../report/run-report.ts";
import type { GenerationCaches } from "../scope/caches.ts";
import type { Fences } from "../scope/fences.ts";
import type { ProcessScope } from "../scope/scope.ts";
import type { CloudConfig } from "../triggers/cloud-config.ts";
import { ControllerRuns, type ManagedController } from "./controller-runs.ts";
import { type OwnStatus, type OwnWarning, type Reporter, statusOf, warningsOf } from "./own-reports.ts";

/** Everything that a generation is made from. Kept after a swap, so that the previous one can run again. */
export interface GenerationSpec {
  readonly plugins: LoadedPlugins;
  readonly config: CloudConfig;
}

export interface GenerationParts {
  readonly scope: ProcessScope;
  readonly report: RunReport;
  readonly number: number;
  readonly spec: GenerationSpec;
  readonly cloud: Cloud;
  /** Disposes of the cloud alone, which is plugin code. Also one of `resources`. */
  readonly cloudDisposal: AsyncDisposableStack;
  readonly controllers: readonly ManagedController[];
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

/** Time limit for the disposal of a cloud and its resources. */
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
  readonly #parts: GenerationParts;
  readonly #runs: ControllerRuns;
  readonly #started = new Set<string>();
  #startedAt: number | undefined;
  #standsBy = false;
  #disposal: Promise<void> | undefined;

  constructor(parts: GenerationParts) {
    this.#parts = parts;
    this.number = parts.number;
    this.spec = parts.spec;
    this.#runs = new ControllerRuns({ ...parts, signal: parts.aborter.signal });
    this.#runs.onChange = () => {
      parts.scope.health.replaceGeneration(this.checks);
      parts.report.withoutPlugins(this.refused, this.skipped.length);
    };
  }

  /** Enabled controllers that do not run: those that skipped themselves or failed. */
  get skipped(): readonly SkippedController[] {
    return [...this.#parts.skipped, ...this.#runs.stopped];
  }

  /** Names of the controllers that are missing because they failed. */
  get leftOut(): readonly string[] {
    return [...this.#parts.leftOut, ...this.#runs.stopped.map(({ name }) => name)];
  }

  /** The plugins that were left out as they were loaded, and those whose controllers were. */
  get refused(): readonly LeftOutPlugin[] {
    const leftOut = this.skipped.filter(({ name }) => this.leftOut.includes(name));
    return [...this.spec.plugins.refused, ...leftOut.map(({ name, reason }) => ({ plugin: name, reason }))];
  }

  get controllers(): readonly string[] {
    const stopped = this.#runs.stopped.map(({ name }) => name);
    const made = this.#parts.controllers.filter(({ controller }) => controller !== undefined);
    return made.map(({ name }) => name).filter((name) => !stopped.includes(name));
  }

  /** The controllers that have been started under a lock. */
  startedUnder(lock: string): readonly string[] {
    return this.#started.has(lock) ? this.#runs.under([lock]).map(({ name }) => name) : [];
  }

  /** Sets the callback for controllers whose `run` ended before its signal was aborted. */
  onFailure(report: (failure: RunFailure) => void): void {
    this.#runs.onFailure = report;
  }

  /** Stops a failed third-party controller and tries it again, while the others run. False if that is not allowed. */
  retry(failure: RunFailure): boolean {
    return this.#runs.retry(failure);
  }

  /** Aborts when it is asked to return. */
  get signal(): AbortSignal {
    return this.#parts.aborter.signal;
  }

  /** Time since `start` in milliseconds; 0 before it. */
  get age(): number {
    return this.#startedAt === undefined ? 0 : this.#parts.scope.clock.monotonic() - this.#startedAt;
  }

  /** True if every lock that its work runs under is safely held. */
  get safelyHeld(): boolean {
    return this.#parts.fences.safelyHeld;
  }

  /** True if one of its fences is open and its lock safely held. */
  get mayWrite(): boolean {
    return this.#parts.fences.anyOpen;
  }

  /** True if no informer cache is older than the lock. */
  isFresh(lock: string): boolean {
    return this.#parts.caches.isFresh(lock);
  }

  /** Begins to read every informer cache again. */
  readAgain(): void {
    this.#parts.caches.readAgain(this.#parts.aborter.signal);
  }

  /** Resolves when no cache is older than the lock or the generation has ended, or with an error after a limit. */
  refresh(lock: string): Promise<Error | undefined> {
    return this.#parts.caches.refresh(lock, this.#parts.aborter.signal);
  }

  /** The health checks of the controllers that run: their own, or none, which passes while they run. */
  get checks(): readonly HealthCheck[] {
    return this.#runs.under([...this.#started]).map(({ name, controller }) => ({
      name,
      check: () => controller.check?.(),
    }));
  }

  /** Conditions of the running controllers and of the cloud that need an operator. */
  get warnings(): readonly OwnWarning[] {
    return warningsOf(this.#reporters);
  }

  /** Starts the work that needs no lock. */
  standBy(): void {
    if (this.#standsBy) return;
    this.#standsBy = true;
    if (this.#runs.startOnEveryReplica()) this.#parts.metrics.start();
  }

  /** Status sections of the running controllers and the cloud. */
  get ownStatus(): readonly OwnStatus[] {
    return statusOf(this.#reporters);
  }

  /** The running controllers, and the cloud. */
  get #reporters(): readonly Reporter[] {
    const { cloud } = this.#parts;
    const running = this.#runs.under([...this.#started]).map(({ name, controller }) => ({ name, source: controller }));
    return [...running, { name: `${cloud.name}-cloud`, source: cloud }];
  }

  /** Reads the cloud resources of one object; undefined if the cloud cannot. */
  get explain(): Cloud["explain"] {
    return this.#parts.cloud.explain;
  }

  /**
   * Opens the fences of these locks and starts the controllers that belong to them in order, with the start interval
   * between them. The cloud's own work begins with the first call.
   */
  start(locks: readonly string[]): void {
    const { scope, fences, cloud, metrics } = this.#parts;
    this.standBy();
    for (const lock of locks) {
      fences.open(lock);
      this.#started.add(lock);
    }
    if (this.#startedAt === undefined) {
      metrics.start();
      this.#startedAt = scope.clock.monotonic();
      if (cloud.run !== undefined) this.#runs.startWork(`${cloud.name}-cloud`, () => cloud.run?.(this.signal));
    }
    this.#runs.start(locks);
  }

  /**
   * Asks every controller to return and waits for them, for a limited time; returns the names of those that have not.
   * They stay in the ledger of outstanding work until they do.
   */
  drain(timeoutMs: number): Promise<readonly string[]> {
    this.#parts.aborter.abort();
    return this.#runs.drained(timeoutMs);
  }

  /** Closes every fence for good and cuts off writes in flight. */
  fence(): void {
    this.#parts.fences.close();
  }

  /** Disposes of the cloud alone, within a limit; the rest follows with `dispose`. Failures are logged, not thrown. */
  disposeCloud(): Promise<void> {
    return disposeWithin(this.#parts.scope, this.number, this.#parts.cloudDisposal);
  }

  /** Fences the generation off and undoes all that was made for it, within a limit. Failures are logged, not thrown. */
  dispose(): Promise<void> {
    this.#disposal ??= this.#dispose();
    return this.#disposal;
  }

  async #dispose(): Promise<void> {
    this.fence();
    // Before anything is undone: plugins tie what `init` has begun to their signal.
    const { aborter, scope, report, resources } = this.#parts;
    aborter.abort();
    if (this.#standsBy && this.#startedAt === undefined) {
      await this.#runs.drained(scope.settings.drainTimeout);
      report.drainEnded();
    }
    await disposeWithin(scope, this.number, resources);
  }
}

/** A prepared generation that waits for its turn. */
export interface Candidate {
  readonly generation: Generation;
  readonly trigger: string;
  readonly secondsSoFar: number;
  /** Settles when it runs, stands by, or has been disposed of. */
  readonly taken: PromiseWithResolvers<void>;
}

export const candidateOf = (generation: Generation, trigger: string, secondsSoFar: number): Candidate => ({
  generation,
  trigger,
  secondsSoFar,
  taken: Promise.withResolvers<void>(),
});
