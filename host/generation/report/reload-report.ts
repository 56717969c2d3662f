import type { OutstandingEntry } from "../../async/outstanding-work.ts";
import type { LeftOutPlugin } from "../plugins/load.ts";
import type { ProcessScope } from "../scope/scope.ts";
import { type ReloadMetrics, reloadMetrics } from "./reload-metrics.ts";
import type { Phase } from "./states.ts";

/** A controller that does not run in a generation, and why. */
export interface SkippedController {
  readonly name: string;
  readonly reason: string;
}

/** Something that happened, and when (RFC 3339). */
export interface Dated {
  readonly at: string;
  readonly reason: string;
}

/** A failed generation that gave way to another one. */
export interface Rollback extends Dated {
  readonly generation: number;
  readonly controller: string;
  /** What was done about it. */
  readonly outcome: string;
}

export interface RefusedPlugin extends LeftOutPlugin, Dated {}

/** Generations as `/statusz` shows them. Contents of the cloud config never appear, only their hash. */
export interface ReloadStatus {
  readonly phase: Phase;
  readonly generation: number;
  /** When the generation began to run; undefined while none does. */
  readonly generationStartedAt: string | undefined;
  readonly configHash: string;
  /** Hash of the plugins' content. */
  readonly pluginHash: string;
  readonly controllers: readonly string[];
  /** Conditions of the controllers that need an operator; empty in normal operation. */
  readonly warnings: readonly string[];
  /** Enabled controllers that do not run in this generation. */
  readonly skipped: readonly SkippedController[];
  /** False on a standby, and while the cloud provider is disabled by its config. */
  readonly running: boolean;
  readonly disabled: boolean;
  readonly reloads: number;
  readonly lastReloadAt: string | undefined;
  /** The last reload that was refused or rolled back; undefined once a later one has succeeded. */
  readonly lastRefusal: Dated | undefined;
  /** The last generation that failed as it ran. Stays until the process ends. */
  readonly lastRollback: Rollback | undefined;
  /** Third-party plugins that the active generation does without. They load when they are mended. */
  readonly refusedPlugins: readonly RefusedPlugin[];
  /** The last drain that exceeded its limit. Stays until the process ends. */
  readonly lastOverdueDrain: Dated | undefined;
  /** Plugin work that has not returned. */
  readonly outstanding: readonly { readonly name: string; readonly kind: string; readonly since: string }[];
}

type Reported = Pick<
  ReloadStatus,
  | "generationStartedAt"
  | "disabled"
  | "reloads"
  | "lastReloadAt"
  | "lastRefusal"
  | "lastRollback"
  | "refusedPlugins"
  | "lastOverdueDrain"
>;

/** Reports the outcome of each reload wherever people look: log, event on the Lease, metric, `/statusz`. */
export class ReloadReport {
  readonly #scope: ProcessScope;
  readonly #metrics: ReloadMetrics;
  #status: Reported = {
    generationStartedAt: undefined,
    disabled: false,
    reloads: 0,
    lastReloadAt: undefined,
    lastRefusal: undefined,
    lastRollback: undefined,
    refusedPlugins: [],
    lastOverdueDrain: undefined,
  };

  constructor(scope: ProcessScope) {
    this.#scope = scope;
    this.#metrics = reloadMetrics(scope.metrics.root);
    this.#metrics.successful.set(1);
  }

  get status(): Reported & Pick<ReloadStatus, "outstanding"> {
    const outstanding = this.#scope.outstanding.entries
      .filter(({ kind }) => kind !== "run")
      .map(({ name, kind, since }) => ({ name, kind, since: new Date(since).toISOString() }));
    return { ...this.#status, outstanding };
  }

  started(
    generation: number,
    hash: string,
    controllers: readonly string[],
    skipped: readonly SkippedController[],
  ): void {
    this.#status = { ...this.#status, generationStartedAt: this.#now(), disabled: false };
    this.#metrics.generation.set(generation);
    this.#metrics.skipped.set(skipped.length);
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
    this.#scope.log.info("Controllers started under a further lock", {
      generation,
      lock,
      controllers: controllers.join(","),
    });
  }

  /** No generation runs any more. */
  ended(): void {
    this.#status = { ...this.#status, generationStartedAt: undefined };
    this.#metrics.skipped.set(0);
  }

  swapped(generation: number, reason: string, seconds: number, gapMs: number): void {
    this.#succeeded(seconds);
    this.#metrics.gap.observe(gapMs / 1000);
    this.#scope.log.info("Reload done", { generation, reason, seconds, gapMs });
    this.#scope.announce("Normal", "Reloaded", `generation ${generation} runs (${reason})`);
  }

  prepared(generation: number, reason: string, seconds: number): void {
    this.#succeeded(seconds);
    this.#scope.log.info("Reload done; the new generation stands by", { generation, reason, seconds });
  }

  /** Config and plugins are what the active generation was made from. */
  unchanged(reason: string): void {
    this.#status = { ...this.#status, lastRefusal: undefined };
    this.#metrics.total.inc({ result: "unchanged" });
    this.#metrics.successful.set(1);
    this.#scope.log.info("Reload skipped: config and plugins are unchanged", { trigger: reason });
  }

  /** A prepared generation gave way to a newer one, or to the end, before it ran. */
  superseded(generation: number, reason: string): void {
    this.#scope.log.info("Reload superseded", { generation, reason });
  }

  refused(reason: string, why: string, seconds: number): void {
    this.#status = { ...this.#status, lastRefusal: { at: this.#now(), reason: why } };
    this.#count("refused", seconds);
    this.#scope.log.error("Reload refused; the running generation continues", { trigger: reason, reason: why });
    this.#scope.announce("Warning", "ReloadRefused", `the running generation continues: ${why}`);
  }

  disabled(hash: string): void {
    this.#status = { ...this.#status, disabled: true, lastRefusal: undefined };
    this.#metrics.successful.set(1);
    const message = "disableCloudProvider is true: controllers are stopped until a config without it arrives";
    this.#scope.log.warn(message, { configHash: hash });
    this.#scope.announce("Normal", "CloudProviderDisabled", message);
  }

  runFailed(generation: number, controller: string, why: string, outcome: string): void {
    const at = this.#now();
    const refusal = { at, reason: `generation ${generation}: controller "${controller}" failed: ${why}; ${outcome}` };
    this.#status = {
      ...this.#status,
      lastRefusal: refusal,
      lastRollback: { at, generation, controller, reason: why, outcome },
    };
    this.#metrics.failures.inc({ name: controller });
    this.#metrics.successful.set(0);
    this.#scope.log.error(`Controller failed; ${outcome}`, { controller, generation, reason: why });
    this.#scope.announce(
      "Warning",
      "ControllerFailed",
      `${controller} of generation ${generation}: ${why}; ${outcome}`,
    );
  }

  /** A third-party controller has failed; it is tried again, and the others continue. */
  controllerStopped(generation: number, controller: string, reason: string, pauseMs: number): void {
    const outcome = "the others continue, and it is tried again";
    const retryAfter = `${Math.ceil(pauseMs / 1000)}s`;
    this.#metrics.failures.inc({ name: controller });
    this.#scope.log.error(`Controller failed; ${outcome}`, { controller, generation, retryAfter, reason });
    this.#scope.announce(
      "Warning",
      "ControllerFailed",
      `${controller} of generation ${generation}: ${reason}; ${outcome}`,
    );
  }

  controllerRestarted(generation: number, controller: string): void {
    this.#scope.log.info("Starting a failed controller again", { controller, generation });
  }

  /** The plugins that the generation that runs or stands by does without. A refusal that lasts keeps its time. */
  withoutPlugins(refused: readonly LeftOutPlugin[]): void {
    const earlier = this.#status.refusedPlugins;
    const refusedPlugins = refused.map(({ plugin, reason }) => {
      const known = earlier.find((entry) => entry.plugin === plugin && entry.reason === reason);
      return known ?? { plugin, reason, at: this.#now() };
    });
    this.#status = { ...this.#status, refusedPlugins };
    this.#metrics.refusedPlugins.set(refusedPlugins.length);
  }

  /** A plugin was left out of a generation that is being prepared. */
  pluginRefused({ plugin, reason }: LeftOutPlugin): void {
    this.#scope.log.error("Plugin refused; continuing without it", { plugin, reason });
    this.#scope.announce("Warning", "PluginRefused", `continuing without ${plugin}: ${reason}`);
  }

  /** The next generation does without a plugin that the last one had: its folder was removed, or it was renamed. */
  pluginRemoved(plugin: string, folder: string): void {
    this.#scope.log.warn("Plugin removed; continuing without it", { plugin, folder });
    this.#scope.announce("Normal", "PluginRemoved", `continuing without the ${plugin}, which was in ${folder}`);
  }

  /** Controllers have not returned a moment after their abort; the drain continues. */
  drainSlow(generation: number, names: readonly string[], timeoutMs: number): void {
    this.#scope.log.warn("Waiting for controllers to return", {
      generation,
      controllers: names.join(","),
      timeout: `${timeoutMs / 1000}s`,
    });
  }

  drainOverdue(generation: number, names: readonly string[], timeoutMs: number): void {
    const message = `${names.join(", ")} of generation ${generation} did not return within ${timeoutMs / 1000} s (--generation-drain-timeout)`;
    this.#status = { ...this.#status, lastOverdueDrain: { at: this.#now(), reason: message } };
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

  #succeeded(seconds: number): void {
    const { reloads } = this.#status;
    this.#status = {
      ...this.#status,
      disabled: false,
      reloads: reloads + 1,
      lastReloadAt: this.#now(),
      lastRefusal: undefined,
    };
    this.#count("success", seconds);
  }

  #count(result: "success" | "refused", seconds: number): void {
    this.#metrics.total.inc({ result });
    this.#metrics.seconds.observe(seconds);
    this.#metrics.successful.set(result === "success" ? 1 : 0);
  }

  #now(): string {
    return new Date(this.#scope.clock.now()).toISOString();
  }
}
