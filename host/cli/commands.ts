import { type AnnotationHelp, CodedError, messageOf } from "cloud-controller-host/sdk";

import {
  type CommandName,
  commandNames,
  commandUsage,
  importForDevelopment,
  isCommand,
  wantsHelp,
} from "../config/help/commands.ts";
import { version } from "../config/help/help.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import { checkConfig, checkCredentials } from "./cloud-checks.ts";
import { loadCommandPlugins, readCommand, type Surroundings } from "./command.ts";
import { completion } from "./completion.ts";
import { consoleUsage, runConsole } from "./console.ts";
import { explainUsage, runExplain } from "./explain.ts";
import { flagNames, helpTopic } from "./help-topic.ts";
import { planUsage, runPlan } from "./plan.ts";
import { runPlugins } from "./plugins.ts";
import { printRoles } from "./rbac.ts";
import { printStatus } from "./status.ts";

/** Resolves to the text for stdout. Throws a `CodedError`. */
type Run = (argv: readonly string[], surroundings: Surroundings) => Promise<string>;

/** Commands that print a text; `console`, `explain`, `plan` and `sandbox` decide on their exit status. */
const commands: Readonly<Record<Exclude<CommandName, "console" | "explain" | "plan" | "sandbox">, Run>> = {
  async new(argv, { environment }) {
    const { createPlugin, newUsage } = await importForDevelopment("new", () => import("./new.ts"));
    return argv.length === 0 || wantsHelp(argv) ? newUsage : createPlugin(argv, process.cwd(), environment);
  },
  "check-config": (argv, surroundings) =>
    wantsHelp(argv) ? Promise.resolve(commandUsage("check-config")) : checkConfig(argv, surroundings),
  "check-credentials": (argv, surroundings) =>
    wantsHelp(argv) ? Promise.resolve(commandUsage("check-credentials")) : checkCredentials(argv, surroundings),
  plugins: runPlugins,
  status: (argv) => printStatus(argv),
  rbac: printRoles,
  version: (argv) => Promise.resolve(wantsHelp(argv) ? commandUsage("version") : `${version(false)}\n`),
  async help(argv, surroundings) {
    const [topic, ...rest] = argv;
    // A flag with a value, as in `help --plugin-dir=DIR`, is not a topic.
    if (topic === undefined || topic.includes("=")) return helpText(argv, surroundings);
    if (wantsHelp([topic])) return commandUsage("help");
    if (isCommand(topic)) return commandHelp(topic, surroundings);
    const { loadPlugins = loadCommandPlugins } = surroundings;
    let loading: ReturnType<typeof loadPlugins> | undefined;
    const loadOnce: typeof loadPlugins = (from) => (loading ??= loadPlugins(from));
    const text = await helpText(rest, { ...surroundings, loadPlugins: loadOnce });
    return helpTopic(text, topic, await annotationsOf(loadOnce(rest)));
  },
  async completion([shell = "", ...rest], surroundings) {
    if (wantsHelp([shell])) return commandUsage("completion");
    return completion(shell, commandNames, flagNames(await helpText(rest, surroundings)));
  },
};

async function commandHelp(name: CommandName, surroundings: Surroundings): Promise<string> {
  if (name === "sandbox")
    return (await importForDevelopment(name, () => import("../sandbox/command.ts"))).sandboxUsage();
  if (name === "plan") return planUsage;
  if (name === "console") return consoleUsage;
  if (name === "explain") return explainUsage;
  return commands[name](["--help"], surroundings);
}

/** The annotations of all clouds among the plugins. */
async function annotationsOf(loading: ReturnType<typeof loadCommandPlugins>): Promise<readonly AnnotationHelp[]> {
  const { loaded } = await loading;
  const clouds = loaded.ok ? loaded.plugins.clouds : [];
  return (await Promise.all(clouds.map(async (cloud) => cloud.annotations?.() ?? []))).flat();
}

/** The text of `--help`. Further flags may name plugin folders, whose flags it then includes. */
async function helpText(argv: readonly string[], surroundings: Surroundings): Promise<string> {
  let [text, problems] = ["", ""];
  const outcome = await readCommand([...argv, "--help"], {
    ...surroundings,
    stdout: (part) => void (text += part),
    stderr: (part) => void (problems += part),
  });
  if (!("status" in outcome) || outcome.status !== 0)
    throw new CodedError("InvalidFlags", problems.trim().replace(/^Error: /u, ""));
  surroundings.stderr(problems);
  return text;
}

/** Runs a command and resolves to the exit status. Never rejects. `sandbox` imports and runs that command. */
export async function runNamedCommand(
  name: string,
  argv: readonly string[],
  surroundings: Surroundings,
  sandbox?: (argv: readonly string[]) => Promise<number>,
): Promise<number> {
  const { stdout, stderr } = surroundings;
  try {
    if (name === "sandbox" && sandbox !== undefined) return await importForDevelopment(name, () => sandbox(argv));
    if (!isCommand(name) || name === "sandbox") throw unknownCommand(name);
    if (name === "plan") return await runPlan(argv, surroundings);
    if (name === "console") return await runConsole(argv, surroundings);
    if (name === "explain") return await runExplain(argv, surroundings);
    stdout(await commands[name](argv, surroundings));
    return 0;
  } catch (error) {
    stderr(`Error: ${messageOf(error)}\n`);
    return 1;
  }
}

const unknownCommand = (name: string): CodedError =>
  new CodedError(
    "InvalidArgument",
    `unknown command "${name}"${didYouMean(name, commandNames, "")}; the commands are ${commandNames.join(", ")}; ` +
      "without a command the host starts",
  );
