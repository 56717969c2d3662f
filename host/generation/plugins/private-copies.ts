import { createHash } from "node:crypto";
import { existsSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, sep } from "node:path";

import { type Clock, CodedError, forEachConcurrently, messageOf } from "cloud-controller-host/sdk";

import { resolveOutside } from "./outside-imports.ts";
import { leavesFolder, listTree, type PluginTree, treeWorkers } from "./plugin-tree.ts";

/** Copies of the same content that are kept for the next load. Importing from a path again costs no memory. */
const sparePerFolder = 2;
/** Between two looks at a folder that changes while it is copied, and how often that is tried. */
const settleMs = 250;
const maxAttempts = 20;

/** A plugin folder as it was at one moment, in a private directory. Its modules are evaluated again for each holder. */
export interface PrivateCopy {
  /** Where the copy is. */
  readonly folder: string;
  /** The folder that was copied. */
  readonly original: string;
  /** Hash of all content and of the versions of installed dependencies. */
  readonly hash: string;
  /** Gives the copy back. `failed`: modules that failed to load stay known to Bun by path, so it is not used again. */
  release(failed?: boolean): Promise<void>;
}

interface Copy {
  readonly base: string;
  readonly folder: string;
  readonly original: string;
  readonly hash: string;
  readonly files: readonly string[];
  inUse: boolean;
}

/**
 * Copies of plugin folders, so that a generation never sees files that changed after it was loaded, lazily imported ones
 * included. Dependencies in `node_modules` are linked, not copied; what a plugin imports from outside its folder is
 * imported from where it is. Both are shared by all generations.
 */
export class PrivateCopies implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #copies = new Set<Copy>();
  /** Content hashes by folder, valid while the stamp is the same. */
  readonly #hashes = new Map<
    string,
    { readonly stamp: string; readonly dependencies: string; readonly hash: string }
  >();
  #root: Promise<string> | undefined;
  #count = 0;
  #resolvesOutside = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The content hash of a folder; reads only what `stat` shows as changed since the last time. */
  async hashOf(folder: string): Promise<string> {
    const tree = await listTree(folder);
    return this.#hashOf(tree, new TreeContent(tree));
  }

  /** A copy of what the folder holds now. Waits while the folder is being changed, within limits. */
  async take(folder: string): Promise<PrivateCopy> {
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      if (attempt > 0) await this.#clock.sleep(settleMs);
      const tree = await listTree(folder);
      const content = new TreeContent(tree);
      const hash = await this.#hashOf(tree, content);
      const spare = [...this.#copies].find(
        (copy) => !copy.inUse && copy.original === tree.folder && copy.hash === hash,
      );
      if (spare !== undefined) return this.#use(spare);
      const copy = await this.#copy(tree, hash, content);
      if ((await listTree(folder)).stamp === tree.stamp) return this.#use(copy);
      await this.#remove(copy);
    }
    throw new CodedError("PluginChanging", `${folder} keeps changing while it is read; load it when it is complete`);
  }

  /** The original path behind a path in a copy, as in stack traces; other text is returned as it is. */
  restorePaths(text: string): string {
    let restored = text;
    for (const { folder, original } of this.#copies) restored = restored.replaceAll(folder, original);
    return restored;
  }

  /** Folder name of the first plugin that a stack trace passes through. */
  pluginIn(stack: string): string | undefined {
    for (const line of stack.split("\n"))
      for (const { folder, original } of this.#copies) if (line.includes(folder + sep)) return basename(original);
    return undefined;
  }

  /** Removes every copy. */
  async [Symbol.asyncDispose](): Promise<void> {
    const root = this.#root;
    this.#root = undefined;
    for (const copy of this.#copies) evict(copy);
    this.#copies.clear();
    if (root !== undefined) await rm(await root, { recursive: true, force: true });
  }

  #use(copy: Copy): PrivateCopy {
    copy.inUse = true;
    const { folder, original, hash } = copy;
    return { folder, original, hash, release: (failed = false) => this.#release(copy, failed) };
  }

  async #release(copy: Copy, failed: boolean): Promise<void> {
    if (!copy.inUse) return;
    copy.inUse = false;
    evict(copy);
    const spare = [...this.#copies].filter(({ inUse, original }) => !inUse && original === copy.original);
    const superfluous = failed ? [copy] : spare.slice(0, Math.max(0, spare.length - sparePerFolder));
    await Promise.all(superfluous.map((each) => this.#remove(each)));
  }

  async #remove(copy: Copy): Promise<void> {
    this.#copies.delete(copy);
    await rm(copy.base, { recursive: true, force: true });
  }

  async #hashOf(tree: PluginTree, content: TreeContent): Promise<string> {
    const known = this.#hashes.get(tree.folder);
    if (known?.stamp === tree.stamp) return known.hash;
    const files = await content.read();
    const lines = [...files].map(([file, bytes]) => `${file} ${createHash("sha256").update(bytes).digest("hex")}`);
    const dependencies = tree.stamp.split("\n").filter((line) => line.includes(`${sep}node_modules${sep}`));
    const hash = createHash("sha256")
      .update([...lines, ...dependencies].join("\n"))
      .digest("hex")
      .slice(0, 12);
    // Modules of dependencies are shared under their real paths: an upgrade must not meet the old ones.
    if (known !== undefined && known.dependencies !== dependencies.join("\n")) evictDependencies(tree);
    this.#hashes.set(tree.folder, { stamp: tree.stamp, dependencies: dependencies.join("\n"), hash });
    return hash;
  }

  async #copy(tree: PluginTree, hash: string, content: TreeContent): Promise<Copy> {
    const base = join(await this.#open(), `${basename(tree.folder)}-${hash}-${++this.#count}`);
    const folder = await linkDependencies(base, tree);
    const files = await content.read();
    for (const directory of new Set(tree.files.map(dirname))) await mkdir(join(folder, directory), { recursive: true });
    await forEachConcurrently({ workers: treeWorkers }, [...files], async ([file, bytes]) => {
      if (leavesFolder(file, bytes)) this.#resolveOutside();
      await writeFile(join(folder, file), bytes);
    });
    const copy = { base, folder, original: tree.folder, hash, files: tree.files, inUse: false };
    this.#copies.add(copy);
    return copy;
  }

  #open(): Promise<string> {
    this.#root ??= openRoot();
    return this.#root;
  }

  /** Once per process that needs it: Bun then calls back for every relative import upwards, also those of packages. */
  #resolveOutside(): void {
    if (this.#resolvesOutside) return;
    this.#resolvesOutside = true;
    resolveOutside(() => this.#copies);
  }
}

/** The files of a tree, read once, when they are first needed: for the hash, for a copy, or for both. */
class TreeContent {
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
  const content = new Map(files.map((file) => [file, Buffer.alloc(0)]));
  await forEachConcurrently({ workers: treeWorkers }, files, async (file) => {
    content.set(file, await readFile(join(folder, file)));
  });
  return content;
}

/** Links the `node_modules` of the folder itself and of every folder above it, in the same order. Returns the folder. */
async function linkDependencies(base: string, { folder, dependencies }: PluginTree): Promise<string> {
  let here = base;
  const above: string[] = [];
  for (let parent = dirname(folder); parent !== dirname(parent); parent = dirname(parent))
    if (existsSync(join(parent, "node_modules"))) above.unshift(parent);
  for (const [index, parent] of above.entries()) {
    await mkdir(here, { recursive: true });
    await symlink(join(parent, "node_modules"), join(here, "node_modules"));
    if (index < above.length - 1) here = join(here, String(index));
  }
  const copy = join(here, basename(folder));
  await mkdir(copy, { recursive: true });
  for (const dependency of dependencies) {
    await mkdir(dirname(join(copy, dependency)), { recursive: true });
    await symlink(join(folder, dependency), join(copy, dependency));
  }
  return copy;
}

/** Forgets every module of a copy by name: one whose evaluation failed is not listed, and Bun would keep the failure. */
function evict({ folder, files }: Copy): void {
  for (const file of files) delete require.cache[join(folder, file)];
}

function evictDependencies({ folder, dependencies }: PluginTree): void {
  for (const path of Object.keys(require.cache))
    if (dependencies.some((dependency) => path.startsWith(join(folder, dependency) + sep))) delete require.cache[path];
}

/**
 * A folder that only this user can read. `/dev/shm` serves containers whose root file system is read-only. Its empty
 * `node_modules` keeps Bun from downloading an import that is not installed, which it does for a file below no such folder
 * unless `--no-install` is given or bunfig.toml is in the working directory.
 */
async function openRoot(): Promise<string> {
  const problems: string[] = [];
  for (const place of [tmpdir(), "/dev/shm"]) {
    try {
      const root = await realpath(await mkdtemp(join(place, "cloud-controller-host-")));
      process.once("exit", () => rmSync(root, { recursive: true, force: true }));
      await mkdir(join(root, "node_modules"));
      return root;
    } catch (error) {
      problems.push(messageOf(error));
    }
  }
  throw new CodedError(
    "NoPrivateFolder",
    `no folder for private copies of plugins; make ${tmpdir()} writable, e.g. with an emptyDir, or set TMPDIR: ${problems.join("; ")}`,
  );
}
