import { createHash } from "node:crypto";
import { mkdir, rm, stat, symlink } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";

import { type Clock, CodedError, errorChain, forEachConcurrently } from "cloud-controller-host/sdk";

import type { ErrorOrigin } from "../scope/scope.ts";
import { type CopiesFolder, openCopiesFolder } from "./copies-folder.ts";
import { linkDependencies, TreeContent, writeAll } from "./copy-files.ts";
import { checkImports, type CopiedFolder, refuseOutside, resolveOutside } from "./outside-imports.ts";
import { leavesFolder, listTree, type PluginTree, treeWorkers } from "./plugin-tree.ts";
import { readSealed, type SealedContent } from "./sealed-content.ts";

/** Copies of the same content that are kept for the next load. Importing from a path again costs no memory. */
const sparePerFolder = 2;
/** Between two looks at a folder that changes while it is copied, and how often that is tried. */
const settleMs = 250;
const maxAttempts = 20;

/** A plugin folder as it was at one moment, in a private directory. Its modules are evaluated again for each holder. */
export interface PrivateCopy {
  /** Path of the copy. */
  readonly folder: string;
  /** The folder that was copied. */
  readonly original: string;
  /** Hash of all content and of the versions of installed dependencies. */
  readonly hash: string;
  /** Gives the copy back. `failed`: modules that failed to load stay known to Bun by path, so it is not used again. */
  release(failed?: boolean): Promise<void>;
}

interface Copy extends CopiedFolder {
  readonly hash: string;
  /** Paths of the files in the copy. */
  readonly files: readonly string[];
  /** Changes with each write to one of the files. */
  readonly stamp: string;
  inUse: boolean;
}

/**
 * Copies of plugin folders, so that a generation never sees files that changed after it was loaded, lazily imported ones
 * included. Dependencies in `node_modules` are linked, not copied; what a plugin imports from outside its folder is
 * imported from where it is. Both are shared by all generations. The copy of a locked plugin holds its dependencies as
 * well, and it imports nothing else.
 */
export class PrivateCopies implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #copies = new Set<Copy>();
  /** Content hashes by folder, valid while the stamp is the same. */
  readonly #hashes = new Map<
    string,
    { readonly stamp: string; readonly dependencies: string; readonly hash: string }
  >();
  #root: Promise<CopiesFolder> | undefined;
  #count = 0;
  #resolvesOutside = false;
  #refusesOutside = false;

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
      const spare = await this.#spare(tree, hash, undefined);
      if (spare !== undefined) return this.#held(spare);
      const copy = await this.#copy(tree, hash, undefined, (base) => this.#fill(base, tree, content));
      if ((await listTree(folder)).stamp === tree.stamp) return this.#held(copy);
      await this.#remove(copy);
    }
    throw new CodedError("PluginUnreadable", `${folder} keeps changing while it is read; load it when it is complete`);
  }

  /** A copy of the plugin that a lock names, made from the bytes that were hashed; undefined when it differs. */
  async takeSealed(folder: string, sha256: string): Promise<PrivateCopy | undefined> {
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      if (attempt > 0) await this.#clock.sleep(settleMs);
      const tree = await listTree(folder);
      const sealed = await readSealed(tree);
      if (sealed.sha256 === sha256) {
        const hash = await this.#hashOf(tree, new TreeContent(tree));
        const spare = await this.#spare(tree, hash, sha256);
        return this.#held(spare ?? (await this.#copy(tree, hash, sha256, (base) => this.#seal(base, tree, sealed))));
      }
      if ((await listTree(folder)).stamp === tree.stamp) return undefined;
    }
    return undefined;
  }

  /** The original path behind a path in a copy, as in stack traces; other text is returned as it is. */
  restorePaths(text: string): string {
    let restored = text;
    for (const { base } of this.#copies) restored = restored.replaceAll(base + sep, sep);
    return restored;
  }

  /** Folder name of the first plugin that a stack trace passes through. */
  pluginIn(stack: string): string | undefined {
    for (const line of stack.split("\n"))
      for (const { base, original } of this.#copies) if (line.includes(base + sep)) return basename(original);
    return undefined;
  }

  /** The class of a plugin's error and the first line of the plugin in its stack, or in that of a cause. */
  locate(error: unknown): ErrorOrigin {
    for (const each of errorChain(error)) {
      const frame = each instanceof CodedError ? undefined : this.#frameIn(each.stack ?? "");
      if (frame !== undefined) return { class: each.name, at: frame };
    }
    return {};
  }

  #frameIn(stack: string): string | undefined {
    const own = stack.split("\n").find((line) =>
      [...this.#copies].some(({ folder }) => {
        const [, path] = line.split(folder + sep, 2);
        return path !== undefined && !path.includes(`node_modules${sep}`);
      }),
    );
    const [frame] = /\/[^()]*:\d+:\d+/u.exec(own ?? "") ?? [];
    return frame === undefined ? undefined : this.restorePaths(frame);
  }

  /** Removes every copy. */
  async [Symbol.asyncDispose](): Promise<void> {
    const root = this.#root;
    this.#root = undefined;
    for (const copy of this.#copies) evict(copy);
    if (root !== undefined) await (await root)[Symbol.asyncDispose]();
  }

  /** A copy that nothing uses and that is as it was written: a plugin may write to its own files. */
  async #spare({ folder }: PluginTree, hash: string, sealed: string | undefined): Promise<Copy | undefined> {
    for (const copy of this.#copies) {
      if (copy.inUse || copy.original !== folder || copy.hash !== hash || copy.sealed !== sealed) continue;
      copy.inUse = true;
      if ((await stampOf(copy.files)) === copy.stamp) return copy;
      await this.#remove(copy);
    }
    return undefined;
  }

  #held(copy: Copy): PrivateCopy {
    const { folder, original, hash } = copy;
    let isHeld = true;
    const release = async (failed = false): Promise<void> => {
      if (!isHeld) return;
      isHeld = false;
      await this.#release(copy, failed);
    };
    return { folder, original, hash, release };
  }

  async #release(copy: Copy, failed: boolean): Promise<void> {
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
    // Modules of dependencies are shared under their real paths: an upgrade must not load the old ones.
    if (known !== undefined && known.dependencies !== dependencies.join("\n")) evictDependencies(tree);
    this.#hashes.set(tree.folder, { stamp: tree.stamp, dependencies: dependencies.join("\n"), hash });
    return hash;
  }

  /** Content that does not match is removed at once. `fill` resolves with the paths of the files. */
  async #copy(
    { folder }: PluginTree,
    hash: string,
    sealed: string | undefined,
    fill: (base: string) => Promise<readonly string[]>,
  ): Promise<Copy> {
    const root = await this.#open();
    const base = join(root.path, `${basename(folder)}-${hash}-${++this.#count}`);
    try {
      const files = await fill(base);
      const stamp = await stampOf(files);
      const copy = { base, folder: base + folder, original: folder, hash, sealed, files, stamp, inUse: true };
      this.#copies.add(copy);
      return copy;
    } catch (error) {
      await rm(base, { recursive: true, force: true });
      throw error;
    }
  }

  async #fill(base: string, tree: PluginTree, content: TreeContent): Promise<readonly string[]> {
    const files = await content.read();
    await linkDependencies(base, tree);
    if ([...files].some(([file, bytes]) => leavesFolder(file, bytes))) this.#resolveOutside();
    return writeAll([...files].map(([file, bytes]) => [base + join(tree.folder, file), bytes]));
  }

  async #seal(base: string, { folder }: PluginTree, { files, links }: SealedContent): Promise<readonly string[]> {
    this.#refuseOutside();
    const written = await writeAll([...files].map(([path, bytes]) => [base + path, bytes]));
    for (const [path, target] of links) {
      await mkdir(dirname(base + path), { recursive: true });
      await symlink(base + target, base + path);
    }
    await checkImports(base, folder, files);
    return written;
  }

  async #open(): Promise<CopiesFolder> {
    try {
      return await (this.#root ??= openCopiesFolder());
    } catch (error) {
      this.#root = undefined;
      throw error;
    }
  }

  /** Once per process that needs it: Bun then calls back for every relative import upwards, also those of packages. */
  #resolveOutside(): void {
    if (this.#resolvesOutside) return;
    this.#resolvesOutside = true;
    resolveOutside(() => this.#copies);
  }

  #refuseOutside(): void {
    if (this.#refusesOutside) return;
    this.#refusesOutside = true;
    refuseOutside(() => this.#copies);
  }
}

/** By times that a writer cannot set. */
async function stampOf(files: readonly string[]): Promise<string> {
  const stamps = new Map<string, string>();
  await forEachConcurrently({ workers: treeWorkers }, files, async (file) => {
    const status = await stat(file).catch(() => undefined);
    stamps.set(file, `${status?.ino} ${status?.ctimeMs}`);
  });
  return files.map((file) => stamps.get(file)).join("\n");
}

/** Forgets every module of a copy by name: one whose evaluation failed is not listed, and Bun would keep the failure. */
function evict({ files }: Copy): void {
  for (const file of files) delete require.cache[file];
}

function evictDependencies({ folder, dependencies }: PluginTree): void {
  for (const path of Object.keys(require.cache))
    if (dependencies.some((dependency) => path.startsWith(join(folder, dependency) + sep))) delete require.cache[path];
}
