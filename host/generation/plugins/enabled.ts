import { permissionVerbs, type Plugin } from "cloud-controller-host/sdk";

import { isControllerEnabled, resolveControllers } from "../../config/values/controller-list.ts";
import type { PluginSet, PluginSource } from "./load.ts";

/** True when `--webhooks` names the webhook or contains `*`; the list is empty by default, as upstream. */
export const isWebhookEnabled = (name: string, list: readonly string[]): boolean =>
  isControllerEnabled(name, true, list);

/** The flags that choose plugins. */
interface PluginChoice {
  readonly cloudProvider: string;
  readonly controllers: readonly string[];
  readonly webhooks: readonly string[];
}

/** The cloud that is named, where there is one, and the controllers and webhooks that are enabled. */
export function enabledPlugins(choice: PluginChoice, { clouds, controllers, webhooks }: PluginSet): PluginSet {
  // Again for each set of plugins: one that was left out at the start brings its aliases when it is fixed.
  const list = resolveControllers(choice.controllers, controllers);
  return {
    clouds: clouds.filter(({ name }) => name === choice.cloudProvider),
    controllers: controllers.filter(({ name, enabledByDefault }) => isControllerEnabled(name, enabledByDefault, list)),
    webhooks: webhooks.filter(({ name }) => isWebhookEnabled(name, choice.webhooks)),
  };
}

/** The folder of each plugin, by kind and name as in `controller "greeter-controller"`. */
export type PluginFolders = ReadonlyMap<string, string>;

export const foldersOf = (sources: readonly PluginSource[]): PluginFolders =>
  new Map(sources.map(({ plugin: { kind, name }, folder }) => [`${kind} "${name}"`, folder]));

/** Problems of plugins that flags name, that were there before and are not now. Others may be uninstalled. */
export function missingChoices(choice: PluginChoice, before: PluginFolders, now: PluginFolders): readonly string[] {
  const named = (list: readonly string[]): readonly string[] => list.filter((item) => !item.startsWith("-"));
  const choices = [
    ["--controllers", "controller", named(choice.controllers)],
    ["--cloud-provider", "cloud", [choice.cloudProvider]],
    ["--webhooks", "webhook", named(choice.webhooks)],
  ] as const;
  return choices.flatMap(([flag, kind, names]) =>
    names.flatMap((name) => {
      const key = `${kind} "${name}"`;
      const folder = now.has(key) ? undefined : before.get(key);
      if (folder === undefined) return [];
      return [
        `${flag}: the ${key} was in ${folder}, and no plugin has this name now; restore it, or restart without it`,
      ];
    }),
  );
}

/** Verbs of a plugin that was not type-checked. */
export function unknownVerbs(plugin: Plugin): readonly string[] {
  const known: ReadonlySet<string> = new Set(permissionVerbs);
  const permissions = plugin.kind === "webhook" ? [] : plugin.permissions;
  return [...new Set(permissions.flatMap(({ verbs }) => verbs))].filter((verb) => !known.has(verb));
}
