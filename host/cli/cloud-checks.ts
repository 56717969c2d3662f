import { type AccessResult, type CloudPlugin, CodedError, type Decoded, messageOf } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { commandUsage, wantsHelp } from "../config/help/commands.ts";
import { readNamedFile } from "../config/parse/document.ts";
import { parse } from "../config/parse/parse.ts";
import { formatProblems } from "../config/validate/validate.ts";
import { type CloudConfig, parseCloudConfig } from "../generation/triggers/cloud-config.ts";
import { createLogger } from "../process/log/log.ts";
import { loadCommandPlugins, type Surroundings } from "./command.ts";

const credentialsLimitMs = 120_000;

interface CheckedConfig {
  readonly cloud: CloudPlugin;
  readonly config: CloudConfig;
  /** `--cloud-config=<path>`, the start of every line. */
  readonly source: string;
}

/** `check-config`: decodes a cloud config without a cluster or a cloud. All flags of a run are accepted. */
export async function checkConfig(argv: readonly string[], surroundings: Surroundings): Promise<string> {
  const checked = await readConfig(argv, surroundings);
  decoded(checked, checked.cloud.bind(checked.config.document, surroundings.environment), surroundings);
  return `${checked.source}: valid\n`;
}

/** `check-credentials`: one line per read and permission; rejects unless all are allowed. */
export async function checkCredentials(argv: readonly string[], surroundings: Surroundings): Promise<string> {
  const checked = await readConfig(argv, surroundings);
  const { cloud, config } = checked;
  const check = decoded(checked, cloud.bindAccessCheck(config.document, surroundings.environment), surroundings);
  if (check === undefined)
    throw new CodedError("CheckNotFound", `cloud "${cloud.name}" has no check of its credentials`);
  const log = createLogger({ format: "text", verbosity: 0, write: (line) => surroundings.stderr(line) });
  const results = await check({ clock: systemClock, log, signal: AbortSignal.timeout(credentialsLimitMs) });
  const text = results.map((result) => `${lineOf(result)}\n`).join("");
  const refused = results.filter(({ outcome }) => outcome !== "allowed").length;
  if (refused === 0) return text;
  surroundings.stdout(text);
  throw new CodedError("AccessDenied", `${refused} of ${results.length} checks are not allowed`);
}

const checks = { "check-config": checkConfig, "check-credentials": checkCredentials } as const;

/** Runs a check by its name and resolves to the exit status; undefined for another command. Never rejects. */
export async function runCloudCheck(
  name: string,
  argv: readonly string[],
  surroundings: Surroundings,
): Promise<number | undefined> {
  if (name !== "check-config" && name !== "check-credentials") return undefined;
  try {
    surroundings.stdout(wantsHelp(argv) ? commandUsage(name) : await checks[name](argv, surroundings));
    return 0;
  } catch (error) {
    surroundings.stderr(`Error: ${messageOf(error)}\n`);
    return 1;
  }
}

async function readConfig(argv: readonly string[], surroundings: Surroundings): Promise<CheckedConfig> {
  const { loaded } = await loadCommandPlugins(argv);
  if (!loaded.ok) throw refused(loaded.problems);
  const { clouds, controllers } = loaded.plugins;
  const leftOut = loaded.plugins.refused.map(({ reason }) => `left out: ${reason}`);
  warn(surroundings, leftOut);
  const command = parse(argv, controllers, { incomplete: leftOut.length > 0 });
  if (command.kind === "refused") throw refused(command.problems);
  if (command.kind !== "run") throw refused(["--version belongs to a command line without a check"]);
  const { cloudConfig: path, cloudProvider } = command.options;
  const cloud = clouds.find(({ name }) => name === cloudProvider);
  if (cloud === undefined) throw refused([`--cloud-provider: unknown cloud "${cloudProvider}"`]);
  if (path === "") throw refused(["--cloud-config is required"]);
  const source = `--cloud-config=${path}`;
  const parsed = parseCloudConfig(await readNamedFile(source, path), source);
  if (!parsed.ok) throw refused(parsed.problems);
  warn(surroundings, parsed.warnings);
  return { cloud, config: parsed.value, source };
}

/** The decoded value; prints warnings, and throws all problems. */
function decoded<Value>({ source }: CheckedConfig, bound: Decoded<Value>, surroundings: Surroundings): Value {
  const named = (text: string): string => `${source}: ${text}`;
  warn(surroundings, (bound.warnings ?? []).map(named));
  if (!bound.ok) throw refused(bound.problems.map(named));
  return bound.value;
}

const refused = (problems: readonly string[]): CodedError => new CodedError("CheckFailed", formatProblems(problems));

const warn = ({ stderr }: Surroundings, warnings: readonly string[]): void =>
  stderr(warnings.map((warning) => `Warning: ${warning}\n`).join(""));

const lineOf = ({ subject, outcome, detail }: AccessResult): string =>
  `${outcome.padEnd(7)}  ${subject}${detail === undefined ? "" : `: ${detail}`}`;
