import type { Permission } from "cloud-controller-host/sdk";

import { ownPluginDirectory } from "../../host/cli/command.ts";
import { defaultOptions } from "../../host/config/flags/options.ts";
import { loadPlugins } from "../../host/generation/plugins/load.ts";
import { hostPermissions } from "../../host/run/permissions.ts";

/** The name under which a host under test is known to the API server. */
export const hostUser = "cloud-controller-manager";

/** The plugins of this checkout, which no test changes; each load of them would copy and import all of their files. */
let ownPlugins: ReturnType<typeof loadPlugins> | undefined;

/** Exactly the permissions of the host itself, of its cloud and of the named controllers. */
export async function rolesOf(controllers: readonly string[]): Promise<readonly Permission[]> {
  ownPlugins ??= loadPlugins([ownPluginDirectory]);
  const loaded = await ownPlugins;
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  const enabled = loaded.plugins.controllers.filter(({ name }) => controllers.includes(name));
  const options = { ...defaultOptions, cloudConfig: "a file" };
  const all = [...loaded.plugins.clouds, ...enabled];
  return [...hostPermissions(options), ...all.flatMap(({ permissions }) => permissions)];
}
