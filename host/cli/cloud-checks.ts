import { type AccessResult, type CloudPlugin, CodedError, type Decoded, messageOf } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { readNamedFile } from "../config/parse/document.ts";
import { parse } from "../config/parse/parse.ts";
import { formatProblems, validateEach } from "../config/validate/validate.ts";
import { type CloudConfig, parseCloudConfig } from "../generation/triggers/cloud-config.ts";
import { createLogger } from "../process/log/log.ts";
import { loadCommandPlugins, type Surroundings } from "./command.ts";

const credentialsLimitMs = 120_000;

interface CheckedConfig {
  readonly cloud: CloudPlugin;
  readonly config: CloudConfig;
  /** `--cloud-config=<path>`, the start of every line. */
  readonly source: string;
  /** Of the flags, and of the host's own keys in the file. */
  readonly problems: readonly string[];
}

/** `check-config`: decodes a cloud config without a cluster or a cloud. All flags of a run are accepted. */
export async function checkConfig(argv: readonly string[], surroundings: Surroundings): Promise<string> {
  const checked = await readConfig(argv, surroundings);
  decoded(checked, checked.cloud.bind(checked.config.document, surroundings.environment), surroundings);
  return `${checked.source}: valid\n`;
}

/** `check-credentials`: one line per read and permission, and per problem; rejects with a summary unless all are allowed. */
export async function checkCredentials(argv: readonly string[], surroundings: Surroundings): Promise<string> {
  const checked = await readConfig(argv, surroundings);
  const { cloud, config } = checked;
  const check = decoded(checked, cloud.bindAccessCheck(config.document, surroundings.environment), surroundings);
  if (check === undefined)
    throw new CodedError("CheckNotFound", `cloud "${cloud.name}" has no check of its credentials`);
  const log = createLogger({ format: "text", verbosity: 0, write: (line) => surroundings.stderr(line) });
  const results = await check({ clock: systemClock, log, signal: AbortSignal.timeout(credentialsLimitMs) });
  const problems = results.filter(({ outcome }) => outcome !== "allowed");
  const text = collapsed(results)
    .map((line) => `${line}\n`)
    .join("");
  if (problems.length === 0) return text;
  surroundings.stdout(text);
  throw new CodedError("AccessDenied", summaryOf(problems, results.length));
}

/** One line per result; results with the same cause share a line. */
const collapsed = (results: readonly AccessResult[]): readonly string[] =>
  [...Map.groupBy(results, ({ subject, cause = subject }) => cause)].map(([, [first, ...others]]) =>
    first === undefined ? "" : `${first.outcome.padEnd(7)}  ${textOf(first, others.length)}`,
  );

/** Each cause once, with the first read or permission that it is about, and the number of checks that failed. */
function summaryOf(problems: readonly AccessResult[], checks: number): string {
  const causes = Map.groupBy(problems, ({ subject, detail = subject, cause = detail }) => cause);
  const texts = [...causes].map(([cause, [first, ...others]]) =>
    first === undefined || first.detail === undefined
      ? cause
      : textOf({ ...first, detail: first.cause ?? first.detail }, others.length),
  );
  const count = texts.length === 1 ? "1 problem: " : "";
  return `${count}${formatProblems(texts)}\n${problems.length} of ${checks} checks are not allowed`;
}

async function readConfig(argv: readonly string[], surroundings: Surroundings): Promise<CheckedConfig> {
  const { loaded } = await loadCommandPlugins(argv);
  if (!loaded.ok) throw refused(loaded.problems);
  const { clouds, controllers } = loaded.plugins;
  const leftOut = loaded.plugins.refused.map(({ reason }) => `left out: ${reason}`);
  warn(surroundings, leftOut);
  const command = parse(argv, controllers, { incomplete: leftOut.length > 0 });
  if (command.kind === "help" || command.kind === "version")
    throw refused(["--version cannot be combined with a check"]);
  const { cloudConfig: path, cloudProvider } = command.options;
  const cloud = clouds.find(({ name }) => name === cloudProvider);
  const offer = { controllers, clouds: clouds.map(({ name }) => name), incomplete: leftOut.length > 0 };
  // A misspelled flag may be the one that names the file.
  const isMissing = path === "" && command.kind === "run";
  const problems = [
    ...(command.kind === "refused" ? command.problems : []),
    ...validateEach(command.options, offer),
    ...(isMissing ? ["--cloud-config is required; set it to the file with the cloud configuration"] : []),
  ];
  if (cloud === undefined || path === "") throw refused(problems);
  const source = `--cloud-config=${path}`;
  const parsed = await readDocument(source, path);
  if (!parsed.ok) throw refused([...problems, ...parsed.problems]);
  warn(surroundings, parsed.warnings);
  return { cloud, config: parsed.value, source, problems: [...problems, ...(parsed.value.problems ?? [])] };
}

/** A file that cannot be read is a problem like any other. */
async function readDocument(source: string, path: string): Promise<Decoded<CloudConfig>> {
  try {
    return parseCloudConfig(await readNamedFile(source, path), source);
  } catch (error) {
    return { ok: false, problems: [messageOf(error)] };
  }
}

/** The decoded value; prints warnings, and throws all problems. */
function decoded<Value>({ source, problems }: CheckedConfig, bound: Decoded<Value>, surroundings: Surroundings): Value {
  const named = (text: string): string => `${source}: ${text}`;
  warn(surroundings, (bound.warnings ?? []).map(named));
  if (!bound.ok) throw refused([...problems, ...bound.problems.map(named)]);
  if (problems.length > 0) throw refused(problems);
  return bound.value;
}

const refused = (problems: readonly string[]): CodedError => new CodedError("CheckFailed", formatProblems(problems));

const warn = ({ stderr }: Surroundings, warnings: readonly string[]): void =>
  stderr(warnings.map((warning) => `Warning: ${warning}\n`).join(""));

function textOf({ subject, detail, cause = detail }: AccessResult, others: number): string {
  const reason = others === 0 ? detail : cause;
  return `${subject}${others === 0 ? "" : ` and ${others} more`}${reason === undefined ? "" : `: ${reason}`}`;
}
