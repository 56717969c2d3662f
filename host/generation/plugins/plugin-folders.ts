import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";

export interface PluginFolder {
  readonly folder: string;
  /** The name of the file to import. */
  readonly entry: string;
  readonly thirdParty: boolean;
}

/** The plugins below some folders: the first one comes with the host, further ones are third-party. Imports nothing. */
export async function findPlugins(
  directories: readonly string[],
): Promise<{ readonly found: readonly PluginFolder[]; readonly problems: string[] }> {
  const problems: string[] = [];
  const found: PluginFolder[] = [];
  for (const [index, directory] of directories.entries()) {
    try {
      for (const name of (await readdir(directory)).toSorted()) {
        const folder = join(directory, name);
        const entry = await entryOf(folder);
        if (entry !== undefined) found.push({ folder, entry, thirdParty: index > 0 });
      }
    } catch (error) {
      problems.push(
        `--plugin-dir=${directory}: the folder cannot be read (${messageOf(error)}); name a folder of plugin folders`,
      );
    }
  }
  return { found, problems };
}

async function entryOf(folder: string): Promise<string | undefined> {
  for (const name of ["plugin.ts", "plugin.js"]) {
    const status = await stat(join(folder, name)).catch(() => undefined);
    if (status?.isFile() === true) return name;
  }
  return undefined;
}
