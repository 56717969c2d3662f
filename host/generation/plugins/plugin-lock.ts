import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";

import { CodedError, messageOf } from "cloud-controller-host/sdk";

/** One third-party plugin in a lock file. */
export interface LockedPlugin {
  /** From its package.json; empty without one. */
  readonly version: string;
  /** Of all files of its folder, installed dependencies included. */
  readonly sha256: string;
}

/** The content of `--plugin-lock`: third-party plugins by the name of their folder. */
export interface PluginLock {
  readonly version: 1;
  readonly plugins: Readonly<Record<string, LockedPlugin>>;
}

/** Reads a lock file. Throws `InvalidPluginLock`, which names the file. */
export async function readPluginLock(file: string): Promise<PluginLock> {
  try {
    const lock: unknown = JSON.parse(await readFile(file, "utf8"));
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
  throw new CodedError("InvalidPluginLock", `--plugin-lock=${file}: not a lock file; write it with: plugins lock`);
}

function isLock(value: unknown): value is PluginLock {
  if (typeof value !== "object" || value === null || !("version" in value) || !("plugins" in value)) return false;
  if (value.version !== 1 || typeof value.plugins !== "object" || value.plugins === null) return false;
  return Object.values(value.plugins).every(
    (entry: unknown) =>
      typeof entry === "object" &&
      entry !== null &&
      "sha256" in entry &&
      typeof entry.sha256 === "string" &&
      /^[0-9a-f]{64}$/u.test(entry.sha256),
  );
}

/** SHA-256 of the names and contents of all files below a folder. Links are followed, as imports follow them. */
async function contentHash(folder: string): Promise<string> {
  const total = createHash("sha256");
  for (const file of await filesBelow(folder, "")) {
    const content = createHash("sha256")
      .update(await readFile(join(folder, file)))
      .digest("hex");
    total.update(`${content}  ${file}\n`);
  }
  return total.digest("hex");
}

const maxDepth = 32;

async function filesBelow(folder: string, relative: string, depth = 0): Promise<readonly string[]> {
  if (depth > maxDepth) throw new CodedError("PluginTooDeep", `${folder}/${relative}: links form a cycle`);
  const names = await readdir(join(folder, relative));
  const found: string[] = [];
  for (const name of names.filter((one) => one !== ".git" && !one.startsWith("..")).toSorted()) {
    const path = join(relative, name);
    const status = await stat(join(folder, path)).catch(() => undefined);
    if (status?.isDirectory() === true) found.push(...(await filesBelow(folder, path, depth + 1)));
    else if (status?.isFile() === true) found.push(path);
  }
  return found;
}

/** The lock entry for the plugin in a folder. */
export async function lockEntry(folder: string): Promise<LockedPlugin> {
  return { version: await versionOf(folder), sha256: await contentHash(folder) };
}

/** From the `package.json` of a plugin's folder; empty without one. */
export async function versionOf(folder: string): Promise<string> {
  const manifest = await readFile(join(folder, "package.json"), "utf8").catch(() => "{}");
  const { version }: { readonly version?: unknown } = JSON.parse(manifest);
  return typeof version === "string" ? version : "";
}

/**
 * The problem of a third-party plugin that may not be imported: it is not listed, or its files have changed. `content`
 * holds the files that would be imported.
 */
export async function lockProblem(lock: PluginLock, folder: string, content: string): Promise<string | undefined> {
  const name = basename(folder);
  const entry = Object.hasOwn(lock.plugins, name) ? lock.plugins[name] : undefined;
  if (entry === undefined) return `plugin ${folder} is not in --plugin-lock: review it and run: plugins lock`;
  if ((await contentHash(content)) === entry.sha256) return undefined;
  return `plugin ${folder} differs from --plugin-lock: its files have changed; review them and run: plugins lock`;
}

/** The locked plugins that no folder holds. */
export function missingPlugins(lock: PluginLock, folders: readonly string[]): readonly string[] {
  const present = new Set(folders.map((folder) => basename(folder)));
  return Object.keys(lock.plugins)
    .filter((name) => !present.has(name))
    .map((name) => `plugin ${name} is in --plugin-lock, but in no --plugin-dir: add its folder, or run: plugins lock`);
}
