import { CodedError, controllerNames, keyOf, kinds, messageOf } from "cloud-controller-host/sdk";

import { anonymized } from "../bundle/anonymize.ts";
import { writeBundle } from "../bundle/bundle.ts";
import { formatProblems } from "../config/validate/validate.ts";
import { isControllerEnabled, resolveControllers } from "../config/values/controller-list.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import { bundleOf } from "../plan/capture.ts";
import { planAbout, planDocument } from "../plan/document.ts";
import { makePlan, type Plan } from "../plan/plan.ts";
import { printPlan } from "../plan/print.ts";
import { redactText } from "../process/log/redact.ts";
import type { HostInput } from "../run/process-parts.ts";
import type { Adjust, Surroundings } from "./command.ts";
import { readInput } from "./from-bundle.ts";
import { takeOwnOptions } from "./own-options.ts";
import { limitOf, withProgress } from "./progress.ts";

export const planUsage = `Usage: cloud-controller-host plan [options] [flags of the host]

Prints what a host with these flags would write now, in the cloud and in Kubernetes, and writes nothing. It takes no
lease: run it beside the manager that leads, whichever that is. Read permissions suffice; see rbac --plan.

  --output=text|json          text as people read it (default), or a document with a version
  --only=LIST                 controllers to plan for: services, nodes, routes; default: all that the flags enable
  --service=NAMESPACE/NAME    show only what one Service causes
  --plan-timeout=SECONDS      limit for the whole plan; default 600
  --bundle=FILE               also write what was read, without secrets: a bug report with its reproduction
  --anonymize                 with --bundle: replace names and addresses, each by the same one everywhere
  --from=FILE                 plan for the cluster and the cloud of a bundle, offline; needs a clone, not the image

Exit status: 0 without changes, 2 with changes, 1 if something could not be planned. A plan is complete also where it
lists what is refused, such as a Service with an invalid annotation. Throttled reads are waited for.
`;

/** Controllers by the word of `--only`. */
const words: Readonly<Record<string, readonly string[]>> = {
  services: [controllerNames.serviceLB],
  nodes: [controllerNames.cloudNode, controllerNames.cloudNodeLifecycle, controllerNames.nodeIPAM],
  routes: [controllerNames.nodeRoute],
};

interface PlanOptions {
  readonly output: "text" | "json";
  readonly only: readonly string[];
  readonly service: string | undefined;
  readonly timeoutMs: number;
  /** File to write what was read to. */
  readonly bundle: string | undefined;
  readonly anonymize: boolean;
  /** Bundle to plan for. */
  readonly from: string | undefined;
  /** The flags of the host. */
  readonly rest: readonly string[];
}

/** `plan`: resolves to the exit status, 0 without changes, 2 with changes, 1 for an error. Never rejects. */
export async function runPlan(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const { stdout, stderr } = surroundings;
  try {
    const { output, only, service, timeoutMs, rest, bundle, anonymize, from } = readOptions(argv);
    await using ending = new AsyncDisposableStack();
    const input = await readInput(from, rest, surroundings, ending, restrictedTo(only));
    if ("status" in input) return input.status;
    const planned = { ...input, writeLog: logOf(input, surroundings) };
    using limit = limitOf(timeoutMs, `--plan-timeout=${timeoutMs / 1000}`);
    const request = { input: planned, signal: limit.signal, keepsReads: bundle !== undefined };
    const made = await withProgress(request, output === "text" ? surroundings.progress : undefined, makePlan);
    if (bundle !== undefined) {
      const written = bundleOf(made.cloud, input.settings, made.read);
      await writeBundle(bundle, anonymize ? anonymized(written) : written);
    }
    const plan = planDocument(made);
    const shown = service === undefined ? plan : planAbout(plan, `Service ${service}`);
    if (service !== undefined && shown.changes.length === 0 && !hasService(made, service))
      throw new CodedError(
        "InvalidFlags",
        `--service=${service}: the cluster has no such Service, and no change is about one`,
      );
    const color = surroundings.color ?? false;
    stdout(output === "json" ? `${JSON.stringify(shown, undefined, 2)}\n` : printPlan(shown, { color }));
    if (!shown.complete) return 1;
    return shown.changes.length === 0 && shown.held.length === 0 ? 0 : 2;
  } catch (error) {
    stderr(`Error: the plan cannot be made: ${redactText(messageOf(error))}\n`);
    return 1;
  }
}

const hasService = ({ read }: Plan, service: string): boolean =>
  read.kinds.some(
    ({ kind, objects }) => kind.plural === kinds.Service.plural && objects.some((one) => keyOf(one) === service),
  );

const ownOptions = {
  withValue: ["output", "only", "service", "plan-timeout", "bundle", "from"],
  switches: ["anonymize"],
} as const;

/** Takes the options of the command from the flags of the host. Throws with all that is wrong. */
function readOptions(argv: readonly string[]): PlanOptions {
  const { given, rest, problems: misused } = takeOwnOptions(argv, ownOptions);
  const problems = [...misused];
  const output = given.get("output") ?? "text";
  if (output !== "text" && output !== "json") problems.push(`--output=${output}: must be text or json`);
  const only = given.get("only")?.split(",") ?? [];
  for (const word of only)
    if (!Object.hasOwn(words, word))
      problems.push(
        `--only: "${word}" is unknown${didYouMean(word, Object.keys(words), "")}; use ${Object.keys(words).join(", ")}`,
      );
  const service = given.get("service");
  if (service !== undefined && !/^[^/]+\/[^/]+$/u.test(service))
    problems.push(`--service=${service}: must be NAMESPACE/NAME`);
  const limit = given.get("plan-timeout") ?? "600";
  const seconds = Number(limit);
  if (!(seconds > 0 && seconds <= 86_400))
    problems.push(`--plan-timeout=${limit}: must be a number of seconds, at most 86400`);
  const [bundle, from] = [given.get("bundle"), given.get("from")];
  for (const [name, path] of Object.entries({ bundle, from })) if (path === "") problems.push(`--${name}: name a file`);
  const anonymize = given.has("anonymize");
  if (anonymize && bundle === undefined) problems.push("--anonymize: needs --bundle=FILE");
  if (problems.length > 0) throw new CodedError("InvalidFlags", formatProblems(problems));
  const timeoutMs = seconds * 1000;
  return { output: output === "json" ? "json" : "text", only, service, timeoutMs, bundle, anonymize, from, rest };
}

/** With the chosen controllers alone. */
function restrictedTo(only: readonly string[]): Adjust | undefined {
  if (only.length === 0) return undefined;
  const chosen = new Set(only.flatMap((word) => words[word] ?? []));
  return (options, plugins) => {
    const given = resolveControllers(options.controllers, plugins.controllers);
    const controllers = plugins.controllers
      .filter(({ name, enabledByDefault }) => chosen.has(name) && isControllerEnabled(name, enabledByDefault, given))
      .map(({ name }) => name);
    if (controllers.length === 0)
      throw new CodedError("InvalidFlags", `--only=${only.join(",")}: the flags enable none of these controllers`);
    return { ...options, controllers };
  };
}

/** Prints the log only with `-v`: what failed is part of the plan. */
const logOf =
  ({ options }: HostInput, { stderr }: Surroundings) =>
  (line: string): void =>
    options.v > 0 ? stderr(line) : undefined;
