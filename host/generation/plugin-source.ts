import { createHash } from "node:crypto";
import { type FSWatcher, watch } from "node:fs";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { join } from "node:path";

import type { ConfigSource } from "./config-source.ts";

/**
 * The sources of all plugins under some folders, as one content: a line with a hash for each file. Dependencies in a
 * `node_modules` count as much as a plugin's own files, since an import brings them in as well.
 */
export function pluginSource(directories: readonly string[]): ConfigSource {
  return {
    description: `plugins under ${directories.join(", ")}`,
    async read() {
      const lists = await Promise.all(directories.map((directory) => filesUnder(directory)));
      const lines = await Promise.all(lists.flat().map(async (path) => `${path} ${await hashOfFile(path)}`));
      return lines.toSorted().join("\n");
    },
    watch(hint) {
      const watchers: FSWatcher[] = [];
      const close = (): void => {
        for (const watcher of watchers.splice(0)) watcher.close();
      };
      const rearm = (): void => {
        close();
        for (const directory of directories) {
          try {
            const watcher = watch(directory, { persistent: false, recursive: true }, hint);
            watcher.on("error", () => watcher.close());
            watchers.push(watcher);
          } catch {
            // The folder is not there now: the look that follows each rearm tells so, and the next one tries again.
          }
        }
      };
      rearm();
      return { close, rearm };
    },
  };
}

/**
 * The files under a folder. Links are followed, as the loader follows them; what begins with two dots is how a mounted
 * volume keeps its versions, and is met again through its links. `above` are the folders on the way here.
 */
async function filesUnder(directory: string, above: readonly string[] = []): Promise<readonly string[]> {
  const here = await realpath(directory);
  if (above.includes(here)) return [];
  const entries = (await readdir(directory, { withFileTypes: true })).filter(({ name }) => !name.startsWith(".."));
  const files = await Promise.all(
    entries.map(async (entry) => {
      const path = join(directory, entry.name);
      const kind = entry.isSymbolicLink() ? await stat(path).catch(() => undefined) : entry;
      if (kind?.isDirectory() === true) return filesUnder(path, [...above, here]);
      return kind?.isFile() === true ? [path] : [];
    }),
  );
  return files.flat();
}

async function hashOfFile(path: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(path))
    .digest("hex");
}
