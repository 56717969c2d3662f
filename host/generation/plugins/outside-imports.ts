import { existsSync, readFileSync } from "node:fs";
import { dirname, join, sep } from "node:path";

import { plugin } from "bun";
import { CodedError } from "cloud-controller-host/sdk";

import { sourceFile } from "./plugin-tree.ts";
import { packageOf } from "./sealed-content.ts";

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
 * Refuses what the copy of a locked plugin imports by an absolute path outside of it. A relative path leads nowhere: what
 * is not part of the copy does not exist around it.
 */
export function refuseOutside(copies: () => Iterable<CopiedFolder>): void {
  plugin({
    name: "locked-plugins-stay-in-their-copy",
    setup(build) {
      build.onResolve({ filter: /^\// }, ({ path, importer }) => {
        const copy = [...copies()].find(({ base, sealed }) => sealed !== undefined && importer.startsWith(base + sep));
        if (copy === undefined || path.startsWith(copy.base + sep)) return undefined;
        throw new CodedError(
          "OutsideImport",
          `Cannot import ${path} from ${importer}: --plugin-lock does not cover it`,
        );
      });
    },
  });
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
  const extension = sourceFile.exec(file)?.[1];
  if (extension === undefined || seen.has(file) || hasDependencies(dirname(file))) return;
  seen.add(file);
  const scanner = new Bun.Transpiler({ loader: extension === "ts" || extension === "tsx" ? extension : "jsx" });
  for (const { path } of scanner.scanImports(readFileSync(file))) {
    if (/^\.{0,2}\//u.test(path)) refuseDownloads(Bun.resolveSync(path, dirname(file)), seen);
    else if (packageOf(path) !== undefined)
      throw new CodedError("PackageNotFound", `Cannot find package '${path}' imported from ${file}`);
  }
}

/** True for a folder with a `node_modules` in it or in one above it. */
const hasDependencies = (folder: string): boolean =>
  existsSync(join(folder, "node_modules")) || (folder !== dirname(folder) && hasDependencies(dirname(folder)));
