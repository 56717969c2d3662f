import {
  CodedError,
  type ControllerPlugin,
  permissionVerbs,
  ProblemsError,
  type WebhookPlugin,
} from "cloud-controller-host/sdk";

import { LinkedSignal } from "../async/linked-signal.ts";
import { WakeUp } from "../async/wake-up.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import { foldersOf, missingChoices, type PluginFolders, unknownVerbs } from "./plugins/enabled.ts";
import type { LoadedPlugins, PluginLoader } from "./plugins/load.ts";
import { prepare } from "./prepare/prepare.ts";
import { RefusedReload } from "./refused-reload.ts";
import { ReloadReport } from "./report/reload-report.ts";
import type { ReloadStatus } from "./report/reload-status.ts";
import type { ProcessScope } from "./scope/scope.ts";
import type { Generation, GenerationSpec } from "./slot/generation.ts";
import type { OwnStatus, OwnWarning } from "./slot/own-reports.ts";
import { GenerationSlot, type WorkEnd } from "./slot/slot.ts";
import { type CloudConfig, readCloudConfig } from "./triggers/cloud-config.ts";
import type { ReadableSource } from "./triggers/config-source.ts";
import { type Content, type Reading, settledContent } from "./triggers/content-trigger.ts";

/** A reload that has not begun. */
interface Request {
  readonly trigger: string;
  /** The settled content of the cloud config; undefined where the trigger was not about it. */
  readonly config: Content | undefined;
}

/**
 * Makes generations and offers them to the slot: prepare, then swap, under the lease that is held. Failing to prepare
 * changes nothing: the generation that runs (or stands by) continues, and the reason is reported.
 */
export class Supervisor {
  readonly #scope: ProcessScope;
  readonly #source: ReadableSource | undefined;
  readonly #loader: PluginLoader;
  readonly #report: ReloadReport;
  readonly #slot: GenerationSlot;
  /** Reloads that have not begun; together they are one. */
  readonly #requests: Request[] = [];
  readonly #wakeUp = new WakeUp();
  /** The last settled reading of the cloud config. */
  #content: Content | undefined;
  #preparing: AbortController | undefined;
  #generations = 0;
  /** The plugins of the last generation that was made. */
  #folders: PluginFolders = new Map();
  #disabledHash: string | undefined;
  /** The config before the cloud provider was disabled. */
  #lastEnabled: CloudConfig | undefined;
  readonly #refusedReload: RefusedReload;

  /** Without a source the cloud is made from an empty document. */
  constructor(scope: ProcessScope, source: ReadableSource | undefined, loader: PluginLoader) {
    this.#scope = scope;
    this.#source = source;
    this.#loader = loader;
    this.#report = new ReloadReport(scope);
    this.#refusedReload = new RefusedReload(scope, (trigger) => this.reload(trigger));
    this.#slot = new GenerationSlot(scope, this.#report, (spec, signal) => this.#prepare(spec, signal));
  }

  get status(): ReloadStatus {
    const active = this.#slot.active;
    return {
      ...this.#report.status,
      phase: this.phase,
      generation: active?.number ?? 0,
      configHash: active?.spec.config.hash ?? "",
      pluginHash: active?.spec.plugins.hash ?? "",
      controllers: active?.controllers ?? [],
      warnings: this.ownWarnings.map(({ source, text }) => `${source}: ${text}`),
      skipped: active?.skipped ?? [],
      running: this.#slot.running,
    };
  }

  get phase(): ReloadStatus["phase"] {
    return this.#slot.phase;
  }

  /** The webhooks of the generation that runs or stands by; undefined while there is none. */
  get webhooks(): readonly WebhookPlugin[] | undefined {
    return this.#slot.active?.spec.plugins.webhooks;
  }

  /** Conditions that need an operator; the status has their text. */
  get ownWarnings(): readonly OwnWarning[] {
    return this.#slot.active?.warnings ?? [];
  }

  /** Status of the running generation. */
  get ownStatus(): readonly OwnStatus[] {
    return this.#slot.active?.ownStatus ?? [];
  }

  /** Explains one object with the cloud of the active generation; undefined without one. */
  get explain(): Generation["explain"] {
    return this.#slot.active?.explain;
  }

  /** True if a controller of this process could write now. */
  get mayWrite(): boolean {
    return this.#slot.mayWrite;
  }

  /**
   * Prepares the first generation, to stand by until `lead`. Bad input rejects with all its problems, and the process
   * should then end. Returns the text of the config that was read, which is all that counts as known. `firstReading` of
   * the config may have been made before. Nothing is listed before `looked` has resolved.
   */
  async begin(
    plugins: LoadedPlugins,
    signal: AbortSignal,
    { firstReading, looked }: { readonly firstReading?: Promise<Reading>; readonly looked?: Promise<unknown> } = {},
  ): Promise<string | undefined> {
    using _ = { [Symbol.dispose]: plugins.retain() };
    this.#content = this.#source && (await settledContent(this.#source, this.#scope.clock, signal, firstReading));
    const config = this.#config();
    this.#noteProblems(plugins);
    this.#report.runs.withoutPlugins(plugins.refused);
    this.#folders = foldersOf(plugins.sources);
    await looked;
    if (config.disabled) await this.#disable(config);
    else await this.#slot.install(await this.#prepare({ plugins, config }, signal), "start", 0);
    return this.#content !== undefined && "text" in this.#content ? this.#content.text : undefined;
  }

  /** Runs generations until the signal aborts, or until none can be run any more. */
  lead(leaseSignal: AbortSignal): Promise<WorkEnd> {
    return this.#slot.lead(leaseSignal);
  }

  /** A lock was lost: fences at once. */
  lost(): void {
    this.#slot.lost();
  }

  /** The lease is free and being acquired: reads again meanwhile what the generation that stands by needs to start. */
  leaseReleased(): void {
    this.#slot.active?.readAgain();
  }

  /** Runs, from now on, what belongs to a further lock that was won while this process leads. */
  lockWon(lock: string): void {
    this.#slot.lockWon(lock);
  }

  /** The controllers that run under a lock. */
  runningUnder(lock: string): readonly string[] {
    return this.#slot.running ? (this.#slot.active?.startedUnder(lock) ?? []) : [];
  }

  /** Disposes of a generation that stands by. */
  async close(): Promise<void> {
    await this.#slot.close();
  }

  /**
   * Requests a reload with the settled content of the cloud config or, where the trigger was not about it, with what was
   * settled last. A request that comes while a generation is being prepared starts that work again.
   */
  reload(trigger: string, config?: Content): void {
    this.#requests.push({ trigger, config });
    this.#preparing?.abort(new CodedError("Superseded", "a newer change arrived"));
    this.#wakeUp.notify();
  }

  /** Carries out reloads, one after the other, until the signal aborts. */
  async serveReloads(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#requests.length > 0) await this.#scope.tracer.span("reload", {}, () => this.#reload(signal));
      else await this.#wait(signal);
    }
  }

  async #wait(signal: AbortSignal): Promise<void> {
    await this.#wakeUp.wait(this.#scope.clock, this.#refusedReload.waitMs, signal);
    this.#refusedReload.proceed();
  }

  async #reload(signal: AbortSignal): Promise<void> {
    const requests = this.#requests.splice(0);
    const trigger = [...new Set(requests.map((request) => request.trigger))].join(", ");
    this.#content = requests.findLast(({ config }) => config !== undefined)?.config ?? this.#content;
    const { clock, log } = this.#scope;
    const started = clock.monotonic();
    const seconds = (): number => (clock.monotonic() - started) / 1000;
    const preparing = new AbortController();
    this.#preparing = preparing;
    this.#refusedReload.began(trigger);
    using link = new LinkedSignal(signal, preparing.signal);
    try {
      log.info("Reload started", { trigger });
      const config = this.#config();
      const former = this.#slot.active?.spec.config ?? this.#lastEnabled;
      this.#report.reloading(former, config);
      if (config.disabled && config.hash === this.#disabledHash) return this.#report.unchanged(trigger);
      if (config.disabled) {
        await this.#disable(config);
        return this.#report.reloadedWithout(trigger);
      }
      if (this.#isActive(config.hash, await this.#loader.hash())) return this.#report.unchanged(trigger);
      const plugins = await this.#load(link.signal);
      if (plugins.hash !== this.#slot.active?.spec.plugins.hash) this.#report.pluginsChanged();
      using _ = { [Symbol.dispose]: plugins.retain() };
      const folders = foldersOf(plugins.sources);
      const missing = missingChoices(this.#scope.settings, this.#folders, folders);
      if (missing.length > 0) throw new ProblemsError("plugins are missing", missing);
      const generation = await this.#prepare({ plugins, config }, link.signal, former);
      this.#disabledHash = undefined;
      for (const [plugin, folder] of this.#folders)
        if (!folders.has(plugin)) this.#report.runs.pluginRemoved(plugin, folder);
      this.#folders = folders;
      await this.#slot.install(generation, trigger, seconds());
    } catch (error) {
      if (signal.aborted) return;
      if (preparing.signal.aborted) log.info("Reload restarted: a newer change arrived");
      else this.#report.refused(trigger, error, seconds(), this.#refusedReload.refused(error));
    } finally {
      this.#preparing = undefined;
    }
  }

  async #load(signal: AbortSignal): Promise<LoadedPlugins> {
    const active = this.#slot.active;
    const refused = new Set(active?.spec.plugins.refused.map(({ plugin }) => plugin));
    const mayLeaveOut = (folder: string): boolean => active === undefined || refused.has(folder);
    const loaded = await this.#loader.load({ mayLeaveOut: (folder) => this.#skips && mayLeaveOut(folder), signal });
    if (!loaded.ok) {
      const refusal = new ProblemsError("plugins are refused", loaded.problems);
      throw loaded.timedOut ? new CodedError("WorkTimeout", refusal.message) : refusal;
    }
    this.#noteProblems(loaded.plugins);
    return loaded.plugins;
  }

  /** Reports plugins that were left out, and verbs in permissions that no request has. */
  #noteProblems({ refused, sources }: LoadedPlugins): void {
    for (const refusal of refused) this.#report.runs.pluginRefused(refusal);
    for (const { plugin } of sources)
      for (const verb of unknownVerbs(plugin))
        this.#scope.log.warn("Plugin declares an unknown verb in its permissions", {
          plugin: plugin.name,
          verb: `${verb}${didYouMean(verb, permissionVerbs, "")}`,
        });
  }

  /** True if the active generation was made from the same content, with nothing left out that might load now. */
  #isActive(configHash: string, pluginHash: string): boolean {
    const active = this.#slot.active;
    if (active === undefined || active.leftOut.length > 0) return false;
    const { config, plugins } = active.spec;
    return config.hash === configHash && plugins.hash === pluginHash && plugins.refused.length === 0;
  }

  get #skips(): boolean {
    return this.#scope.settings.pluginFailurePolicy === "skip";
  }

  async #disable(config: CloudConfig): Promise<void> {
    this.#disabledHash = config.hash;
    this.#lastEnabled = this.#slot.active?.spec.config ?? this.#lastEnabled;
    await this.#slot.disable(config.hash);
  }

  /** A third-party controller may fail alone where none runs yet, or where it was left out before. */
  #prepare(spec: GenerationSpec, signal: AbortSignal, former?: CloudConfig): Promise<Generation> {
    this.#generations += 1;
    const number = this.#generations;
    // Names alone: a generation that kept the one before it would keep them all.
    const leftOut = this.#slot.active?.leftOut;
    const mayLeaveOut = ({ name }: ControllerPlugin): boolean =>
      this.#skips && spec.plugins.thirdParty.has(name) && (leftOut === undefined || leftOut.includes(name));
    const mayRetry = ({ name }: ControllerPlugin): boolean => this.#skips && spec.plugins.thirdParty.has(name);
    const preparing = this.#scope.tracer.span("prepare", { generation: number }, () =>
      prepare({ scope: this.#scope, report: this.#report.runs, number, spec, former, signal, mayLeaveOut, mayRetry }),
    );
    // Also between two steps of it, and until what it has made is undone.
    this.#scope.outstanding.add("prepare", `preparation of generation ${number}`, preparing);
    return preparing;
  }

  #config(): CloudConfig {
    return readCloudConfig(this.#source, this.#content, this.#scope.log);
  }
}
