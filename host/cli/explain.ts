import { type Explanation, messageOf } from "cloud-controller-host/sdk";

import { wantsHelp } from "../config/help/commands.ts";
import { explain, type ExplainDocument, subjectOf } from "../plan/explain.ts";
import { printChanges } from "../plan/print.ts";
import type { Surroundings } from "./command.ts";
import { readInput } from "./from-bundle.ts";
import { type LeaderOptions, leaderWrites } from "./leader-writes.ts";

export const explainUsage = `Usage: cloud-controller-host explain service NAMESPACE/NAME|node NAME [options] [flags of the host]

Prints what an object has: its state in Kubernetes, its latest events, and as a tree what it has in the cloud, where its
settings come from, which nodes are behind it and why one is not; then what a host with these flags would change about it.
It takes no lease and writes nothing. Permissions: rbac --plan.

  --output=text|json          text as people read it (default), or a document with a version
  --from=FILE                 explain an object of a bundle, offline (see plan --bundle); needs a clone, not the image
  --leader-url=URL            also print the leader's latest writes for it, with errors and correlation IDs; for example
                              https://127.0.0.1:10258 with kubectl port-forward
  --leader-token-file=FILE    bearer token that may read /statusz/writes there

Exit status: 0, or 1 if something could not be read or planned.
`;

const limitMs = 600_000;

/** `explain`: resolves to the exit status, 1 if something could not be read or planned. Never rejects. */
export async function runExplain(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  if (wantsHelp(argv)) {
    stdout(explainUsage);
    return 0;
  }
  try {
    const words = argv.filter((arg) => !arg.startsWith("-"));
    const flags = argv.filter(
      (arg) => arg.startsWith("-") && !/^--(?:output|from|leader-url|leader-token-file)=/u.test(arg),
    );
    const valueOf = (name: string): string | undefined =>
      argv.findLast((arg) => arg.startsWith(`--${name}=`))?.slice(`--${name}=`.length);
    const from = valueOf("from");
    const subject = subjectOf(words);
    await using ending = new AsyncDisposableStack();
    const input = await readInput(from, flags, surroundings, ending);
    if ("status" in input) return input.status;
    const writeLog = (line: string): void => (input.options.v > 0 ? stderr(line) : undefined);
    const explained = await explain({ input: { ...input, writeLog }, signal: AbortSignal.timeout(limitMs) }, subject);
    const url = valueOf("leader-url");
    const document =
      url === undefined ? explained : await withWrites(explained, { url, tokenFile: valueOf("leader-token-file") });
    stdout(
      argv.includes("--output=json") ? `${JSON.stringify(document, undefined, 2)}\n` : print(document, surroundings),
    );
    return document.failures.length === 0 ? 0 : 1;
  } catch (error) {
    stderr(`Error: cannot explain: ${messageOf(error)}\n`);
    return 1;
  }
}

/** What only the leader knows; a leader that does not answer is a failure beside the rest. */
async function withWrites(document: ExplainDocument, leader: LeaderOptions): Promise<ExplainDocument> {
  try {
    return { ...document, tree: [...document.tree, await leaderWrites(leader, document.subject)] };
  } catch (error) {
    return { ...document, failures: [...document.failures, messageOf(error)] };
  }
}

function print({ tree, changes, failures }: ExplainDocument, { color = false }: Surroundings): string {
  const blocks = tree.map((part) => lines(part, "").join("\n"));
  const planned =
    changes.length === 0
      ? ["A host with these flags would change nothing about it."]
      : ["A host with these flags would change:", ...printChanges(changes, { color })];
  const failed = failures.length === 0 ? [] : [["Not planned:", ...failures.map((text) => `  ${text}`)].join("\n")];
  return `${[...blocks, ...planned, ...failed].join("\n\n")}\n`;
}

function lines({ title, facts = [], children = [] }: Explanation, indent: string): readonly string[] {
  const width = Math.max(0, ...facts.map(({ name }) => name.length));
  return [
    `${indent}${title}`,
    ...facts.map(({ name, value, source }) => {
      const from = source === undefined ? "" : ` (${source})`;
      return `${indent}  ${name.padEnd(width)}  ${value}${from}`;
    }),
    ...children.flatMap((child) => lines(child, `${indent}  `)),
  ];
}
