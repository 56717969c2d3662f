import { isControllerEnabled } from "../config/controller-list.ts";
import type { PluginSet } from "./load.ts";

/** True when `--webhooks` names the webhook or contains `*`; the list is empty by default, as upstream. */
export const isWebhookEnabled = (name: string, list: readonly string[]): boolean =>
  isControllerEnabled(name, true, list);

/** The cloud that is named, where there is one, and the controllers that are enabled. */
export const enabledPlugins = (
  asked: {
    readonly cloudProvider: string;
    readonly controllers: readonly string[];
    readonly webhooks?: readonly string[];
  },
  { clouds, controllers, webhooks }: PluginSet,
): PluginSet => ({
  clouds: clouds.filter(({ name }) => name === asked.cloudProvider),
  controllers: controllers.filter(({ name, enabledByDefault }) =>
    isControllerEnabled(name, enabledByDefault, asked.controllers),
  ),
  webhooks: webhooks.filter(({ name }) => isWebhookEnabled(name, asked.webhooks ?? [])),
});
