import { existsSync, readFileSync } from "node:fs";
import { dirname, isAbsolute, join, resolve, sep } from "node:path";

import { plugin } from "bun";
import { CodedError, createCooperativeYield } from "cloud-controller-host/sdk";

import { sourceFile } from "./plugin-tree.ts";
import { importsOf, packageOf, type SealedContent } from "./sealed-content.ts";

/** A copied folder and where it really is. */
export interface CopiedFolder {
  readonly folder: string;
  readonly original: string;
  /** Stands for the root of the file system: below it everything has the path that it has there. */
  readonly base: string;
  /** Hash in the lock; undefined for a plugin that is not locked. */
  readonly sealed: string | undefined;
}

/**
 * Refuses a path made at run time by which the copy of a locked plugin would import from outside of it: an absolute one
 * with an extension, without which Bun does not call back, or one that climbs to the root of the file system. Below that,
 * what is not part of the copy does not exist around it.
 */
export function refuseOutside(copies: () => Iterable<CopiedFolder>): void {
  plugin({
    name: "locked-plugins-stay-in-their-copy",
    setup(build) {
      build.onResolve({ filter: /^\/|(?:^|\/)\.\.\// }, ({ path, importer }) => {
        const copy = [...copies()].find(({ base, sealed }) => sealed !== undefined && importer.startsWith(base + sep));
        if (copy === undefined || resolve(dirname(importer), path).startsWith(copy.base + sep)) return undefined;
        throw outsideImport(path, importer);
      });
    },
  });
}

const outsideImport = (path: string, importer: string): CodedError =>
  new CodedError("OutsideImport", `Cannot import ${path} from ${importer}: --plugin-lock does not cover it`);

/**
 * Refuses the copy of a locked plugin whose sources, or the packages that they import, lead outside of it: by a path, or
 * because a package.json or a tsconfig.json redirects a name. Bun resolves most imports without a callback.
 */
export async function checkImports(base: string, folder: string, files: SealedContent["files"]): Promise<void> {
  const pending = new Set(files.keys().filter((file) => file.startsWith(folder + sep)));
  const pause = createCooperativeYield();
  // What is added meanwhile is visited, too.
  for (const file of pending) {
    await pause();
    for (const path of importsOf(file, files.get(file) ?? Buffer.alloc(0))) {
      const target = resolved(path, base + dirname(file));
      if (target === undefined) continue;
      if (!target.startsWith(base + sep)) throw outsideImport(path, file);
      pending.add(target.slice(base.length));
    }
  }
}

/** The file that an import leads to; undefined for a module of the runtime, for the SDK, and where there is none. */
function resolved(path: string, folder: string): string | undefined {
  try {
    const target = Bun.resolveSync(path, folder);
    return isAbsolute(target) ? target : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Resolves a relative import that leaves its plugin's folder from where the folder really is. The callback costs 0.2 s of
 * processor time for the thousands of imports of the Azure SDK.
 */
export function resolveOutside(copies: () => Iterable<CopiedFolder>): void {
  plugin({
    name: "plugins-outside-their-folder",
    setup(build) {
      build.onResolve({ filter: /(?:^|\/)\.\.\// }, ({ path, importer }) => {
        const copy = [...copies()].find(({ folder }) => importer.startsWith(folder + sep));
        if (copy === undefined || copy.sealed !== undefined) return undefined;
        const target = join(dirname(importer), path);
        if (target.startsWith(copy.folder + sep)) return undefined;
        const outside = Bun.resolveSync(path, dirname(importer.replace(copy.folder, copy.original)));
        refuseDownloads(outside, new Set());
        return { path: outside };
      });
    },
  });
}

/**
 * Throws for a package that a file, or one that it imports by path, imports and that Bun would download: no folder above
 * has a `node_modules`. Bun resolves such imports without a callback.
 */
function refuseDownloads(file: string, seen: Set<string>): void {
  if (!sourceFile.test(file) || seen.has(file) || hasDependencies(dirname(file))) return;
  seen.add(file);
  for (const path of importsOf(file, readFileSync(file))) {
    if (/^\.{0,2}\//u.test(path)) refuseDownloads(Bun.resolveSync(path, dirname(file)), seen);
    else if (packageOf(path) !== undefined)
      throw new CodedError("PackageNotFound", `Cannot find package '${path}' imported from ${file}`);
  }
}

/** True for a folder with a `node_modules` in it or in one above it. */
const hasDependencies = (folder: string): boolean =>
  existsSync(join(folder, "node_modules")) || (folder !== dirname(folder) && hasDependencies(dirname(folder)));
