import type { PluginWithFlags } from "../../../host/config/flags/plugin-flags.ts";
import { type CommandLine, parse } from "../../../host/config/parse/parse.ts";

export type Run = Extract<CommandLine, { kind: "run" }>;

/** Reads a command line that is expected to be good. */
export function run(
  argv: readonly string[],
  plugins: readonly PluginWithFlags[] = [],
  more: { readonly incomplete?: boolean } = {},
): Run {
  const command = parse(argv, plugins, more);
  if (command.kind !== "run") throw new Error(`the command line is not one to run: ${JSON.stringify(command)}`);
  return command;
}

/** The problems of a command line that is expected to be refused. */
export function problemsOf(argv: readonly string[], plugins: readonly PluginWithFlags[] = []): readonly string[] {
  const command = parse(argv, plugins);
  if (command.kind !== "refused") throw new Error(`the command line is not refused: ${command.kind}`);
  return command.problems;
}
