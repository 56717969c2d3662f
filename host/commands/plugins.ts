import { writeFile } from "node:fs/promises";
import { basename } from "node:path";

import { CodedError, type Permission } from "cloud-controller-host/sdk";

import { loadCommandPlugins } from "../command.ts";
import { peek } from "../config/parse.ts";
import { didYouMean } from "../config/suggestion.ts";
import type { PluginSource } from "../generation/load.ts";
import {
  type LockedPlugin,
  lockEntry,
  missingPlugins,
  type PluginLock,
  readPluginLock,
} from "../generation/plugin-lock.ts";

const usage = `Usage: cloud-controller-host plugins list|lock|verify [--plugin-lock=FILE] [--plugin-dir=DIR ...]

  list     prints every plugin with its kind, version, state, aliases and permissions
  lock     writes name, version and SHA-256 of each third-party plugin to --plugin-lock
  verify   compares the third-party plugins with --plugin-lock; exits with 1 when one is missing, changed or not listed
`;

const subcommands: Readonly<Record<string, (argv: readonly string[]) => Promise<string>>> = { list, lock, verify };

/** `plugins list|lock|verify`. Throws a `CodedError` with all problems. */
export async function runPlugins([name = "", ...argv]: readonly string[]): Promise<string> {
  if (name === "" || name === "--help") return usage;
  const run = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined;
  if (run === undefined)
    throw new CodedError(
      "UnknownCommand",
      `unknown command "plugins ${name}"${didYouMean(name, Object.keys(subcommands), "plugins ")}\n\n${usage}`,
    );
  return run(argv);
}

/** Imports all plugins, without a lock. */
async function sourcesOf(argv: readonly string[]): Promise<readonly PluginSource[]> {
  const withoutLock = [...argv, "--plugin-lock=", "--plugin-failure-policy=exit"];
  const { loaded, copies } = await loadCommandPlugins(withoutLock);
  await copies[Symbol.asyncDispose]();
  if (loaded.ok) return loaded.plugins.sources;
  throw new CodedError("PluginsNotLoaded", loaded.problems.join("\n"));
}

const thirdParty = (sources: readonly PluginSource[]): readonly PluginSource[] =>
  sources.filter((source) => source.thirdParty);

function lockFileOf(argv: readonly string[]): string {
  const { pluginLock } = peek(argv);
  if (pluginLock === "") throw new CodedError("NoLockFile", "name the file with --plugin-lock=FILE");
  return pluginLock;
}

async function lock(argv: readonly string[]): Promise<string> {
  const file = lockFileOf(argv);
  const sources = thirdParty(await sourcesOf(argv));
  const entries = await Promise.all(
    sources.map(async ({ folder, plugin }) => [basename(folder), await lockEntry(folder, plugin)] as const),
  );
  const content: PluginLock = {
    version: 1,
    plugins: Object.fromEntries(entries.toSorted(([one], [other]) => one.localeCompare(other))),
  };
  await writeFile(file, `${JSON.stringify(content, undefined, 2)}\n`);
  return `Locked ${entries.length} plugins in ${file}\n`;
}

async function verify(argv: readonly string[]): Promise<string> {
  const content = await readPluginLock(lockFileOf(argv));
  const sources = thirdParty(await sourcesOf(argv));
  const problems = [
    ...missingPlugins(
      content,
      sources.map(({ folder }) => folder),
    ),
  ];
  for (const source of sources) {
    const state = await stateOf(source, content);
    if (state !== "locked") problems.push(`plugin ${source.folder}: ${state}`);
  }
  if (problems.length > 0) throw new CodedError("PluginsDiffer", problems.join("\n"));
  return `${sources.length} plugins are as locked\n`;
}

async function list(argv: readonly string[]): Promise<string> {
  const { pluginLock } = peek(argv);
  const content = pluginLock === "" ? undefined : await readPluginLock(pluginLock);
  const rows = await Promise.all(
    (await sourcesOf(argv)).map(async (source) => {
      const { plugin, folder } = source;
      const { version } = await lockEntry(folder, plugin);
      const aliases = plugin.kind === "controller" ? plugin.aliases.join(",") : "";
      const permissions = plugin.kind === "webhook" ? [] : plugin.permissions;
      return [
        plugin.name,
        plugin.kind,
        version || "-",
        await stateOf(source, content),
        aliases || "-",
        textOf(permissions),
      ];
    }),
  );
  return table([
    ["NAME", "KIND", "VERSION", "STATE", "ALIASES", "PERMISSIONS"],
    ...rows.toSorted(([one = ""], [other = ""]) => one.localeCompare(other)),
  ]);
}

/** `bundled`, `locked`, `changed`, `not listed`, or `unlocked` without a lock file. */
async function stateOf({ folder, plugin, ...source }: PluginSource, content: PluginLock | undefined): Promise<string> {
  if (!source.thirdParty) return "bundled";
  if (content === undefined) return "unlocked";
  const name = basename(folder);
  const locked: LockedPlugin | undefined = Object.hasOwn(content.plugins, name) ? content.plugins[name] : undefined;
  if (locked === undefined) return "not listed";
  const current = await lockEntry(folder, plugin);
  return current.sha256 === locked.sha256 && current.name === locked.name ? "locked" : "changed";
}

const textOf = (permissions: readonly Permission[]): string =>
  permissions.map(({ resources, verbs }) => `${resources.join(",")}:${verbs.join(",")}`).join(" ") || "-";

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}
