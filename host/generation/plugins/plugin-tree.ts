import { readdir, realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";

import { forEachConcurrently } from "cloud-controller-host/sdk";

/** Files that are looked at or copied at the same time. */
export const treeWorkers = 16;

/** A folder of source files by names, sizes and times. Its dependencies are not walked. */
export interface PluginTree {
  /** Real path of the folder. */
  readonly folder: string;
  /** Paths relative to the folder, sorted. Links are followed. */
  readonly files: readonly string[];
  /** Relative paths of the `node_modules` folders. */
  readonly dependencies: readonly string[];
  /** Changes with the name, size or time of any file, and with any installed dependency. */
  readonly stamp: string;
}

interface Found {
  readonly files: string[];
  readonly dependencies: string[];
}

const dependencyFolder = "node_modules";

/** Lists a folder by `stat` alone. Rejects when the folder cannot be read. */
export async function listTree(path: string): Promise<PluginTree> {
  const folder = await realpath(path);
  const found: Found = { files: [], dependencies: [] };
  await walk(folder, "", [], found);
  const dependencies = found.dependencies.toSorted();
  const manifests = await Promise.all(dependencies.map((dependency) => manifestsUnder(join(folder, dependency))));
  const stamps = new Map<string, string>();
  const looked = [...found.files.map((file) => join(folder, file)), ...manifests.flat()];
  await forEachConcurrently({ workers: treeWorkers }, looked, async (file) => {
    const status = await stat(file).catch(() => undefined);
    if (status !== undefined) stamps.set(file, `${status.size} ${status.mtimeMs} ${status.ino}`);
  });
  const files = found.files.filter((file) => stamps.has(join(folder, file))).toSorted();
  const stamp = looked.toSorted().map((file) => `${file} ${stamps.get(file) ?? "missing"}`);
  return { folder, files, dependencies, stamp: stamp.join("\n") };
}

/**
 * Links are followed, as imports follow them. Names that begin with two dots are how a mounted volume keeps its
 * versions; their files are found through the volume's links. `above` holds the real folders on the way here.
 */
async function walk(root: string, relative: string, above: readonly string[], found: Found): Promise<void> {
  const here = await realpath(join(root, relative));
  if (above.includes(here)) return;
  const entries = await readdir(here, { withFileTypes: true });
  for (const entry of entries) {
    if (entry.name.startsWith("..") || entry.name === ".git") continue;
    const path = join(relative, entry.name);
    const kind = entry.isSymbolicLink() ? await stat(join(root, path)).catch(() => undefined) : entry;
    if (kind?.isDirectory() === true && entry.name === dependencyFolder) found.dependencies.push(path);
    else if (kind?.isDirectory() === true) await walk(root, path, [...above, here], found);
    else if (kind?.isFile() === true) found.files.push(path);
  }
}

/** The manifest of each installed package: an upgrade rewrites it, so the packages need not be read. */
async function manifestsUnder(dependencies: string): Promise<readonly string[]> {
  const names = await readdir(dependencies).catch(() => []);
  const packages = await Promise.all(
    names.map(async (name) => {
      if (!name.startsWith("@")) return [name];
      return (await readdir(join(dependencies, name)).catch(() => [])).map((inner) => join(name, inner));
    }),
  );
  return packages.flat().map((name) => join(dependencies, name, "package.json"));
}

/** Files whose imports Bun resolves; the group is the kind. */
export const sourceFile = /\.[cm]?([jt]sx?)$/u;

/**
 * True if a file may import from outside its plugin's folder: some word in it has more `..` than the file is deep.
 * The parts of a path may be known at run time only, so steps down do not make up for steps up.
 */
export function leavesFolder(file: string, content: Buffer): boolean {
  if (!sourceFile.test(file) || !content.includes("../")) return false;
  const depth = file.split(sep).length - 1;
  const text = content.toString();
  let steps = 0;
  let end = 0;
  for (let at = text.indexOf("../"); at >= 0; at = text.indexOf("../", end)) {
    steps = betweenWords.test(text.slice(end, at)) ? 1 : steps + 1;
    if (steps > depth) return true;
    end = at + "../".length;
  }
  return false;
}

const betweenWords = /[\s"'`()]/u;
