import type { Clock, Logger } from "cloud-controller-host/sdk";

import { WakeUp } from "../../async/wake-up.ts";
import { hashOf } from "./cloud-config.ts";
import type { ConfigSource } from "./config-source.ts";
import { type Content, settledContent, watchContent } from "./content-trigger.ts";

/** A request ends the wait; this is only how long a timer may be. */
const longWaitMs = 3_600_000;

export interface TriggerOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly config: ConfigSource | undefined;
  readonly followConfig: boolean;
  readonly plugins: ConfigSource;
  readonly followPlugins: boolean;
  /** Requests a reload, with the settled content of the cloud config where the trigger has read it. */
  readonly reload: (trigger: string, config?: Content) => void;
}

/** Everything that requests a reload. What reaches the supervisor has settled, however it was triggered. */
export class Triggers {
  readonly #options: TriggerOptions;
  readonly #pending = new Set<string>();
  readonly #requested = new WakeUp();

  constructor(options: TriggerOptions) {
    this.#options = options;
  }

  /** A trigger from outside, such as SIGHUP: config and plugins are read once they have settled. */
  request(trigger: string): void {
    this.#pending.add(trigger);
    this.#requested.notify();
  }

  /** Runs until the signal aborts. `configText` is what was loaded at the start, `pluginStamp` what was seen of plugins. */
  async run(
    known: { readonly configText: string | undefined; readonly pluginStamp: string | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    const { config, followConfig, plugins, followPlugins, reload } = this.#options;
    const { clock, log } = this.#options;
    const hash = (text: string | undefined): string | undefined => (text === undefined ? undefined : hashOf(text));
    const watching: Promise<void>[] = [this.#serveRequests(signal)];
    if (config !== undefined && followConfig) {
      const changed = (content: Content): void => reload(`${config.description} changed`, content);
      watching.push(watchContent({ source: config, clock, log, known: hash(known.configText), changed }, signal));
    }
    if (followPlugins) {
      const changed = (): void => reload(`${plugins.description} changed`);
      watching.push(watchContent({ source: plugins, clock, log, known: hash(known.pluginStamp), changed }, signal));
    }
    await Promise.all(watching);
  }

  async #serveRequests(signal: AbortSignal): Promise<void> {
    const { clock, config, plugins, reload } = this.#options;
    while (!signal.aborted) {
      if (this.#pending.size === 0) await this.#requested.wait(clock, longWaitMs, signal);
      if (signal.aborted) return;
      if (this.#pending.size === 0) continue;
      const trigger = [...this.#pending].join(", ");
      this.#pending.clear();
      const [content] = await Promise.all([
        config && settledContent(config, clock, signal),
        settledContent(plugins, clock, signal),
      ]);
      if (!signal.aborted) reload(trigger, content);
    }
  }
}
