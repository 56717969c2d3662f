import { visible } from "cloud-controller-host/sdk";

import type { PlanDocument } from "../changes/plan-schema.ts";
import type { Action } from "./changes.ts";

const signs: Readonly<Record<Action, string>> = { create: "+", change: "~", delete: "-" };
const colors: Readonly<Record<Action, string>> = { create: "\u001B[32m", change: "\u001B[33m", delete: "\u001B[31m" };
const [red, reset] = ["\u001B[31m", "\u001B[0m"];

/** Removals that are printed per resource; the document has all. */
const maxHeldNames = 20;

/** A refused reload has one hash for all that it would remove; a generation that runs holds each resource by itself. */
const whichHash = `The commands above are for a host that starts with these flags; join several hashes with commas.
A running host that refuses a reload prints another command, one for all of the removals: use that one for a reload.
It is in the event ReloadRefused and in lastRefusal of /statusz.`;

type Shown = PlanDocument["changes"][number];

/** The plan as people read it: one heading per resource, its fields, its reasons, and a last line with the counts. */
export function printPlan(plan: PlanDocument, options: { readonly color: boolean }): string {
  const blocks = printChanges(plan.changes, options);
  const held = plan.held.map((one) => printHeld(one, options));
  if (held.length > 0) held.push(whichHash);
  const failures = plan.failures.map((failure) => `  ${visible(failure)}`);
  const incomplete = failures.length === 0 ? [] : [["Not planned:", ...failures].join("\n")];
  const rejected = plan.refused.map(({ resource, reason }) => `  ${oneLine(resource)}: ${oneLine(reason)}`);
  const refused = rejected.length === 0 ? [] : [["Refused; see explain:", ...rejected].join("\n")];
  const inFlight = plan.inFlight.map(({ title, state }) => `  ${oneLine(title)}: ${oneLine(state)}`);
  const working = inFlight.length === 0 ? [] : [["In flight, by another manager:", ...inFlight].join("\n")];
  const skipped = plan.skippedControllers.map((text) => `  ${text}`);
  const notes = skipped.length === 0 ? [] : [["Controllers that do not run:", ...skipped].join("\n")];
  const unserved = (plan.unservedServices ?? []).map((text) => `  ${oneLine(text)}`);
  if (unserved.length > 0)
    notes.push(["Served by no shard; nothing of them is changed or deleted:", ...unserved].join("\n"));
  return `${[...blocks, ...held, ...refused, ...working, ...notes, ...incomplete, summaryOf(plan)].join("\n\n")}\n`;
}

/** A text that a tenant or Azure may have chosen, on one line. */
export const oneLine = (text: string): string => visible(text).replaceAll("\n", "\\n");

function printHeld({ title, removals, reason }: PlanDocument["held"][number], { color }: { readonly color: boolean }) {
  const heading = color ? `${red}! held ${title}${reset}` : `! held ${title}`;
  const names = removals.slice(0, maxHeldNames).map((name) => `    ! would remove ${oneLine(name)}`);
  const rest = removals.length - names.length;
  const more = rest > 0 ? [`    ! and ${rest} more`] : [];
  return [heading, `    ${reason}`, ...names, ...more].join("\n");
}

/** One block per resource. */
export function printChanges(
  changes: PlanDocument["changes"],
  { color }: { readonly color: boolean },
): readonly string[] {
  const paint = (code: string, text: string): string => (color ? `${code}${text}${reset}` : text);
  return changes.map((change) => printChange(change, paint));
}

function printChange(change: Shown, paint: (code: string, text: string) => string): string {
  const { action, title, reasons, interruptions, fields, system } = change;
  const heading = paint(colors[action], `${signs[action]} ${action} ${oneLine(title)}`);
  const because =
    system === "kubernetes" ? [] : [`    because of ${reasons.map(oneLine).join(", ") || "the configuration"}`];
  const warnings = interruptions.map((text) => paint(red, `    ! interrupts traffic: ${oneLine(text)}`));
  return [heading, ...because, ...warnings, ...printFields(fields)].join("\n");
}

/** One line per field; those of one list item stand together below it. */
function printFields(fields: Shown["fields"]): readonly string[] {
  const groups = Map.groupBy(fields, ({ path }) => path.slice(0, path.lastIndexOf("]") + 1));
  return [...groups].flatMap(([item, members]) => {
    if (item === "" || members.length === 1) return members.map((field) => `    ${printField(field, field.path)}`);
    const signsOf = new Set(members.map(signOf));
    const lines = members.map((field) => `        ${printField(field, field.path.slice(item.length + 1) || "value")}`);
    return [`    ${signsOf.size === 1 ? [...signsOf].join("") : "~"} ${oneLine(item)}`, ...lines];
  });
}

type Field = Shown["fields"][number];

function signOf(field: Field): string {
  if (!("before" in field)) return "+";
  return "after" in field ? "~" : "-";
}

function printField(field: Field, path: string): string {
  const sign = signOf(field);
  const [before, after] = [valueOf(field.before), valueOf(field.after)];
  return `${sign} ${oneLine(path)} = ${sign === "~" ? `${before} -> ${after}` : sign === "+" ? after : before}`;
}

const valueOf = (value: unknown): string => visible(JSON.stringify(value) ?? "");

/** The last line. An incomplete plan is never "No changes". */
function summaryOf({ cloud, changes, held, refused, complete }: PlanDocument): string {
  const counts = (system: Shown["system"]): Readonly<Record<Action, number>> => {
    const of = (action: Action): number =>
      changes.filter((change) => change.system === system && change.action === action).length;
    return { create: of("create"), change: of("change"), delete: of("delete") };
  };
  const phrase = ({ create, change, delete: removed }: Readonly<Record<Action, number>>): string =>
    `${create} to create, ${change} to change, ${removed} to delete`;
  const refusals = refused.length === 0 ? "" : `; ${refused.length} refused`;
  if (complete && changes.length === 0 && held.length === 0) return `No changes${refusals}.`;
  const interrupted = changes.filter(({ interruptions }) => interruptions.length > 0).length;
  const warning = interrupted === 0 ? "" : `; ${interrupted} interrupt${interrupted === 1 ? "s" : ""} traffic`;
  const name = `${cloud.charAt(0).toUpperCase()}${cloud.slice(1)}`;
  const count = held.reduce((sum, { removals }) => sum + removals.length, 0);
  const holding = count === 0 ? "" : `; ${count} removal${count === 1 ? "" : "s"} held`;
  const text = `${phrase(counts("cloud"))} in ${name}; ${phrase(counts("kubernetes"))} in Kubernetes${warning}${holding}${refusals}`;
  return complete ? `Plan: ${text}` : `Incomplete plan: ${text}; what is not planned is listed above`;
}
