import { isControllerEnabled } from "../config/controller-list.ts";
import type { PluginSet } from "./load.ts";

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
