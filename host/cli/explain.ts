import { CodedError, type Explanation, messageOf, visible } from "cloud-controller-host/sdk";

import { formatProblems } from "../config/validate/validate.ts";
import { explain, type ExplainDocument, type Subject, subjectOf } from "../plan/explain.ts";
import { oneLine, printChanges } from "../plan/print.ts";
import { redactText } from "../process/log/redact.ts";
import type { Adjust, Surroundings } from "./command.ts";
import { readInput } from "./from-bundle.ts";
import { leaderFlags, type LeaderOptions, leaderWrites } from "./leader.ts";
import { takeOwnOptions } from "./own-options.ts";
import { limitOf, withProgress } from "./progress.ts";

export const explainUsage = `Usage: cloud-controller-host explain service NAMESPACE/NAME|node NAME [options] [flags of the host]

Prints what an object has: its state in Kubernetes, its latest events, and as a tree what it has in the cloud, where its
settings come from, which nodes are behind it and why one is not; then what a host with these flags would change about it.
It takes no lease and writes nothing. Permissions: rbac --plan. --kubeconfig and --cloud-config are enough; routes are
explained only with --cluster-cidr.

  --output=text|json          text as people read it (default), or a document with a version
  --from=FILE                 explain an object of a bundle, offline (see plan --bundle); needs a clone, not the image
  --leader-url=URL            use the flags of the leader, and print its latest writes for the object, with errors and
                              correlation IDs; for example https://127.0.0.1:10258 with kubectl port-forward
  --leader-token-file=FILE    bearer token that may read /flagz and /statusz/writes there

Exit status: 0, or 1 if something could not be read or planned.
`;

const limitMs = 600_000;
const ownOptions = { withValue: ["output", "from", "leader-url", "leader-token-file"] } as const;

/** `explain`: resolves to the exit status, 1 if something could not be read or planned. Never rejects. */
export async function runExplain(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  try {
    const { subject, leader, from, output, rest } = readOptions(argv);
    const led = leader && (await flagsOfLeader(leader, rest));
    await using ending = new AsyncDisposableStack();
    const flags = [...(led?.flags ?? []), ...rest];
    const input = await readInput(from, flags, surroundings, ending, withoutUnknownRoutes);
    if ("status" in input) return input.status;
    const writeLog = (line: string): void => (input.options.v > 0 ? stderr(line) : undefined);
    using limit = limitOf(limitMs, "its limit");
    const request = { input: { ...input, writeLog }, signal: limit.signal };
    const toCheck = from === undefined ? undefined : "that the bundle has it: an anonymized one has other names";
    const progress = output === "text" ? surroundings.progress : undefined;
    const explained = await withProgress(request, progress, (shown) => explain(shown, subject, toCheck));
    const document = leader === undefined || led === undefined ? explained : await withWrites(explained, leader, led);
    stdout(output === "json" ? `${JSON.stringify(document, undefined, 2)}\n` : print(document, surroundings));
    return document.failures.length === 0 ? 0 : 1;
  } catch (error) {
    stderr(`Error: cannot explain: ${redactText(messageOf(error))}\n`);
    return 1;
  }
}

/** Takes the subject and the options of the command from the flags of the host, whose values may stand apart. */
function readOptions(argv: readonly string[]) {
  const { given, rest: others, problems: misused } = takeOwnOptions(argv, ownOptions);
  const isFirst = others[0]?.startsWith("-") === false;
  const subject = subjectIn(isFirst ? others.slice(0, 2) : others.slice(-2));
  const output = given.get("output") ?? "text";
  const [url, tokenFile, from] = ["leader-url", "leader-token-file", "from"].map((name) => given.get(name));
  const problems = [
    ...misused,
    ...("problem" in subject ? [subject.problem] : []),
    ...(output === "text" || output === "json" ? [] : [`--output=${output}: must be text or json`]),
    ...(from === "" ? ["--from: name a file"] : []),
    ...(url === "" ? ["--leader-url: name the URL of the leader's secure port, such as https://127.0.0.1:10258"] : []),
    ...(tokenFile === "" ? ["--leader-token-file: name a file"] : []),
    ...(url === undefined && tokenFile !== undefined ? ["--leader-token-file: needs --leader-url=URL"] : []),
  ];
  if (problems.length > 0 || "problem" in subject) throw new CodedError("InvalidFlags", formatProblems(problems));
  const rest = isFirst ? others.slice(2) : others.slice(0, -2);
  const leader = url === undefined ? undefined : { url, tokenFile };
  return { subject, leader, from, output, rest };
}

/** A flag in the place of a name is not one. */
function subjectIn(words: readonly string[]): Subject | { readonly problem: string } {
  try {
    return subjectOf(words.filter((word) => !word.startsWith("-")));
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

/** A person who asks need not know the Pod CIDR, which only routes need. */
const withoutUnknownRoutes: Adjust = (options) =>
  options.clusterCidr === "" ? { ...options, configureCloudRoutes: false } : options;

interface Led {
  readonly flags: readonly string[];
  readonly failures: readonly string[];
}

/** A leader that does not answer, or is of another make, is a failure beside the rest. */
async function flagsOfLeader(leader: LeaderOptions, given: readonly string[]): Promise<Led> {
  try {
    return { flags: await leaderFlags(leader, given), failures: [] };
  } catch (error) {
    return { flags: [], failures: [messageOf(error)] };
  }
}

/** Adds the part that only the leader has. */
async function withWrites(
  document: ExplainDocument,
  leader: LeaderOptions,
  { failures }: Led,
): Promise<ExplainDocument> {
  const known = { ...document, failures: [...document.failures, ...failures] };
  try {
    return { ...known, tree: [...document.tree, await leaderWrites(leader, document.subject)] };
  } catch (error) {
    return { ...known, failures: [...new Set([...known.failures, messageOf(error)])] };
  }
}

function print({ tree, changes, refused, failures }: ExplainDocument, { color = false }: Surroundings): string {
  const blocks = tree.map((part) => lines(part, "").join("\n"));
  const heading = tree.length === 0 ? "Not explained:" : "Not planned:";
  const failed = failures.length === 0 ? [] : [[heading, ...failures.map((text) => `  ${visible(text)}`)].join("\n")];
  const refusal = refused.map((reason) => `A host with these flags refuses it:\n  ${visible(reason)}`);
  const nothing = failures.length === 0 ? ["A host with these flags would change nothing about it."] : [];
  const planned =
    changes.length === 0 ? nothing : ["A host with these flags would change:", ...printChanges(changes, { color })];
  return `${[...blocks, ...refusal, ...planned, ...failed].join("\n\n")}\n`;
}

function lines({ title, facts = [], children = [] }: Explanation, indent: string): readonly string[] {
  const width = Math.max(0, ...facts.map(({ name }) => name.length));
  return [
    `${indent}${oneLine(title)}`,
    ...facts.map(({ name, value, source }) => {
      const from = source === undefined ? "" : ` (${source})`;
      return `${indent}  ${oneLine(name).padEnd(width)}  ${oneLine(value)}${from}`;
    }),
    ...children.flatMap((child) => lines(child, `${indent}  `)),
  ];
}
