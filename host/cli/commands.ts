import { CodedError, messageOf, visible } from "cloud-controller-host/sdk";

import {
  type CommandName,
  commandNames,
  commandUsage,
  importForDevelopment,
  isCommand,
  wantsHelp,
} from "../config/help/commands.ts";
import { version } from "../config/help/help.ts";
import { wrapUsage } from "../config/help/wrap.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import { checkConfig, checkCredentials } from "./cloud-checks.ts";
import { loadCommandPlugins, readCommand, type Surroundings } from "./command.ts";
import { completion, completionUsage } from "./completion.ts";
import { configKeys } from "./config-keys.ts";
import { consoleUsage, runConsole } from "./console.ts";
import { explainUsage, runExplain } from "./explain.ts";
import { type CloudTopics, flagNames, helpTopic } from "./help-topic.ts";
import { planUsage, runPlan } from "./plan.ts";
import { pluginsUsage, runPlugins } from "./plugins.ts";
import { printRoles, rbacUsage } from "./rbac.ts";
import { printStatus, statusUsage } from "./status.ts";

/** Resolves to the text for stdout. Throws a `CodedError`. */
type Run = (argv: readonly string[], surroundings: Surroundings) => Promise<string>;

/** Commands that print a text; `console`, `explain`, `plan` and `sandbox` decide on their exit status. */
const commands: Readonly<Record<Exclude<CommandName, "console" | "explain" | "plan" | "sandbox">, Run>> = {
  async new(argv, { environment, loadPlugins = loadCommandPlugins }) {
    const { createPlugin, newUsage } = await importForDevelopment("new", () => import("./new.ts"));
    if (argv.length === 0) return newUsage;
    return createPlugin(argv, process.cwd(), environment, namesOf(await loadPlugins([])));
  },
  "check-config": checkConfig,
  "check-credentials": checkCredentials,
  plugins: runPlugins,
  status: printStatus,
  rbac: printRoles,
  async version([unexpected]) {
    if (unexpected === undefined) return `${version(false)}\n`;
    throw new CodedError("InvalidArgument", `version: unexpected argument "${unexpected}"`);
  },
  async help(argv, surroundings) {
    const [topic, ...rest] = argv;
    // A flag with a value, as in `help --plugin-dir=DIR`, is not a topic.
    if (topic === undefined || topic.includes("=")) return helpText(argv, surroundings);
    if (isCommand(topic)) return commandHelp(topic, surroundings);
    const { loadPlugins = loadCommandPlugins } = surroundings;
    let loading: ReturnType<typeof loadPlugins> | undefined;
    const loadOnce: typeof loadPlugins = (from) => (loading ??= loadPlugins(from));
    const text = await helpText(rest, { ...surroundings, loadPlugins: loadOnce });
    return helpTopic(text, topic, await cloudTopics(loadOnce(rest)));
  },
  async completion([shell = "", ...rest], surroundings) {
    return completion(shell, commandNames, flagNames(await helpText(rest, surroundings)));
  },
};

/** Help texts of commands with more than their row in the table. */
const usages: Readonly<Partial<Record<CommandName, string>>> = {
  completion: completionUsage,
  console: consoleUsage,
  explain: explainUsage,
  plan: planUsage,
  plugins: pluginsUsage,
  rbac: rbacUsage,
  status: statusUsage,
};

async function commandHelp(name: CommandName, { width }: Surroundings): Promise<string> {
  if (name === "sandbox")
    return (await importForDevelopment(name, () => import("../sandbox/command.ts"))).sandboxUsage();
  if (name === "new") return wrapUsage((await importForDevelopment(name, () => import("./new.ts"))).newUsage, width);
  return wrapUsage(usages[name] ?? commandUsage(name), width);
}

/** The later arguments of these are flags of the host. */
const asksForHelp = (name: CommandName, argv: readonly string[]): boolean =>
  wantsHelp(name === "help" || name === "completion" ? argv.slice(0, 1) : argv);

/** Names and aliases of all plugins. */
const namesOf = ({ loaded }: Awaited<ReturnType<typeof loadCommandPlugins>>): readonly string[] =>
  loaded.ok
    ? [
        ...loaded.plugins.controllers.flatMap(({ name, aliases }) => [name, ...aliases]),
        ...loaded.plugins.clouds.map(({ name }) => name),
        ...loaded.plugins.webhooks.map(({ name }) => name),
      ]
    : [];

/** The annotations and config keys of all clouds among the plugins. */
async function cloudTopics(loading: ReturnType<typeof loadCommandPlugins>): Promise<CloudTopics> {
  const { loaded } = await loading;
  const clouds = loaded.ok ? loaded.plugins.clouds : [];
  return {
    annotations: (await Promise.all(clouds.map(async (cloud) => cloud.annotations?.() ?? []))).flat(),
    keys: clouds.flatMap(({ configSchema }) => configKeys(configSchema)),
  };
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
  own: Surroundings,
  sandbox?: (argv: readonly string[]) => Promise<number>,
): Promise<number> {
  // Errors quote bundles, objects and replies, whose control characters must not reach a terminal.
  const surroundings: Surroundings = { ...own, stderr: (text) => own.stderr(visible(text)) };
  const { stdout, stderr } = surroundings;
  try {
    if (name === "sandbox" && sandbox !== undefined) return await importForDevelopment(name, () => sandbox(argv));
    if (!isCommand(name) || name === "sandbox") throw unknownCommand(name);
    if (asksForHelp(name, argv)) {
      stdout(await commandHelp(name, surroundings));
      return 0;
    }
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
