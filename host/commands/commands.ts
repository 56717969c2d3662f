import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { checkConfig, checkCredentials } from "../cloud-checks.ts";
import { readCommand, type Surroundings } from "../command.ts";
import { version } from "../config/help.ts";
import { didYouMean } from "../config/suggestion.ts";
import { completion } from "./completion.ts";
import { flagNames, helpTopic } from "./help-topic.ts";
import { createPlugin, newUsage } from "./new.ts";
import { runPlugins } from "./plugins.ts";
import { printRoles } from "./rbac.ts";

interface Command {
  readonly summary: string;
  /** Resolves to the text for stdout. Throws a `CodedError`. */
  run(argv: readonly string[], surroundings: Surroundings): Promise<string>;
}

/** Commands other than the host itself and the sandbox. */
const commands: Readonly<Record<string, Command>> = {
  new: {
    summary: "writes the folder of a new plugin",
    run: (argv) =>
      argv.length === 0 || argv.includes("--help") ? Promise.resolve(newUsage) : createPlugin(argv, process.cwd()),
  },
  "check-config": {
    summary: "prints all problems and warnings of the file in --cloud-config, without a cluster",
    run: checkConfig,
  },
  "check-credentials": {
    summary: "checks the credentials in --cloud-config: a token, reads, and each permission",
    run: checkCredentials,
  },
  plugins: {
    summary: "lists plugins, and locks and verifies third-party ones",
    run: runPlugins,
  },
  rbac: {
    summary: "prints the roles and webhook configurations for these flags and their plugins",
    run: printRoles,
  },
  version: {
    summary: "prints the version",
    run: () => Promise.resolve(`${version(false)}\n`),
  },
  help: {
    summary: "prints all flags, a group of flags or one flag",
    async run([topic, ...rest], surroundings) {
      const text = await helpText(rest, surroundings);
      return topic === undefined ? `${text}\nCommands:\n${summaries()}` : helpTopic(text, topic);
    },
  },
  completion: {
    summary: "prints the completion script for bash, zsh or fish",
    async run([shell = "", ...rest], surroundings) {
      return completion(shell, commandNames, flagNames(await helpText(rest, surroundings)));
    },
  },
};

const summaries = (): string =>
  [
    ["sandbox", "runs locally; see sandbox --help"],
    ...Object.entries(commands).map(([name, { summary }]) => [name, summary]),
  ]
    .map(([name = "", summary = ""]) => `  ${name.padEnd(17)} ${summary}\n`)
    .join("");

/** The text of `--help`. Further flags may name plugin folders, whose flags it then includes. */
async function helpText(argv: readonly string[], surroundings: Surroundings): Promise<string> {
  let text = "";
  const append = (part: string): void => void (text += part);
  const outcome = await readCommand([...argv, "--help"], { ...surroundings, stdout: append, stderr: append });
  if ("status" in outcome && outcome.status === 0) return text;
  throw new CodedError("InvalidFlags", text.trim().replace(/^Error: /u, ""));
}

/** All commands, for completion and for suggestions. */
const commandNames = ["sandbox", ...Object.keys(commands)];

/** Runs a command and resolves to the exit status. Never rejects. */
export async function runNamedCommand(
  name: string,
  argv: readonly string[],
  surroundings: Surroundings,
): Promise<number> {
  const { stdout, stderr } = surroundings;
  try {
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
    if (command === undefined) throw unknownCommand(name);
    stdout(await command.run(argv, surroundings));
    return 0;
  } catch (error) {
    stderr(`Error: ${messageOf(error)}\n`);
    return 1;
  }
}

const unknownCommand = (name: string): CodedError =>
  new CodedError(
    "UnknownCommand",
    `unknown command "${name}"${didYouMean(name, commandNames, "")}; the commands are ${commandNames.join(", ")}; ` +
      "without a command the host starts",
  );
