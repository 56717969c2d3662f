import { join } from "node:path";

import {
  type CloudPlugin,
  type ControllerPlugin,
  messageOf,
  type Plugin,
  type WebhookPlugin,
} from "cloud-controller-host/sdk";

import { systemClock } from "../../async/clock.ts";
import { OutstandingWork } from "../../async/outstanding-work.ts";
import { hashOf } from "../triggers/cloud-config.ts";
import { cannotImport, type ImportOptions, importPlugin } from "./import-plugin.ts";
import { findPlugins, type PluginFolder } from "./plugin-folders.ts";
import { missingPlugins, type PluginLock, readPluginLock, takeLocked } from "./plugin-lock.ts";
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
  | { readonly ok: true; readonly plugins: LoadedPlugins }
  /** `timedOut` if nothing is wrong but that imports did not return in time: the same plugins may load next time. */
  | { readonly ok: false; readonly problems: readonly string[]; readonly timedOut: boolean };

export interface LoadRequest {
  readonly signal?: AbortSignal;
  /** True if a failing plugin of this folder is left out; any other's failure refuses the load. */
  readonly mayLeaveOut: (folder: string) => boolean;
}

/** A place that plugins are loaded from, again and again. */
export interface PluginLoader {
  /** The hash that `load` would result in, without importing anything. */
  hash(): Promise<string>;
  load(request: LoadRequest): Promise<Loaded>;
}

export interface PluginLoaderOptions extends ImportOptions {
  /** Folders of plugin folders: the first one comes with the host, further ones are third-party. */
  readonly directories: readonly string[];
  /** `--plugin-lock`: read again by each load. Empty: third-party plugins are not checked. */
  readonly lockFile?: string;
}

interface Imported extends PluginFolder {
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
      const { found, problems } = await findPlugins(options.directories);
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

const combined = (found: readonly PluginFolder[], hashes: readonly string[]): string =>
  hashOf(found.map(({ folder }, index) => `${folder} ${hashes[index]}`).join("\n"));

/**
 * Nothing of a third-party plugin is imported before the lock has been read and compared with all of them, nor when the
 * comparison refuses the load.
 */
async function load(options: PluginLoaderOptions, request: LoadRequest): Promise<Loaded> {
  const { found, problems } = await findPlugins(options.directories);
  const refused: LeftOutPlugin[] = [];
  const refuse = (plugin: string, reason: string): void => {
    if (request.mayLeaveOut(plugin)) refused.push({ plugin, reason });
    else problems.push(reason);
  };
  const refuseOne = ({ folder, thirdParty }: PluginFolder, reason: string): void => {
    if (thirdParty) refuse(folder, reason);
    else problems.push(reason);
  };
  const lock = await checkLock(options.lockFile ?? "", found, refuse);
  await using held = new AsyncDisposableStack();
  const copied = new Map<PluginFolder, PrivateCopy>();
  for (const one of found) {
    const expected = one.thirdParty ? lock : undefined;
    if (expected === "unreadable") continue;
    request.signal?.throwIfAborted();
    const outcome = await copyOne(options, one, expected);
    if (typeof outcome === "string") refuseOne(one, outcome);
    else
      copied.set(
        one,
        held.adopt(outcome, (copy) => copy.release()),
      );
  }
  const imported: Imported[] = [];
  const timeouts = new Set<string>();
  const mayImport = lock === undefined || problems.length === 0;
  for (const [one, copy] of copied) {
    if (one.thirdParty && !mayImport) continue;
    const outcome = await importPlugin(options, one, copy, request.signal);
    if ("plugin" in outcome) imported.push({ ...one, plugin: outcome.plugin });
    else {
      refuseOne(one, outcome.problem);
      if (outcome.timedOut) timeouts.add(outcome.problem);
    }
  }
  const clashing = clashes(imported);
  for (const [one, problem] of clashing) refuseOne(one, problem);
  if (problems.length > 0) return { ok: false, problems, timedOut: problems.every((each) => timeouts.has(each)) };
  const good = imported.filter((one) => !clashing.has(one));
  held.move();
  const hashes = found.map((one) => copied.get(one)?.hash ?? "");
  return { ok: true, plugins: loadedPlugins(good, refused, [...copied.values()], combined(found, hashes)) };
}

/** The lock of a load; undefined without a file. */
async function checkLock(
  file: string,
  found: readonly PluginFolder[],
  refuse: (plugin: string, reason: string) => void,
): Promise<PluginLock | "unreadable" | undefined> {
  if (file === "") return undefined;
  try {
    const lock = await readPluginLock(file);
    const folders = found.filter(({ thirdParty }) => thirdParty).map(({ folder }) => folder);
    for (const reason of missingPlugins(lock, folders)) refuse(reason, reason);
    return lock;
  } catch (error) {
    refuse(file, messageOf(error));
    return "unreadable";
  }
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
        // Forgetting hundreds of modules takes milliseconds, for which the lease would wait at the end.
        if (holders === 0) setImmediate(() => void Promise.all(copies.map((copy) => copy.release())));
      };
    },
  };
}

/** A copy that may be imported, or the problem. */
async function copyOne(
  { copies }: PluginLoaderOptions,
  one: PluginFolder,
  lock: PluginLock | undefined,
): Promise<PrivateCopy | string> {
  try {
    return await (lock === undefined ? copies.take(one.folder) : takeLocked(lock, one.folder, copies));
  } catch (error) {
    return cannotImport(copies, one, error);
  }
}

/** Plugins whose name or alias an earlier one has: each stands for one plugin only, whatever its kind. */
function clashes(imported: readonly Imported[]): ReadonlyMap<Imported, string> {
  const owners = new Map<string, string>();
  const problems = new Map<Imported, string>();
  for (const one of imported) {
    const { plugin, folder, entry } = one;
    const path = join(folder, entry);
    const aliases = plugin.kind === "controller" ? plugin.aliases : [];
    const keys = [plugin.name, ...aliases].map((name) => `${plugin.kind} name "${name}"`);
    if (plugin.kind === "webhook") keys.push(`path "${plugin.path}"`);
    for (const key of new Set(keys)) {
      const owner = owners.get(key);
      if (owner === undefined) owners.set(key, path);
      else problems.set(one, `plugin ${path}: the ${key} is taken by plugin ${owner}; rename one of them`);
    }
  }
  return problems;
}
