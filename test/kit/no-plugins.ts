import { systemClock } from "../../host/async/clock.ts";
import { OutstandingWork } from "../../host/async/outstanding-work.ts";
import { type LoadedPlugins, pluginLoader, type PluginSet } from "../../host/generation/plugins/load.ts";
import { PrivateCopies } from "../../host/generation/plugins/private-copies.ts";
import type { HostInput } from "../../host/run/process-parts.ts";

/** Plugins that were made by a test and not loaded from files. */
export const pluginsOf = (set: Partial<PluginSet>, more: Partial<LoadedPlugins> = {}): LoadedPlugins => ({
  controllers: [],
  clouds: [],
  webhooks: [],
  hash: "",
  thirdParty: new Set(),
  refused: [],
  sources: [],
  retain: () => () => undefined,
  ...set,
  ...more,
});

/** The part of a host's input that is about plugins, without any. */
export function noPlugins(): Pick<HostInput, "plugins" | "loader" | "copies" | "outstanding"> {
  const clock = systemClock;
  const [copies, outstanding] = [new PrivateCopies(clock), new OutstandingWork(clock)];
  const loader = pluginLoader({ directories: [], copies, clock, outstanding, importTimeout: 30_000 });
  return { plugins: pluginsOf({}), loader, copies, outstanding };
}
