import type { OutstandingEntry } from "../../async/outstanding-work.ts";
import type { LeftOutPlugin } from "../plugins/load.ts";
import type { ProcessScope } from "../scope/scope.ts";
import type { ReloadMetrics } from "./reload-metrics.ts";
import {
  type KeptStatus,
  type NextRun,
  retryAfterText,
  type RunFailure,
  type SkippedController,
} from "./reload-status.ts";

/** Reports how generations run, fail and drain, and which plugins they lack, wherever people look. */
export class RunReport {
  readonly #scope: ProcessScope;
  readonly #metrics: ReloadMetrics;
  readonly #kept: KeptStatus;

  constructor(scope: ProcessScope, metrics: ReloadMetrics, kept: KeptStatus) {
    this.#scope = scope;
    this.#metrics = metrics;
    this.#kept = kept;
  }

  started(
    generation: number,
    hash: string,
    controllers: readonly string[],
    skipped: readonly SkippedController[],
  ): void {
    this.#kept.set({ generationStartedAt: this.#kept.now(), disabled: false });
    this.#metrics.generation.set(generation);
    this.#metrics.skipped.set(skipped.length);
    this.#metrics.countFailuresOf(controllers);
    this.#scope.log.info("Generation started", { generation, configHash: hash, controllers: controllers.join(",") });
    for (const { name, reason } of skipped)
      this.#scope.announce(
        "Normal",
        "ControllerSkipped",
        `${name} does not run in generation ${generation}: ${reason}`,
      );
  }

  startedEmpty(generation: number): void {
    this.#scope.log.warn("No controllers run; check --controllers and the skipped controllers", { generation });
  }

  /** Controllers of the running generation have started, under a lock that was won only now. */
  joined(generation: number, lock: string, controllers: readonly string[]): void {
    this.#metrics.countFailuresOf(controllers);
    this.#scope.log.info("Controllers started under a further lock", {
      generation,
      lock,
      controllers: controllers.join(","),
    });
  }

  /** No generation runs any more. */
  ended(): void {
    this.#kept.set({ generationStartedAt: undefined });
    this.#metrics.skipped.set(0);
  }

  runFailed(generation: number, failure: RunFailure, { outcome, isRestart }: NextRun): void {
    const { name: controller, reason: why, error } = failure;
    const at = this.#kept.now();
    const refusal = { at, reason: `generation ${generation}: controller "${controller}" failed: ${why}; ${outcome}` };
    this.#kept.set({
      ...(!isRestart && { lastRefusal: refusal }),
      lastRollback: { at, generation, controller, reason: why, outcome, replacement: undefined },
    });
    this.#metrics.failures.inc({ name: controller });
    if (!isRestart) this.#metrics.successful.set(0);
    const origin = this.#scope.locate(error);
    this.#scope.log.error(`Controller failed; ${outcome}`, { controller, generation, reason: why, ...origin });
    this.#scope.announce(
      "Warning",
      "ControllerFailed",
      `${controller} of generation ${generation}: ${why}; ${outcome}`,
    );
  }

  /** The config and plugins of an earlier generation run again. */
  ranAgain(generation: number, of: number): void {
    const { lastRollback } = this.#kept.current;
    if (lastRollback === undefined) return;
    this.#kept.set({ lastRollback: { ...lastRollback, replacement: { generation, of } } });
    this.#scope.log.info("Plugins and config of an earlier generation run again", { generation, earlier: of });
  }

  /** A third-party controller has failed; it is tried again, and the others continue. */
  controllerStopped(generation: number, { name: controller, reason, error }: RunFailure, pauseMs: number): void {
    const outcome = "the others continue, and it is tried again";
    this.#metrics.failures.inc({ name: controller });
    this.#scope.log.error(`Controller failed; ${outcome}`, {
      controller,
      generation,
      retryAfter: retryAfterText(pauseMs),
      reason,
      ...this.#scope.locate(error),
    });
    this.#scope.announce(
      "Warning",
      "ControllerFailed",
      `${controller} of generation ${generation}: ${reason}; ${outcome}`,
    );
  }

  controllerRestarted(generation: number, controller: string): void {
    this.#scope.log.info("Starting a failed controller again", { controller, generation });
  }

  /** Plugins missing from the active generation, and how many controllers. A lasting refusal keeps its time. */
  withoutPlugins(refused: readonly LeftOutPlugin[], skipped?: number): void {
    const earlier = this.#kept.current.refusedPlugins;
    const refusedPlugins = refused.map(({ plugin, reason }) => {
      const known = earlier.find((entry) => entry.plugin === plugin && entry.reason === reason);
      return known ?? { plugin, reason, at: this.#kept.now() };
    });
    this.#kept.set({ refusedPlugins });
    this.#metrics.refusedPlugins.set(refusedPlugins.length);
    if (skipped !== undefined) this.#metrics.skipped.set(skipped);
  }

  /** A plugin was left out of a generation that is being prepared. */
  pluginRefused({ plugin, reason }: LeftOutPlugin, error?: unknown): void {
    const origin = this.#scope.locate(error);
    this.#scope.log.error("Plugin refused; continuing without it", { plugin, reason, ...origin });
    this.#scope.announce("Warning", "PluginRefused", `continuing without ${plugin}: ${reason}`);
  }

  /** The next generation lacks a plugin of the last one: its folder was removed, or it was renamed. */
  pluginRemoved(plugin: string, folder: string): void {
    this.#scope.log.warn("Plugin removed; continuing without it", { plugin, folder });
    this.#scope.announce("Normal", "PluginRemoved", `continuing without the ${plugin}, which was in ${folder}`);
  }

  /** Controllers have not returned a moment after their abort; the drain continues. */
  drainSlow(generation: number, names: readonly string[], timeoutMs: number): void {
    this.#kept.set({ waitingFor: names });
    this.#scope.log.warn("Waiting for controllers to return", {
      generation,
      controllers: names.join(","),
      timeout: `${timeoutMs / 1000}s`,
    });
  }

  drainEnded(): void {
    this.#kept.set({ waitingFor: [] });
  }

  drainOverdue(generation: number, names: readonly string[], timeoutMs: number): void {
    const message = `${names.join(", ")} of generation ${generation} did not return within ${timeoutMs / 1000} s (--generation-drain-timeout)`;
    this.#kept.set({ lastOverdueDrain: { at: this.#kept.now(), reason: message } });
    for (const name of names) this.#metrics.overdue.inc({ name });
    this.#scope.log.error("Controllers did not return in time and were fenced off", {
      generation,
      controllers: names.join(","),
      timeout: `${timeoutMs / 1000}s`,
    });
    this.#scope.announce("Warning", "DrainOverdue", message);
  }

  /** Plugin work outlives the work under the lease, which is therefore left to expire. */
  leaseKept(entries: readonly OutstandingEntry[]): void {
    this.#scope.log.error("Not releasing the lease: plugin work has not returned", {
      outstanding: entries.map(({ name }) => name).join(","),
    });
  }
}
