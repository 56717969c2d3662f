import { CodedError } from "cloud-controller-host/sdk";

import type { ConfigSource } from "../../host/generation/triggers/config-source.ts";
import type { ProcessTime } from "./timeline.ts";

/** What a version of the cloud config does to the cloud that is made from it. */
export const cloudFaults = ["createHang", "createLate", "createThrow", "disposeHang", "syncHang"] as const;
/** What a version of the plugin does. */
export const pluginFaults = [
  "importHang",
  "importThrow",
  "initHang",
  "initThrow",
  "initSkip",
  "runThrow",
  "runReturn",
  "ignoreAbort",
  "slowAbort",
  "syncHang",
] as const;

/** The last line of each whole config: a text without it was read half-written. */
const endMark = "whole: true";

export const configText = (version: number, fault: string): string =>
  fault === "invalid"
    ? `- version ${version}\n`
    : `version: ${version}\nfault: ${fault}\n${fault === "disabled" ? "disableCloudProvider: true\n" : ""}${endMark}\n`;

export const isWhole = (text: string): boolean => text.startsWith("- ") || text.includes(endMark);

/** The files of one host: they outlive its processes. */
export class Disk {
  config = configText(0, "none");
  /** `version fault`. */
  plugin = "0 none";
  /** The last config that was written to its end. */
  whole = this.config;
  /** Writes of the config. */
  #configWrites = 0;
  readonly #watchers = new Set<() => void>();

  writeConfig(text: string): void {
    this.config = text;
    if (text !== "" && isWhole(text)) this.whole = text;
    this.#configWrites += 1;
    this.#changed();
  }

  writePlugin(text: string): void {
    this.plugin = text;
    this.#changed();
  }

  configSource(time: ProcessTime): ConfigSource {
    const version = async (): Promise<string> => String(this.#configWrites);
    return { ...this.#source("the config", time, () => this.config), version };
  }

  pluginSource(time: ProcessTime): ConfigSource {
    return this.#source("the plugins", time, () => this.plugin);
  }

  #source(description: string, time: ProcessTime, text: () => string): ConfigSource {
    return {
      description,
      read: async () => {
        if (text() === "") throw new CodedError("FileUnreadable", `${description}: no such file`);
        return text();
      },
      watch: (hint) => {
        const watcher = (): void => time.deliver(hint);
        this.#watchers.add(watcher);
        return { close: () => void this.#watchers.delete(watcher), rearm: () => undefined };
      },
    };
  }

  #changed(): void {
    for (const watcher of this.#watchers) watcher();
  }
}
