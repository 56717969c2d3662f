import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

import { CodedError } from "cloud-controller-host/sdk";

import { parse, peek } from "../config/parse/parse.ts";
import { formatProblems } from "../config/validate/validate.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import { findPlugins, type PluginFolder } from "../generation/plugins/plugin-folders.ts";
import {
  type LockedPlugin,
  lockEntry,
  lockVersion,
  missingPlugins,
  type PluginLock,
  readPluginLock,
  versionOf,
} from "../generation/plugins/plugin-lock.ts";
import { ownPluginDirectory } from "./command.ts";

export const pluginsUsage = `Usage: cloud-controller-host plugins list|lock|verify [--plugin-lock=FILE] [--plugin-dir=DIR ...]

  list     prints every plugin with its kind, version and state
  lock     writes version and SHA-256 of each third-party plugin to --plugin-lock
  verify   compares the third-party plugins with --plugin-lock; exits with 1 when one is missing, changed or not listed

None of them imports a plugin: names and kinds are read from the text of plugin.ts. A plugin whose name is not written
out there is listed by its folder.
`;

const subcommands: Readonly<Record<string, (argv: readonly string[]) => Promise<string>>> = { list, lock, verify };

/** `plugins list|lock|verify`. Throws a `CodedError` with all problems. */
export async function runPlugins([name = "", ...argv]: readonly string[]): Promise<string> {
  if (name === "") return pluginsUsage;
  const run = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined;
  if (run === undefined)
    throw new CodedError(
      "InvalidArgument",
      `unknown command "plugins ${name}"${didYouMean(name, Object.keys(subcommands), "plugins ")}; see plugins --help`,
    );
  // Flags of plugins are unknown here, since no plugin is imported.
  const command = parse(argv, [], { incomplete: true });
  if (command.kind === "refused")
    throw new CodedError("InvalidFlags", `${formatProblems(command.problems)}\n${command.usageHint}`);
  return run(argv);
}

/** All plugins of a command line. Throws with all problems. */
async function pluginsOf(argv: readonly string[]): Promise<readonly PluginFolder[]> {
  const { found, problems } = await findPlugins([ownPluginDirectory, ...peek(argv).pluginDir]);
  if (problems.length > 0) throw new CodedError("PluginsNotLoaded", formatProblems(problems));
  return found;
}

const thirdPartyOf = async (argv: readonly string[]): Promise<readonly PluginFolder[]> =>
  (await pluginsOf(argv)).filter(({ thirdParty }) => thirdParty);

function lockFileOf(argv: readonly string[]): string {
  const { pluginLock } = peek(argv);
  if (pluginLock === "") throw new CodedError("InvalidFlags", "name the file with --plugin-lock=FILE");
  return pluginLock;
}

async function lock(argv: readonly string[]): Promise<string> {
  const file = lockFileOf(argv);
  const entries = await Promise.all(
    (await thirdPartyOf(argv)).map(async ({ folder }) => [basename(folder), await lockEntry(folder)] as const),
  );
  const content: PluginLock = {
    version: lockVersion,
    plugins: Object.fromEntries(entries.toSorted(([one], [other]) => one.localeCompare(other))),
  };
  await writeFile(file, `${JSON.stringify(content, undefined, 2)}\n`);
  return `Locked ${entries.length} plugin${entries.length === 1 ? "" : "s"} in ${file}\n`;
}

async function verify(argv: readonly string[]): Promise<string> {
  const content = await readPluginLock(lockFileOf(argv));
  const plugins = await thirdPartyOf(argv);
  const problems = [
    ...missingPlugins(
      content,
      plugins.map(({ folder }) => folder),
    ),
  ];
  for (const plugin of plugins) {
    const state = await stateOf(plugin, content);
    if (state !== "locked") problems.push(`plugin ${plugin.folder}: ${state}`);
  }
  if (problems.length > 0)
    throw new CodedError("PluginsDiffer", `${problems.join("\n")}\nreview them, then record them with: plugins lock`);
  return plugins.length === 1 ? "1 plugin is as locked\n" : `${plugins.length} plugins are as locked\n`;
}

async function list(argv: readonly string[]): Promise<string> {
  const { pluginLock } = peek(argv);
  const content = pluginLock === "" ? undefined : await readPluginLock(pluginLock);
  const rows = await Promise.all(
    (await pluginsOf(argv)).map(async (one) => {
      const { name, kind } = await describe(one);
      return [name, kind, (await versionOf(one.folder)) || "-", await stateOf(one, content)];
    }),
  );
  return table([
    ["NAME", "KIND", "VERSION", "STATE"],
    ...rows.toSorted(([one = ""], [other = ""]) => one.localeCompare(other)),
  ]);
}

/** The start of a plugin's definition; the name only where it is a literal and comes first. */
const definition = /\bdefine(Controller|Cloud|Webhook)\b[^(]*\(\s*(?:\{\s*name:\s*["']([^"'\\]+)["'])?/u;

/** Name and kind as the source shows them. */
async function describe({ folder, entry }: PluginFolder): Promise<{ readonly name: string; readonly kind: string }> {
  const source = (await readFile(join(folder, entry), "utf8")).split("export default").at(-1) ?? "";
  const [, kind = "-", name = basename(folder)] = definition.exec(source) ?? [];
  return { name, kind: kind.toLowerCase() };
}

/** `bundled`, `locked`, `changed`, `not listed`, or `unlocked` without a lock file. */
async function stateOf({ folder, thirdParty }: PluginFolder, content: PluginLock | undefined): Promise<string> {
  if (!thirdParty) return "bundled";
  if (content === undefined) return "unlocked";
  const name = basename(folder);
  const locked: LockedPlugin | undefined = Object.hasOwn(content.plugins, name) ? content.plugins[name] : undefined;
  if (locked === undefined) return "not listed";
  return (await lockEntry(folder)).sha256 === locked.sha256 ? "locked" : "changed";
}

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
