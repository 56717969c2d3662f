import {
  type Cloud,
  type CloudContext,
  type CloudPlugin,
  type ControllerPlugin,
  type Decoded,
  type InitFunc,
  ProblemsError,
} from "cloud-controller-host/sdk";

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
  const problems = [...scope.locks.problems(plugins.controllers)];
  const take = <T>(from: string, decoded: Decoded<T>): T | undefined => {
    // Of a refused config, too: a misspelled key is why another one is missing.
    for (const warning of decoded.warnings ?? []) log.warn(`${from}: ${warning}`);
    if (decoded.ok) return decoded.value;
    problems.push(...decoded.problems.map((problem) => `${from}: ${problem}`));
    return undefined;
  };
  const plugin = chosenCloud(plugins.clouds, settings.cloudProvider);
  const cloud = take(config.source, plugin.bind(config.document, scope.environment));
  const own = settings.own(plugins.controllers);
  const controllers = enabledPlugins(settings, plugins).controllers.flatMap((controller) => {
    const place = scope.locks.of(controller);
    if ("runBy" in place) {
      log.info(`Controller is left to ${place.runBy} by the leader migration config`, {
        controller: controller.name,
      });
      return [];
    }
    const construct = take(`options of ${controller.name}`, controller.bind(own.get(controller.name)));
    return construct === undefined
      ? []
      : [{ plugin: controller, lock: place.lock, construct: (made: Cloud) => construct(scope.config, made) }];
  });
  if (problems.length > 0 || cloud === undefined) throw new ProblemsError("the configuration is refused", problems);
  return { cloud, controllers };
}

function chosenCloud(clouds: readonly CloudPlugin[], name: string): CloudPlugin {
  const chosen = clouds.find((cloud) => cloud.name === name);
  if (chosen !== undefined) return chosen;
  const known = clouds.map((cloud) => cloud.name).join(", ") || "none";
  throw new ProblemsError("the configuration is refused", [
    `--cloud-provider=${name}: unknown cloud plugin; known cloud plugins: ${known}`,
  ]);
}
