import {
  type Cloud,
  type CloudContext,
  type CloudPlugin,
  type ControllerPlugin,
  type Decoded,
  type InitFunc,
  ProblemsError,
} from "cloud-controller-host/sdk";

import { pluginFlags } from "../../config/flags/plugin-flags.ts";
import { enabledPlugins } from "../plugins/enabled.ts";
import type { ProcessScope } from "../scope/scope.ts";
import type { GenerationSpec } from "../slot/generation.ts";

/** A controller plugin with its own options decoded, and still without effects. */
export interface BoundController {
  readonly plugin: ControllerPlugin;
  readonly lock: string;
  readonly construct: (cloud: Cloud) => InitFunc;
}

/** Plugins with their configuration decoded, and still without effects. */
export interface BoundPlugins {
  readonly cloud: (context: CloudContext) => Promise<Cloud>;
  readonly controllers: readonly BoundController[];
}

/** Decodes the cloud config and every enabled plugin's options. Throws `ProblemsError` with all that is wrong. */
export function bind(scope: ProcessScope, { plugins, config }: GenerationSpec): BoundPlugins {
  const { settings, log } = scope;
  const problems = [...scope.locks.problems(plugins.controllers), ...(config.problems ?? [])];
  const take = <T>(decoded: Decoded<T>, named: (text: string) => string): T | undefined => {
    // Of a refused config, too: a misspelled key is why another one is missing.
    for (const warning of decoded.warnings ?? []) log.warn(named(warning));
    if (decoded.ok) return decoded.value;
    problems.push(...decoded.problems.map(named));
    return undefined;
  };
  const plugin = chosenCloud(plugins.clouds, settings.cloudProvider);
  const cloud = take(plugin.bind(config.document, scope.environment), (text) => `${config.source}: ${text}`);
  const own = settings.own(plugins.controllers);
  const controllers = enabledPlugins(settings, plugins).controllers.flatMap((controller) => {
    const place = scope.locks.of(controller);
    if ("runBy" in place) {
      log.info(`Controller is left to ${place.runBy} by the leader migration config`, {
        controller: controller.name,
      });
      return [];
    }
    const construct = take(controller.bind(own.get(controller.name)), (text) => withFlag(controller, text));
    return construct === undefined
      ? []
      : [{ plugin: controller, lock: place.lock, construct: (made: Cloud) => construct(scope.config, made) }];
  });
  if (problems.length > 0 || cloud === undefined) throw new ProblemsError("the configuration is refused", problems);
  return { cloud, controllers };
}

/** A text about an option, which begins with its property, with the name of its flag. */
function withFlag(controller: ControllerPlugin, text: string): string {
  const [property = ""] = text.split(/[.:]/u, 1);
  const flag = pluginFlags(controller).find((one) => one.property === property);
  return flag === undefined ? `options of ${controller.name}: ${text}` : `--${flag.name}${text.slice(property.length)}`;
}

function chosenCloud(clouds: readonly CloudPlugin[], name: string): CloudPlugin {
  const chosen = clouds.find((cloud) => cloud.name === name);
  if (chosen !== undefined) return chosen;
  const known = clouds.map((cloud) => cloud.name).join(", ") || "none";
  throw new ProblemsError("the configuration is refused", [
    `--cloud-provider=${name}: unknown cloud plugin; known cloud plugins: ${known}`,
  ]);
}
