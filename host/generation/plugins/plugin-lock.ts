import { basename, join } from "node:path";

import { CodedError, isObject, messageOf } from "cloud-controller-host/sdk";

import { readText } from "../../config/parse/read-text.ts";
import { listTree } from "./plugin-tree.ts";
import type { PrivateCopies, PrivateCopy } from "./private-copies.ts";
import { readSealed } from "./sealed-content.ts";

/** One third-party plugin in a lock file. */
export interface LockedPlugin {
  /** From its package.json; empty without one. */
  readonly version: string;
  /** Of all that it may load: its files and the packages that it needs. */
  readonly sha256: string;
}

/** Changes with what is hashed. */
export const lockVersion = 2;

/** The content of `--plugin-lock`: third-party plugins by the name of their folder. */
export interface PluginLock {
  readonly version: typeof lockVersion;
  readonly plugins: Readonly<Record<string, LockedPlugin>>;
}

/** Reads a lock file. Throws `InvalidPluginLock`, which names the file. */
export async function readPluginLock(file: string): Promise<PluginLock> {
  try {
    const lock: unknown = JSON.parse(await readText(file));
    if (isLock(lock)) return lock;
  } catch (cause) {
    throw new CodedError(
      "InvalidPluginLock",
      `--plugin-lock=${file}: ${messageOf(cause)}; write it with: plugins lock`,
      {
        cause,
      },
    );
  }
  throw new CodedError(
    "InvalidPluginLock",
    `--plugin-lock=${file}: not a lock file of this version; write it with: plugins lock`,
  );
}

function isLock(value: unknown): value is PluginLock {
  if (typeof value !== "object" || value === null || !("version" in value) || !("plugins" in value)) return false;
  if (value.version !== lockVersion || typeof value.plugins !== "object" || value.plugins === null) return false;
  return Object.values(value.plugins).every(
    (entry: unknown) =>
      typeof entry === "object" &&
      entry !== null &&
      "sha256" in entry &&
      typeof entry.sha256 === "string" &&
      /^[0-9a-f]{64}$/u.test(entry.sha256),
  );
}

const sealedHash = async (folder: string): Promise<string> => (await readSealed(await listTree(folder))).sha256;

export async function lockEntry(folder: string): Promise<LockedPlugin> {
  return { version: await versionOf(folder), sha256: await sealedHash(folder) };
}

/** From the `package.json` of a plugin's folder; empty without a valid one. */
export async function versionOf(folder: string): Promise<string> {
  const manifest: unknown = await readText(join(folder, "package.json"))
    .then(JSON.parse)
    .catch(() => undefined);
  return isObject(manifest) && typeof manifest["version"] === "string" ? manifest["version"] : "";
}

/** A copy of a third-party plugin, or the reason why it may not be imported: it is not listed, or differs. */
export async function takeLocked(
  lock: PluginLock,
  folder: string,
  copies: PrivateCopies,
): Promise<PrivateCopy | string> {
  const name = basename(folder);
  const entry = Object.hasOwn(lock.plugins, name) ? lock.plugins[name] : undefined;
  if (entry === undefined) return `plugin ${folder} is not in --plugin-lock: review it and run: plugins lock`;
  const copy = await copies.takeSealed(folder, entry.sha256);
  return (
    copy ?? `plugin ${folder} differs from --plugin-lock: its files have changed; review them and run: plugins lock`
  );
}

/** The locked plugins that no folder holds. */
export function missingPlugins(lock: PluginLock, folders: readonly string[]): readonly string[] {
  const present = new Set(folders.map((folder) => basename(folder)));
  return Object.keys(lock.plugins)
    .filter((name) => !present.has(name))
    .map((name) => `plugin ${name} is in --plugin-lock, but in no --plugin-dir: add its folder, or run: plugins lock`);
}
