import { join } from "node:path";

import { ownPluginDirectory } from "../../host/cli/command.ts";
import { reference } from "../../host/config/help/help.ts";
import { loadPlugins } from "../../host/generation/plugins/load.ts";

/** The page that lists every flag. */
export const referencePath = join(import.meta.dir, "..", "..", "host", "config", "FLAGS.md");

/** What the page must say, by the table of flags and the plugins that come with the host. */
export async function flagsReference(): Promise<string> {
  const loaded = await loadPlugins([ownPluginDirectory]);
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  const { controllers, clouds } = loaded.plugins;
  const head =
    "# Flags\n\nMade from the table in `flags.ts` by `bun run reference`; a test fails when it is out of date.\n\n";
  return `${head}${reference({ controllers, clouds: clouds.map(({ name }) => name) }).trim()}\n`;
}

if (import.meta.main) await Bun.write(referencePath, await flagsReference());
