import { messageOf } from "cloud-controller-host/sdk";

import type { ProcessScope } from "../scope/scope.ts";
import { changedKeys, type CloudConfig } from "../triggers/cloud-config.ts";
import { type ReloadMetrics, reloadMetrics } from "./reload-metrics.ts";
import {
  KeptStatus,
  type ReloadOutcome,
  type ReloadRecord,
  type ReloadStatus,
  type Reported,
  retryAfterText,
  retryTrigger,
} from "./reload-status.ts";
import { RunReport } from "./run-report.ts";

const maxReloads = 20;
const maxKeys = 50;

/** Reports the outcome of each reload wherever people look: log, event on the Lease, metric, `/statusz`. */
export class ReloadReport {
  readonly #scope: ProcessScope;
  readonly #metrics: ReloadMetrics;
  readonly #kept: KeptStatus;
  /** Of the generations that run. */
  readonly runs: RunReport;
  #changed: readonly string[] = [];

  constructor(scope: ProcessScope) {
    this.#scope = scope;
    this.#metrics = reloadMetrics(scope.metrics.root);
    this.#kept = new KeptStatus(scope.clock);
    this.runs = new RunReport(scope, this.#metrics, this.#kept);
    this.#metrics.successful.set(1);
  }

  get status(): Reported & Pick<ReloadStatus, "outstanding"> {
    const outstanding = this.#scope.outstanding.entries
      .filter(({ kind }) => kind !== "run")
      .map(({ name, kind, since }) => ({ name, kind, since: new Date(since).toISOString() }));
    return { ...this.#kept.current, outstanding };
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
    this.#kept.set({ lastRefusal: undefined });
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
    this.#kept.set({ lastRefusal: { at: this.#kept.now(), reason } });
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
    this.#kept.set({ disabled: true, lastRefusal: undefined });
    this.#metrics.successful.set(1);
    const message = "disableCloudProvider is true: controllers are stopped until a config without it arrives";
    this.#scope.log.warn(message, { configHash: hash });
    this.#scope.announce("Normal", "CloudProviderDisabled", message);
  }

  /** A reload ended without a cloud provider. */
  reloadedWithout(trigger: string): void {
    this.#noteOutcome("disabled", trigger, "disableCloudProvider is true, controllers are stopped");
  }

  #noteOutcome(
    result: ReloadOutcome["result"],
    trigger: string,
    reason: string,
    phases: Pick<ReloadRecord, "preparing" | "swapping"> = {},
  ): void {
    const lastOutcome = { at: this.#kept.now(), trigger, result, reason };
    const record = { ...lastOutcome, changed: this.#changed, ...phases };
    const earlier = this.#kept.current.recentReloads;
    // Retries that are refused for the same reason would soon leave room for nothing else.
    const isRepeated = trigger === retryTrigger && result === "refused" && earlier.at(-1)?.reason === reason;
    const recentReloads = result === "unchanged" || isRepeated ? earlier : [...earlier, record].slice(-maxReloads);
    this.#kept.set({ lastOutcome, recentReloads });
    this.#changed = [];
  }

  #succeeded(seconds: number): void {
    const { reloads } = this.#kept.current;
    this.#kept.set({
      disabled: false,
      reloads: reloads + 1,
      lastReloadAt: this.#kept.now(),
      lastRefusal: undefined,
    });
    this.#count("success", seconds);
  }

  #count(result: "success" | "refused", seconds: number): void {
    this.#metrics.total.inc({ result });
    this.#metrics.seconds.observe(seconds);
    this.#metrics.successful.set(result === "success" ? 1 : 0);
  }
}
