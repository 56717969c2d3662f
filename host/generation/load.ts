import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

import {
  type Clock,
  type CloudPlugin,
  type ControllerPlugin,
  messageOf,
  type Plugin,
  type WebhookPlugin,
} from "cloud-controller-host/sdk";

import { bounded } from "../async/bounded.ts";
import { systemClock } from "../async/clock.ts";
import { OutstandingWork } from "../async/outstanding-work.ts";
import { hashOf } from "./cloud-config.ts";
import { lockProblem, missingPlugins, openPluginLock, type PluginLock } from "./plugin-lock.ts";
import { PrivateCopies, type PrivateCopy } from "./private-copies.ts";
import { provideSdk } from "./sdk-module.ts";

/** Plugins by kind. Controllers are in the order in which they start. */
export interface PluginSet {
  readonly controllers: readonly ControllerPlugin[];
  readonly clouds: readonly CloudPlugin[];
  readonly webhooks: readonly WebhookPlugin[];
}

/** A plugin and its folder. */
export interface PluginSource {
  readonly plugin: Plugin;
  readonly folder: string;
  readonly thirdParty: boolean;
}

/** A third-party plugin that was left out. */
export interface LeftOutPlugin {
  /** Its folder. */
  readonly plugin: string;
  readonly reason: string;
}

/** The plugins of one generation, freshly imported from private copies. */
export interface LoadedPlugins extends PluginSet {
  /** Tells the content of two loads apart. */
  readonly hash: string;
  /** Names of the plugins that do not come with the host. */
  readonly thirdParty: ReadonlySet<string>;
  readonly refused: readonly LeftOutPlugin[];
  readonly sources: readonly PluginSource[];
  /** Keeps the copies, from which files may still be imported, until the result is called. The load itself is one. */
  retain(): () => void;
}

export type Loaded =
  { readonly ok: true; readonly plugins: LoadedPlugins } | { readonly ok: false; readonly problems: readonly string[] };

export interface LoadRequest {
  readonly signal?: AbortSignal;
  /** Whether a plugin of this folder is left out when it fails, where any other's failure refuses the load. */
  readonly mayLeaveOut: (folder: string) => boolean;
}

/** A place that plugins are loaded from, again and again. */
export interface PluginLoader {
  /** The hash that `load` would result in, without importing anything. */
  hash(): Promise<string>;
  load(request: LoadRequest): Promise<Loaded>;
}

export interface PluginLoaderOptions {
  /** Folders of plugin folders: the first one comes with the host, further ones are third-party. */
  readonly directories: readonly string[];
  readonly copies: PrivateCopies;
  readonly clock: Clock;
  readonly outstanding: OutstandingWork;
  /** For each import, in milliseconds. */
  readonly importTimeout: number;
  /** `--plugin-lock`: read again by each load. Empty: third-party plugins are not checked. */
  readonly lockFile?: string;
}

interface Found {
  readonly folder: string;
  readonly entry: string;
  readonly thirdParty: boolean;
}

interface Imported extends Found {
  readonly plugin: Plugin;
}

/**
 * Loads every plugin of some folders: each sub-folder with a `plugin.ts` (or `plugin.js`) is one. All problems are
 * reported together.
 */
export function pluginLoader(options: PluginLoaderOptions): PluginLoader {
  provideSdk();
  return {
    async hash() {
      const { found, problems } = await find(options.directories);
      const hashes = await Promise.all(found.map(({ folder }) => options.copies.hashOf(folder)));
      return problems.length === 0 ? combined(found, hashes) : hashOf(problems.join("\n"));
    },
    load: (request) => load(options, request),
  };
}

/** Loads all plugins of some folders once, for programs that only look at them. With any problem nothing is loaded. */
export function loadPlugins(directories: readonly string[]): Promise<Loaded> {
  const clock = systemClock;
  const copies = new PrivateCopies(clock);
  const outstanding = new OutstandingWork(clock);
  return pluginLoader({ directories, copies, clock, outstanding, importTimeout: 30_000 }).load({
    mayLeaveOut: () => false,
  });
}

const combined = (found: readonly Found[], hashes: readonly string[]): string =>
  hashOf(found.map(({ folder }, index) => `${folder} ${hashes[index]}`).join("\n"));

async function load(options: PluginLoaderOptions, request: LoadRequest): Promise<Loaded> {
  const { found, problems } = await find(options.directories);
  const lock = await openPluginLock(options.lockFile, problems);
  const copies: PrivateCopy[] = [];
  const imported: Imported[] = [];
  const refused: LeftOutPlugin[] = [];
  const refuse = (one: Found, reason: string): void => {
    if (one.thirdParty && request.mayLeaveOut(one.folder)) refused.push({ plugin: one.folder, reason });
    else problems.push(reason);
  };
  if (lock !== undefined)
    for (const reason of missingPlugins(
      lock,
      found.filter(({ thirdParty }) => thirdParty).map(({ folder }) => folder),
    ))
      if (request.mayLeaveOut(reason)) refused.push({ plugin: options.lockFile ?? "", reason });
      else problems.push(reason);
  const hashes: string[] = [];
  try {
    for (const one of found) {
      const outcome = await loadOne(options, one, one.thirdParty ? lock : undefined, request.signal);
      if (outcome.copy !== undefined) copies.push(outcome.copy);
      hashes.push(outcome.copy?.hash ?? "");
      if ("problem" in outcome) refuse(one, outcome.problem);
      else imported.push({ ...one, plugin: outcome.plugin });
    }
  } catch (error) {
    await Promise.all(copies.map((copy) => copy.release()));
    throw error;
  }
  const clashing = clashes(imported);
  for (const [one, problem] of clashing) refuse(one, problem);
  if (problems.length > 0) {
    await Promise.all(copies.map((copy) => copy.release()));
    return { ok: false, problems };
  }
  const good = imported.filter((one) => !clashing.has(one));
  return { ok: true, plugins: loadedPlugins(good, refused, copies, combined(found, hashes)) };
}

function loadedPlugins(
  good: readonly Imported[],
  refused: readonly LeftOutPlugin[],
  copies: readonly PrivateCopy[],
  hash: string,
): LoadedPlugins {
  let holders = 0;
  const plugins = good.map(({ plugin }) => plugin);
  return {
    controllers: plugins.filter((plugin) => plugin.kind === "controller"),
    clouds: plugins.filter((plugin) => plugin.kind === "cloud"),
    webhooks: plugins.filter((plugin) => plugin.kind === "webhook"),
    hash,
    thirdParty: new Set(good.filter(({ thirdParty }) => thirdParty).map(({ plugin }) => plugin.name)),
    refused,
    sources: good,
    retain() {
      holders += 1;
      let held = true;
      return () => {
        if (!held) return;
        held = false;
        holders -= 1;
        if (holders === 0) void Promise.all(copies.map((copy) => copy.release()));
      };
    },
  };
}

async function find(
  directories: readonly string[],
): Promise<{ readonly found: readonly Found[]; readonly problems: string[] }> {
  const problems: string[] = [];
  const found: Found[] = [];
  for (const [index, directory] of directories.entries()) {
    try {
      for (const name of (await readdir(directory)).toSorted()) {
        const folder = join(directory, name);
        const entry = await entryOf(folder);
        if (entry !== undefined) found.push({ folder, entry, thirdParty: index > 0 });
      }
    } catch (error) {
      problems.push(
        `--plugin-dir=${directory}: the folder cannot be read (${messageOf(error)}); name a folder of plugin folders`,
      );
    }
  }
  return { found, problems };
}

async function entryOf(folder: string): Promise<string | undefined> {
  for (const name of ["plugin.ts", "plugin.js"]) {
    const status = await stat(join(folder, name)).catch(() => undefined);
    if (status?.isFile() === true) return name;
  }
  return undefined;
}

type Outcome = { readonly copy?: PrivateCopy } & ({ readonly plugin: Plugin } | { readonly problem: string });

/** A copy whose import failed or was abandoned is not used again. Rejects only when the signal aborts. */
async function loadOne(
  { copies, clock, outstanding, importTimeout }: PluginLoaderOptions,
  { folder, entry }: Found,
  lock: PluginLock | undefined,
  signal: AbortSignal | undefined,
): Promise<Outcome> {
  const path = join(folder, entry);
  let copy: PrivateCopy | undefined;
  try {
    const taken = await copies.take(folder);
    copy = taken;
    const refusal = lock === undefined ? undefined : await lockProblem(lock, folder, taken.folder);
    if (refusal !== undefined) return { copy, problem: refusal };
    const bounds = {
      kind: "import" as const,
      name: `import of ${path}`,
      clock,
      outstanding,
      limitMs: importTimeout,
      hint: "--plugin-init-timeout",
      ...(signal && { signal }),
    };
    const exported: Readonly<Record<string, unknown>> = await bounded(bounds, () => import(join(taken.folder, entry)));
    if (isPlugin(exported["default"])) return { copy, plugin: exported["default"] };
    const problem =
      "default" in exported
        ? `plugin ${path}: its default export is not a plugin; export default defineController({…}), defineCloud({…}) or defineWebhook({…})`
        : `plugin ${path} has no default export; add: export default defineController({…})`;
    return { copy, problem };
  } catch (error) {
    const problem = `plugin ${path} cannot be imported: ${copies.restorePaths(firstProblem(error))}`;
    await copy?.release(true);
    signal?.throwIfAborted();
    return { problem };
  }
}

/** A module with several syntax errors rejects with all of them; the first one says what to mend. */
function firstProblem(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  const at = first instanceof BuildMessage ? first.position : null;
  return `${at ? `${at.file}:${at.line}:${at.column}: ` : ""}${messageOf(first).split("\n", 1)[0] ?? ""}`;
}

function isPlugin(value: unknown): value is Plugin {
  return (
    typeof value === "object" &&
    value !== null &&
    "kind" in value &&
    "name" in value &&
    typeof value.name === "string" &&
    (value.kind === "webhook"
      ? "admit" in value && typeof value.admit === "function"
      : (value.kind === "controller" || value.kind === "cloud") && "bind" in value && typeof value.bind === "function")
  );
}

/** Plugins whose name or alias an earlier one has: each stands for one plugin only, whatever its kind. */
function clashes(imported: readonly Imported[]): ReadonlyMap<Imported, string> {
  const owners = new Map<string, string>();
  const problems = new Map<Imported, string>();
  for (const one of imported) {
    const { plugin, folder, entry } = one;
    const path = join(folder, entry);
    const aliases = plugin.kind === "controller" ? plugin.aliases : [];
    const keys = [plugin.name, ...aliases].map((name) => `${plugin.kind} "${name}"`);
    if (plugin.kind === "webhook") keys.push(`path "${plugin.path}"`);
    for (const key of new Set(keys)) {
      const owner = owners.get(key);
      if (owner === undefined) owners.set(key, path);
      else
        problems.set(
          one,
          `plugin ${path}: the ${key.startsWith("path") ? "" : "name "}${key} is taken by plugin ${owner}; rename one of them`,
        );
    }
  }
  return problems;
}
