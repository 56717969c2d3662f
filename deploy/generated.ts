import { join } from "node:path";

import { CodedError } from "cloud-controller-host/sdk";

import { ownPluginDirectory } from "../host/cli/command.ts";
import { flagRows } from "../host/config/flags/flags.ts";
import { pluginFlags } from "../host/config/flags/plugin-flags.ts";
import { loadPlugins, type PluginSet } from "../host/generation/plugins/load.ts";
import { provideSdk } from "../host/generation/plugins/sdk-module.ts";
import { chartPermissions } from "./chart-permissions.ts";

const chart = join(import.meta.dir, "chart");

async function ownPlugins(): Promise<PluginSet> {
  provideSdk();
  const loaded = await loadPlugins([ownPluginDirectory]);
  if (!loaded.ok) throw new CodedError("PluginsNotLoaded", loaded.problems.join("; "));
  return loaded.plugins;
}

/** The chart's table of permissions, as the plugins in `plugins/` declare them. */
export const permissionsFile = async (): Promise<string> => chartPermissions(await ownPlugins());

/** The flags that the chart accepts in extraArgs: the host's and those of its plugins. */
export async function flagsFile(): Promise<string> {
  const { controllers } = await ownPlugins();
  const names = [...flagRows, ...controllers.flatMap(pluginFlags)].map(({ name }) => `  - ${name}\n`);
  const heading = "# Generated from the table of flags by `bun run reference`. Do not edit.\nflags:\n";
  return `${heading}${names.toSorted().join("")}`;
}

/** The values that the plain manifests are rendered with. */
const manifestValues = [
  "fullnameOverride=cloud-controller-host",
  "image.repository=cloud-controller-host",
  "metrics.serviceMonitor.enabled=true",
  "metrics.scrape.authorization.secretName=prometheus-token",
  "metrics.scrape.insecureSkipVerify=true",
  "metrics.prometheusRule.enabled=true",
];

/** Manifests that need the Prometheus operator, in a folder of their own. */
const monitoring = new Set(["servicemonitor.yaml", "prometheusrule.yaml"]);

/** Labels that apply only to a Helm release. */
const helmLabels = /^ *(helm\.sh\/chart|app\.kubernetes\.io\/managed-by): .*\n/gm;

const heading = "# Generated from the chart with its defaults by `bun run reference`. Do not edit.\n";

/** The plain manifests, rendered from the chart as it is on disk: path under `deploy/manifests` and content. */
export async function manifestFiles(helm: string): Promise<ReadonlyMap<string, string>> {
  const values = manifestValues.flatMap((value) => ["--set", value]);
  const command = [helm, "template", "cloud-controller-host", chart, "--namespace=kube-system", ...values];
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [rendered, complaint, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new CodedError("BuildFailed", `helm template failed: ${complaint.trim()}`);
  const files = new Map<string, string>();
  for (const document of rendered.split(/^---\n/m)) {
    const source = /^# Source: \S+\/([^/\s]+)\n/.exec(document);
    if (source === null) continue;
    const [line, file = ""] = source;
    const path = monitoring.has(file) ? `monitoring/${file}` : file;
    const known = files.get(path);
    const body = document.slice(line.length).replaceAll(helmLabels, "").trim();
    files.set(path, known === undefined ? `${heading}${body}\n` : `${known}---\n${body}\n`);
  }
  return files;
}
