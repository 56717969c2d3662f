import type { PluginSet } from "./load.ts";

/**
 * upstream: `IsControllerEnabled`. Whether a `--controllers` list, its aliases already replaced, enables a controller.
 * The first item that names it decides (`name` on, `-name` off); without one, `*` enables what is on by default.
 */
export function isControllerEnabled(name: string, enabledByDefault: boolean, list: readonly string[]): boolean {
  const verdict = list.find((item) => item === name || item === `-${name}`);
  return verdict === undefined ? enabledByDefault && list.includes("*") : verdict === name;
}

/** The cloud that is named, where there is one, and the controllers that are enabled. */
export const enabledPlugins = (
  asked: { readonly cloudProvider: string; readonly controllers: readonly string[] },
  { clouds, controllers }: PluginSet,
): PluginSet => ({
  clouds: clouds.filter(({ name }) => name === asked.cloudProvider),
  controllers: controllers.filter(({ name, enabledByDefault }) =>
    isControllerEnabled(name, enabledByDefault, asked.controllers),
  ),
});
