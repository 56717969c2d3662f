import { type FSWatcher, watch } from "node:fs";
import { realpath } from "node:fs/promises";
import { dirname, join } from "node:path";

import type { ConfigSource } from "../triggers/config-source.ts";
import { listTree } from "./plugin-tree.ts";

/**
 * The plugins under some folders, as one text: a line for each file with its size, time and inode, and one for each
 * installed dependency. Looking costs a `stat` per file and never reads one; the loader compares contents.
 */
export function pluginSource(directories: readonly string[]): ConfigSource {
  const watchers = new Map<string, FSWatcher>();
  let onHint: (() => void) | undefined;
  let folders: ReadonlySet<string> = new Set(directories);

  const drop = (folder: string): void => {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  };
  /** Watches each folder once, and no `node_modules`. */
  const rearm = (): void => {
    const hint = onHint;
    if (hint === undefined) return;
    for (const folder of watchers.keys()) if (!folders.has(folder)) drop(folder);
    for (const folder of folders) {
      if (watchers.has(folder)) continue;
      try {
        const watcher = watch(folder, { persistent: false }, (event) => {
          // A folder that was replaced is watched again under its name.
          if (event === "rename") drop(folder);
          hint();
        });
        watcher.on("error", () => drop(folder));
        watchers.set(folder, watcher);
      } catch {
        // The folder is missing: `read` reports that, and the next poll tries again.
      }
    }
  };

  return {
    description: `plugins under ${directories.join(", ")}`,
    async read() {
      const trees = await Promise.all(directories.map(listTree));
      const holding = trees.flatMap(({ folder, files }) => [
        folder,
        ...files.map((file) => dirname(join(folder, file))),
      ]);
      // A watcher stays with the folder that it was opened on, wherever a link leads later.
      folders = new Set(await Promise.all([...new Set(holding)].map((path) => realpath(path).catch(() => path))));
      rearm();
      return trees.map(({ stamp }) => stamp).join("\n");
    },
    watch(hint) {
      onHint = hint;
      rearm();
      return {
        rearm,
        close() {
          onHint = undefined;
          for (const folder of watchers.keys()) drop(folder);
        },
      };
    },
  };
}
