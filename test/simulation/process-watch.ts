import type { ReloadStatus } from "../../host/generation/report/reload-status.ts";
import { skipReason } from "./plugins.ts";
import type { ProcessTime, Timeline } from "./timeline.ts";

export interface ProcessWatchOptions {
  readonly time: ProcessTime;
  readonly timeline: Timeline;
  readonly status: () => ReloadStatus;
  readonly violation: (text: string) => void;
}

/** A report of a failure takes no longer, unless the process is paused. */
const reportMs = 100;

/** Invariants of one process that need to know what came before. */
export class ProcessWatch {
  readonly #options: ProcessWatchOptions;
  #hasLed = false;
  /** What was active as the current reload began. */
  #before: ReloadStatus | undefined;
  #hasLogged = false;

  constructor(options: ProcessWatchOptions) {
    this.#options = options;
  }

  /** True if it has led. A standby that is stopped releases what it may have won, as nothing has run under it. */
  get hasLed(): boolean {
    return this.#hasLed;
  }

  /** A controller is about to fail on its own, which has to be seen in the status soon after. */
  failing(generation: number): void {
    const { time, timeline, status, violation } = this.#options;
    const check = (): void => {
      const { lastRollback, refusedPlugins, generation: active } = status();
      // A reload may have replaced it meanwhile, and its controllers with it.
      if (active > generation) return;
      // A third-party controller that fails alone is a refused plugin until it is tried again.
      if ((lastRollback === undefined || lastRollback.generation < generation) && refusedPlugins.length === 0)
        violation(`generation ${generation} has failed, and the status does not show it`);
    };
    timeline.after(reportMs, () => time.deliver(() => void timeline.after(reportMs, () => time.deliver(check))));
  }

  /** The status names the plugin exactly while the active generation lacks it. Looked at after each log line. */
  checkRefusals(): void {
    if (!this.#hasLogged) return;
    this.#hasLogged = false;
    const { generation, controllers, skipped, refusedPlugins } = this.#options.status();
    if (generation === 0) return;
    const isMissing = !controllers.includes("odd-controller") && !skipped.some(({ reason }) => reason === skipReason);
    if (isMissing !== refusedPlugins.length > 0)
      this.#options.violation(`generation ${generation} lists ${refusedPlugins.length} refused plugins`);
  }

  logged(message: string): void {
    this.#hasLogged = true;
    const { status, violation } = this.#options;
    if (message === "Successfully acquired lease") this.#hasLed = true;
    if (message === "Reload started") this.#before = status();
    if (message === "Reload skipped: config and plugins are unchanged" && isIncomplete(status()))
      violation("a refused plugin was not tried again");
    if (message === "Reload completed" || message === "Reload completed; the new generation stands by")
      this.#reloaded();
  }

  /** A generation that was complete has been replaced: something in its config or plugins must have changed. */
  #reloaded(): void {
    const [before, after] = [this.#before, this.#options.status()];
    if (before === undefined || before.generation === 0 || before.refusedPlugins.length > 0) return;
    if (before.configHash === after.configHash && before.pluginHash === after.pluginHash)
      this.#options.violation(`generation ${after.generation} has the config and plugins of ${before.generation}`);
  }
}

/** True if the active generation runs without a plugin that was refused. While none is active, nothing is tried again. */
const isIncomplete = ({ generation, controllers, refusedPlugins }: ReloadStatus): boolean =>
  generation > 0 && refusedPlugins.length > 0 && !controllers.includes("odd-controller");
