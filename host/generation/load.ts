import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";

import { type CloudPlugin, type ControllerPlugin, messageOf, type Plugin } from "cloud-controller-host/sdk";

import { evict } from "./evict.ts";

/** The plugins of one generation, freshly imported. Controllers are in the order in which they start. */
export interface PluginSet {
  readonly controllers: readonly ControllerPlugin[];
  readonly clouds: readonly CloudPlugin[];
}

export type Loaded =
  { readonly ok: true; readonly plugins: PluginSet } | { readonly ok: false; readonly problems: readonly string[] };

interface Found {
  readonly plugin: Plugin;
  readonly path: string;
}

/**
 * Imports every plugin of the given folders anew: each sub-folder with a `plugin.ts` (or `plugin.js`) is one.
 * All problems are reported together; with any of them nothing is loaded.
 */
export async function loadPlugins(directories: readonly string[]): Promise<Loaded> {
  const problems: string[] = [];
  const found: Found[] = [];
  for (const directory of directories) {
    for (const entry of await entriesOf(directory, problems)) {
      const plugin = await importPlugin(entry, problems);
      if (plugin !== undefined) found.push({ plugin, path: entry });
    }
  }
  problems.push(...clashes(found));
  if (problems.length > 0) return { ok: false, problems };
  const plugins = found.map(({ plugin }) => plugin);
  return {
    ok: true,
    plugins: {
      controllers: plugins.filter((plugin) => plugin.kind === "controller"),
      clouds: plugins.filter((plugin) => plugin.kind === "cloud"),
    },
  };
}

async function entriesOf(directory: string, problems: string[]): Promise<readonly string[]> {
  let names: readonly string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    problems.push(
      `--plugin-dir=${directory}: the folder cannot be read (${messageOf(error)}); name a folder of plugin folders`,
    );
    return [];
  }
  const entries = await Promise.all(names.toSorted().map((name) => entryOf(join(directory, name))));
  return entries.filter((entry) => entry !== undefined);
}

async function entryOf(folder: string): Promise<string | undefined> {
  for (const name of ["plugin.ts", "plugin.js"]) {
    const path = join(folder, name);
    if (
      await stat(path).then(
        (found) => found.isFile(),
        () => false,
      )
    )
      return realpath(path);
  }
  return undefined;
}

async function importPlugin(path: string, problems: string[]): Promise<Plugin | undefined> {
  evict(join(path, ".."));
  let exported: Readonly<Record<string, unknown>>;
  try {
    exported = await import(path);
  } catch (error) {
    problems.push(`plugin ${path} cannot be imported: ${firstProblem(error)}`);
    return undefined;
  }
  if (isPlugin(exported["default"])) return exported["default"];
  problems.push(
    "default" in exported
      ? `plugin ${path}: its default export is not a plugin; export default defineController({…}) or defineCloud({…})`
      : `plugin ${path} has no default export; add: export default defineController({…})`,
  );
  return undefined;
}

/** A module with several syntax errors rejects with all of them; the first one says what to mend. */
function firstProblem(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  return messageOf(first).split("\n", 1)[0] ?? "";
}

function isPlugin(value: unknown): value is Plugin {
  return (
    typeof value === "object" &&
    value !== null &&
    "kind" in value &&
    (value.kind === "controller" || value.kind === "cloud") &&
    "name" in value &&
    typeof value.name === "string" &&
    "bind" in value &&
    typeof value.bind === "function"
  );
}

/** A name or alias, whatever its plugin's kind, stands for one plugin only. */
function clashes(found: readonly Found[]): readonly string[] {
  const owners = new Map<string, string>();
  const problems: string[] = [];
  for (const { plugin, path } of found) {
    const aliases = plugin.kind === "controller" ? plugin.aliases : [];
    for (const name of new Set([plugin.name, ...aliases])) {
      const key = `${plugin.kind} "${name}"`;
      const owner = owners.get(key);
      if (owner === undefined) owners.set(key, path);
      else problems.push(`plugin ${path}: the name ${key} is taken by plugin ${owner}; rename one of them`);
    }
  }
  return problems;
}
