import { CodedError, messageOf, ProblemsError } from "cloud-controller-host/sdk";

import { WakeUp } from "../async/wake-up.ts";
import { type CloudConfig, parseCloudConfig } from "./cloud-config.ts";
import type { ConfigSource } from "./config-source.ts";
import type { Generation } from "./generation.ts";
import { loadPlugins, type PluginSet } from "./load.ts";
import { prepare, type Recipe } from "./prepare.ts";
import { ReloadReport, type ReloadStatus } from "./reload-report.ts";
import type { ProcessScope } from "./scope.ts";
import { Stage } from "./stage.ts";

/** An alarm wakes the loop; this is only how long a timer may be. */
const longWaitMs = 3_600_000;

/**
 * Makes generations and hands them to the stage: prepare, then swap, under the lease that is held. What fails in
 * preparing changes nothing: the generation that runs (or stands by) goes on, and the reason is told.
 */
export class Supervisor {
  readonly #scope: ProcessScope;
  readonly #source: ConfigSource | undefined;
  readonly #report: ReloadReport;
  readonly #stage: Stage;
  /** Reasons for a reload that has not begun yet. */
  readonly #wanted = new Set<string>();
  readonly #wakeUp = new WakeUp();
  #preparing: AbortController | undefined;
  #generations = 0;

  /** Without a source the cloud is made from an empty document. */
  constructor(scope: ProcessScope, source: ConfigSource | undefined) {
    this.#scope = scope;
    this.#source = source;
    this.#report = new ReloadReport(scope);
    this.#stage = new Stage(scope, this.#report, (recipe, signal) => this.#prepare(recipe, signal));
  }

  get status(): ReloadStatus {
    const active = this.#stage.active;
    return {
      ...this.#report.status,
      generation: active?.number ?? 0,
      configHash: active?.recipe.config.hash ?? "",
      controllers: active?.controllers ?? [],
      warnings: active?.warnings ?? [],
      running: this.#stage.running,
    };
  }

  /**
   * Prepares the first generation, to stand by until `lead`. Bad input rejects with all its problems, and the process
   * should then end. Returns the hash of the config that was read.
   */
  async begin(plugins: PluginSet, signal: AbortSignal): Promise<string> {
    const config = await this.#readConfig();
    if (config.disabled) await this.#stage.disable(config.hash);
    else await this.#stage.install(await this.#prepare({ plugins, config }, signal), "start", 0);
    return config.hash;
  }

  /** Runs generations until the signal aborts and all their work has stopped; rejects when none can be run any more. */
  lead(signal: AbortSignal): Promise<void> {
    return this.#stage.lead(signal);
  }

  /** Runs, from now on, what belongs to a further lock that has been won while this process leads. */
  take(lock: string): Promise<void> {
    return this.#stage.take(lock);
  }

  /** The controllers that run under a lock. */
  runningUnder(lock: string): readonly string[] {
    return this.#stage.running ? (this.#stage.active?.startedUnder(lock) ?? []) : [];
  }

  /** Lets go of a generation that stands by. */
  async end(): Promise<void> {
    await this.#stage.clear();
  }

  /** Asks for a new generation. A request that comes while one is being prepared starts that work anew. */
  reload(reason: string): void {
    this.#wanted.add(reason);
    this.#preparing?.abort(new CodedError("Superseded", "a newer change arrived"));
    this.#wakeUp.notify();
  }

  /** Carries out reloads, one after the other, until the signal aborts. */
  async serveReloads(signal: AbortSignal): Promise<void> {
    const cutOff = (): void => this.#preparing?.abort(signal.reason);
    signal.addEventListener("abort", cutOff, { once: true });
    while (!signal.aborted) {
      if (this.#wanted.size > 0) await this.#scope.tracer.span("reload", {}, () => this.#reload(signal));
      else await this.#wakeUp.wait(this.#scope.clock, longWaitMs, signal);
    }
    signal.removeEventListener("abort", cutOff);
  }

  async #reload(signal: AbortSignal): Promise<void> {
    const reason = [...this.#wanted].join(", ");
    this.#wanted.clear();
    const started = this.#scope.clock.monotonic();
    const seconds = (): number => (this.#scope.clock.monotonic() - started) / 1000;
    const preparing = new AbortController();
    this.#preparing = preparing;
    try {
      this.#scope.log.info("Reload begins", { trigger: reason });
      const config = await this.#readConfig();
      if (config.disabled) return await this.#stage.disable(config.hash);
      const loaded = await loadPlugins(this.#scope.settings.pluginDirectories);
      if (!loaded.ok) throw new ProblemsError("plugins are refused", loaded.problems);
      const next = await this.#prepare({ plugins: loaded.plugins, config }, preparing.signal);
      await this.#stage.install(next, reason, seconds());
    } catch (error) {
      if (signal.aborted) return;
      if (preparing.signal.aborted) this.#scope.log.info("Reload begins anew: a newer change arrived");
      else this.#report.refused(reason, messageOf(error), seconds());
    } finally {
      this.#preparing = undefined;
    }
  }

  #prepare(recipe: Recipe, signal: AbortSignal): Promise<Generation> {
    this.#generations += 1;
    const generation = this.#generations;
    return this.#scope.tracer.span("prepare", { generation }, () => prepare(this.#scope, generation, recipe, signal));
  }

  async #readConfig(): Promise<CloudConfig> {
    if (this.#source === undefined) return { source: "no cloud config", document: {}, disabled: false, hash: "" };
    const decoded = parseCloudConfig(await this.#source.read(), this.#source.description);
    if (!decoded.ok) throw new ProblemsError("the cloud config is refused", decoded.problems);
    for (const warning of decoded.warnings) this.#scope.log.warn(warning);
    return decoded.value;
  }
}
