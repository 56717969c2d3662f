/**
 * The plan that the console shows, as JSON in the last line on stdout: bounded, and with texts that may be shown.
 * `run/plan-process.ts` starts it.
 */
import type { PlanDocument } from "../changes/plan-schema.ts";
import { cleaned } from "../console/clean.ts";
import { shortened } from "../process/log/fields.ts";
import { runPlan } from "./plan.ts";

const maxCharacters = 500_000;
const maxFields = 40;
const maxValue = 1_000;
/** Limits of each list beside the changes. */
const maxLines = 200;
const maxListCharacters = 70_000;

type Change = PlanDocument["changes"][number];

/** The first changes of a plan, and how much is left out. */
export function shownPlan(plan: PlanDocument) {
  const changes: Change[] = [];
  let characters = 0;
  let fieldsLeftOut = 0;
  for (const change of plan.changes) {
    const shown = shownChange(change);
    characters += JSON.stringify(shown).length;
    if (characters > maxCharacters) break;
    changes.push(shown);
    fieldsLeftOut += change.fields.length - shown.fields.length;
  }
  const changesLeftOut = plan.changes.length - changes.length;
  return { plan: { ...plan, ...shownLists(plan), changes }, changesLeftOut, fieldsLeftOut };
}

/** The lists beside the changes. */
const shownLists = ({ held, refused, inFlight, failures, skippedControllers, unservedServices }: PlanDocument) => ({
  held: firstOf(
    held.map((one) => ({ ...one, removals: one.removals.slice(0, maxFields), reason: shortText(one.reason) })),
  ),
  refused: firstOf(refused.map(({ resource, reason }) => ({ resource, reason: shortText(reason) }))),
  inFlight: firstOf(inFlight),
  failures: firstOf(failures.map(shortText)),
  skippedControllers: firstOf(skippedControllers.map(shortText)),
  ...(unservedServices && { unservedServices: firstOf(unservedServices) }),
});

function firstOf<T>(all: readonly T[]): T[] {
  let characters = 0;
  const first = all.slice(0, maxLines);
  const end = first.findIndex((one) => (characters += JSON.stringify(one).length) > maxListCharacters);
  return end === -1 ? first : first.slice(0, end);
}

const shownChange = (change: Change): Change => ({
  ...change,
  reasons: change.reasons.slice(0, maxFields),
  fields: change.fields.slice(0, maxFields).map(({ path, ...values }) => ({
    path,
    ...Object.fromEntries(Object.entries(values).map(([key, value]) => [key, shownValue(value)])),
  })),
});

function shownValue(value: unknown): unknown {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length <= maxValue ? value : shortText(text);
}

const shortText = (text: string): string => shortened(text, maxValue);

async function main(argv: readonly string[]): Promise<number> {
  let [printed, complaint] = ["", ""];
  const status = await runPlan(["--output=json", ...argv], {
    environment: process.env,
    stdout: (text) => void (printed += text),
    stderr: (text) => void (complaint += text),
    width: 100,
  });
  if (printed === "") {
    const reason = complaint.replace(/^Error: (?:the plan cannot be made: )?/u, "");
    process.stderr.write(reason === "" ? `plan ended with status ${status}` : reason);
    return 1;
  }
  // Plugins may print, too. An exit discards what the pipe does not hold yet.
  await Bun.write(Bun.stdout, `\n${JSON.stringify(cleaned(shownPlan(JSON.parse(printed))))}\n`);
  return 0;
}

if (import.meta.main) process.exit(await main(process.argv.slice(2)));
