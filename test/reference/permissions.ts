import type { Permission } from "cloud-controller-host/sdk";

import { ownPluginDirectory } from "../../host/cli/command.ts";
import { defaultOptions } from "../../host/config/flags/options.ts";
import { loadPlugins } from "../../host/generation/plugins/load.ts";
import { hostPermissions } from "../../host/run/permissions.ts";
import { code, heading, table } from "./markdown.ts";

/** Every permission of the host with its default flags, and of each plugin that comes with it. */
export async function permissions(): Promise<string> {
  const loaded = await loadPlugins([ownPluginDirectory]);
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  const { clouds, controllers } = loaded.plugins;
  const owners = [{ name: "The host", permissions: hostPermissions(defaultOptions) }, ...clouds, ...controllers];
  const sections = owners.map(({ name, permissions: own }) => `\n## ${name}\n\n${table(head, own.map(row))}\n`);
  return `${heading("Permissions", "what the host and its plugins declare")}
\`cloud-controller-host rbac\` prints roles for the flags that you use, and those of other plugins. The chart and
\`manifests/rbac.yaml\` have the same rules.
${sections.join("")}`;
}

const head = ["API group", "Resources", "Verbs", "Only"];

const list = (names: readonly string[] = []): string => names.map(code).join(", ");

const row = ({ apiGroup, resources, resourceNames, namespace, verbs }: Permission): readonly string[] => [
  apiGroup === "" ? "core" : code(apiGroup),
  list(resources),
  list(verbs),
  [list(resourceNames), namespace === undefined ? "" : `in ${code(namespace)}`].filter((text) => text !== "").join(" "),
];
