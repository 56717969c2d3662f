import { existsSync } from "node:fs";
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join, sep } from "node:path";

import { forEachConcurrently } from "cloud-controller-host/sdk";

import { readBytes } from "../../config/parse/read-text.ts";
import { type PluginTree, treeWorkers } from "./plugin-tree.ts";

/** The files of a tree, read once, when they are first needed: for the hash, for a copy, or for both. */
export class TreeContent {
  readonly #tree: PluginTree;
  #files: Promise<ReadonlyMap<string, Buffer>> | undefined;

  constructor(tree: PluginTree) {
    this.#tree = tree;
  }

  /** Content by path, in the order of the tree. */
  read(): Promise<ReadonlyMap<string, Buffer>> {
    this.#files ??= readTree(this.#tree);
    return this.#files;
  }
}

async function readTree({ folder, files }: PluginTree): Promise<ReadonlyMap<string, Buffer>> {
  const content = new Map<string, Buffer>(files.map((file) => [file, Buffer.alloc(0)]));
  await forEachConcurrently({ workers: treeWorkers }, files, async (file) => {
    content.set(file, await readBytes(join(folder, file)));
  });
  return content;
}

/** Writes files and the folders that they need. Returns their paths. */
export async function writeAll(files: readonly (readonly [string, Buffer])[]): Promise<readonly string[]> {
  for (const folder of new Set(files.map(([path]) => dirname(path)))) await mkdir(folder, { recursive: true });
  await forEachConcurrently({ workers: treeWorkers }, files, ([path, bytes]) => writeFile(path, bytes));
  return files.map(([path]) => path);
}

/** Links the `node_modules` of the folder itself and of every folder above it, each where it is found. */
export async function linkDependencies(base: string, { folder, dependencies }: PluginTree): Promise<void> {
  const linked = dependencies.map((dependency) => join(folder, dependency));
  for (let parent = dirname(folder); parent !== dirname(parent); parent = dirname(parent)) {
    const packages = join(parent, "node_modules");
    if (existsSync(packages)) linked.push(...(await packagesBeside(packages, folder)));
  }
  for (const path of linked) {
    await mkdir(base + dirname(path), { recursive: true });
    await symlink(path, base + path);
  }
}

/** A folder of packages or, when the plugin itself is in it, every other one in it: a copy must not lead to the original. */
async function packagesBeside(packages: string, folder: string): Promise<readonly string[]> {
  if (!folder.startsWith(packages + sep)) return [packages];
  const inside = await readdir(packages);
  const linked = inside.map(async (name) => {
    const path = join(packages, name);
    if (!(folder + sep).startsWith(path + sep)) return [path];
    return name.startsWith("@") ? packagesBeside(path, folder) : [];
  });
  return (await Promise.all(linked)).flat();
}
