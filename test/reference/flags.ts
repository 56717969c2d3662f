import { ownPluginDirectory } from "../../host/cli/command.ts";
import { reference } from "../../host/config/help/help.ts";
import { loadPlugins } from "../../host/generation/plugins/load.ts";
import { heading } from "./markdown.ts";

/** Every flag, by the table of flags and the plugins that come with the host. */
export async function flags(): Promise<string> {
  const loaded = await loadPlugins([ownPluginDirectory]);
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  const { controllers, clouds } = loaded.plugins;
  const text = reference({ controllers, clouds: clouds.map(({ name }) => name) });
  return `${heading("Flags", "the table in `flags/flags.ts`")}\n${text.trim()}\n`;
}
