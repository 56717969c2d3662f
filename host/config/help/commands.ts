import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { programName } from "../parse/parse.ts";

interface CommandRow {
  readonly arguments: string;
  readonly summary: string;
}

/** The commands besides the host itself: the source of `--help`, `help COMMAND`, completion and suggestions. */
const commandTable = {
  sandbox: { arguments: "[options]", summary: "Runs an API server, a simulated cloud and a host" },
  new: { arguments: "controller|cloud|webhook NAME", summary: "Writes the folder of a new plugin" },
  "check-config": { arguments: "--cloud-config=FILE [flags]", summary: "Prints every problem of a cloud config" },
  "check-credentials": {
    arguments: "--cloud-config=FILE [flags]",
    summary: "Requests a token, reads resources and checks each permission",
  },
  console: {
    arguments: "[--kubeconfig=FILE] [options]",
    summary: "Opens the console of the host that leads in a browser, with your own credentials",
  },
  explain: {
    arguments: "service NAMESPACE/NAME|node NAME [flags]",
    summary: "Prints what an object has in the cloud, why, and what a host would change about it",
  },
  plan: {
    arguments: "[options] [flags]",
    summary: "Prints what a host with these flags would write, and writes nothing",
  },
  plugins: { arguments: "list|lock|verify [flags]", summary: "Lists plugins; locks and verifies third-party ones" },
  rbac: { arguments: "[flags]", summary: "Prints the roles and webhook configurations for these flags" },
  status: {
    arguments: "[--kubeconfig=FILE] [options]",
    summary: "Prints who leads, and which Services each shard serves",
  },
  version: { arguments: "", summary: "Prints the version" },
  help: {
    arguments: "[COMMAND|GROUP|FLAG|config|KEY|annotations|ANNOTATION|errors|CODE]",
    summary: "Explains a command, flags, keys of the cloud config, annotations or error codes",
  },
  completion: { arguments: "bash|zsh|fish", summary: "Prints a completion script" },
} as const satisfies Readonly<Record<string, CommandRow>>;

export type CommandName = keyof typeof commandTable;

export const commandNames: readonly string[] = Object.keys(commandTable);

export const isCommand = (name: string): name is CommandName => Object.hasOwn(commandTable, name);

export const commandSummaries: ReadonlyMap<string, string> = new Map(
  Object.entries(commandTable).map(([name, { summary }]) => [name, summary]),
);

/** The help text of a command without a page of its own. */
export function commandUsage(name: CommandName): string {
  const row: CommandRow = commandTable[name];
  return `Usage: ${`${programName} ${name} ${row.arguments}`.trimEnd()}\n\n${row.summary}.\n`;
}

/** True when the arguments of a command ask for its help text; a boolean flag may have a value, as in Go. */
export const wantsHelp = (argv: readonly string[]): boolean =>
  argv.some((argument) => /^(?:--help|-h)(?:=(?:1|t|true))?$/iu.test(argument));

/** Imports a command for development. The image has no file of it, and this then rejects with the reason. */
export async function importForDevelopment<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    // A package that is missing is another problem: ours are imported by path.
    if (!/^Cannot find module '\.{1,2}\//u.test(messageOf(cause))) throw cause;
    throw new CodedError("CommandNotInImage", `${name}: the image does not have this command; run it from a clone`);
  }
}
