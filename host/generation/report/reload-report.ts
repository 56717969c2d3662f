import { messageOf } from "cloud-controller-host/sdk";

import type { OutstandingEntry } from "../../async/outstanding-work.ts";
import type { LeftOutPlugin } from "../plugins/load.ts";
import type { ProcessScope } from "../scope/scope.ts";
import { changedKeys, type CloudConfig } from "../triggers/cloud-config.ts";
import { type ReloadMetrics, reloadMetrics } from "./reload-metrics.ts";
import {
  type NextRun,
  nothingReported,
  type ReloadOutcome,
  type ReloadRecord,
  type ReloadStatus,
  type Reported,
  retryTrigger,
  type RunFailure,
  type SkippedController,
} from "./reload-status.ts";

const maxReloads = 20;
const maxKeys = 50;

/** A pause in a log line, such as `7s`. */
const retryAfterText = (pauseMs: number): string => `${Math.ceil(pauseMs / 1000)}s`;

/** Reports the outcome of each reload wherever people look: log, event on the Lease, metric, `/statusz`. */
export class ReloadReport {
  readonly #scope: ProcessScope;
  readonly #metrics: ReloadMetrics;
  #status = nothingReported;
  #changed: readonly string[] = [];

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
    this.#status = { ...this.#status, generationStartedAt: undefined };
    this.#metrics.skipped.set(0);
  }

  /** A reload has read the cloud config. */
  reloading(former: CloudConfig | undefined, config: CloudConfig): void {
    this.#changed = changedKeys(former, config).slice(0, maxKeys);
  }

  pluginsChanged(): void {
    this.#changed = [...this.#changed, "plugins"];
  }

  swapped(generation: number, trigger: string, seconds: number, gapMs: number): void {
    this.#succeeded(seconds);
    const swapping = gapMs / 1000;
    const phases = { preparing: seconds - swapping, swapping };
    this.#noteOutcome("reloaded", trigger, `generation ${generation} runs`, phases);
    this.#metrics.gap.observe(gapMs / 1000);
    this.#scope.log.info("Reload completed", { generation, trigger, seconds, gapMs });
    this.#scope.announce("Normal", "Reloaded", `generation ${generation} runs (${trigger})`);
  }

  prepared(generation: number, trigger: string, seconds: number): void {
    this.#succeeded(seconds);
    this.#noteOutcome("reloaded", trigger, `generation ${generation} stands by`, { preparing: seconds });
    this.#scope.log.info("Reload completed; the new generation stands by", { generation, trigger, seconds });
  }

  /** Config and plugins are what the active generation was made from. */
  unchanged(trigger: string): void {
    this.#status = { ...this.#status, lastRefusal: undefined };
    this.#noteOutcome("unchanged", trigger, "config and plugins are unchanged");
    this.#metrics.total.inc({ result: "unchanged" });
    this.#metrics.successful.set(1);
    this.#scope.log.info("Reload skipped: config and plugins are unchanged", { trigger });
  }

  /** A prepared generation gave way to a newer one, or to the end, before it ran. */
  superseded(generation: number, trigger: string): void {
    this.#noteOutcome("superseded", trigger, `generation ${generation} gave way before it ran`);
    this.#scope.log.info("Reload superseded", { generation, trigger });
  }

  /** `retryMs` is the pause before the reload is tried again; undefined if it is not. */
  refused(trigger: string, error: unknown, seconds: number, retryMs?: number): void {
    // Without the pause: an event with the same text is counted, not written again.
    const reason = `${messageOf(error)}${retryMs === undefined ? "" : "; the reload is tried again"}`;
    const origin = this.#scope.locate(error);
    this.#status = { ...this.#status, lastRefusal: { at: this.#now(), reason } };
    this.#noteOutcome("refused", trigger, reason, { preparing: seconds });
    this.#count("refused", seconds);
    this.#scope.log.error("Reload refused; the running generation continues", {
      trigger,
      ...(retryMs !== undefined && { retryAfter: retryAfterText(retryMs) }),
      reason,
      ...origin,
    });
    this.#scope.announce("Warning", "ReloadRefused", `the running generation continues: ${reason}`);
  }

  disabled(hash: string): void {
    this.#status = { ...this.#status, disabled: true, lastRefusal: undefined };
    this.#metrics.successful.set(1);
    const message = "disableCloudProvider is true: controllers are stopped until a config without it arrives";
    this.#scope.log.warn(message, { configHash: hash });
    this.#scope.announce("Normal", "CloudProviderDisabled", message);
  }

  /** A reload ended without a cloud provider. */
  reloadedWithout(trigger: string): void {
    this.#noteOutcome("disabled", trigger, "disableCloudProvider is true, controllers are stopped");
  }

  runFailed(generation: number, failure: RunFailure, { outcome, isRestart }: NextRun): void {
    const { name: controller, reason: why, error } = failure;
    const at = this.#now();
    const refusal = { at, reason: `generation ${generation}: controller "${controller}" failed: ${why}; ${outcome}` };
    this.#status = {
      ...this.#status,
      ...(!isRestart && { lastRefusal: refusal }),
      lastRollback: { at, generation, controller, reason: why, outcome, replacement: undefined },
    };
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
    const { lastRollback } = this.#status;
    if (lastRollback === undefined) return;
    this.#status = { ...this.#status, lastRollback: { ...lastRollback, replacement: { generation, of } } };
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
    const earlier = this.#status.refusedPlugins;
    const refusedPlugins = refused.map(({ plugin, reason }) => {
      const known = earlier.find((entry) => entry.plugin === plugin && entry.reason === reason);
      return known ?? { plugin, reason, at: this.#now() };
    });
    this.#status = { ...this.#status, refusedPlugins };
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
    this.#status = { ...this.#status, waitingFor: names };
    this.#scope.log.warn("Waiting for controllers to return", {
      generation,
      controllers: names.join(","),
      timeout: `${timeoutMs / 1000}s`,
    });
  }

  drainEnded(): void {
    this.#status = { ...this.#status, waitingFor: [] };
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

  #noteOutcome(
    result: ReloadOutcome["result"],
    trigger: string,
    reason: string,
    phases: Pick<ReloadRecord, "preparing" | "swapping"> = {},
  ): void {
    const lastOutcome = { at: this.#now(), trigger, result, reason };
    const record = { ...lastOutcome, changed: this.#changed, ...phases };
    const earlier = this.#status.recentReloads;
    // Retries that are refused for the same reason would soon leave room for nothing else.
    const isRepeated = trigger === retryTrigger && result === "refused" && earlier.at(-1)?.reason === reason;
    const recentReloads = result === "unchanged" || isRepeated ? earlier : [...earlier, record].slice(-maxReloads);
    this.#status = { ...this.#status, lastOutcome, recentReloads };
    this.#changed = [];
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
