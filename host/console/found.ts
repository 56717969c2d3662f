import type { OwnWarning } from "../generation/slot/own-reports.ts";
import type { WriteRecord } from "../process/writes/record.ts";
import type { Problem, ServiceRow } from "./schema.ts";
import type { ConsoleStatus } from "./sources.ts";
import { aboutNode } from "./warning-kinds.ts";

/** An object or a group of objects in trouble. */
export type Found = Pick<Problem, "cause"> & Partial<Pick<Problem, "title" | "since" | "view">>;

/** Objects of one kind that are named; a last line counts the others. */
const maxNamed = 20;

/** The errors of failing nodes by their names. */
export const errorsOfNodes = (warnings: readonly OwnWarning[]): ReadonlyMap<string, string> =>
  new Map(
    warnings.flatMap(({ kind, subject, text }) =>
      kind === aboutNode && subject !== undefined ? [[subject, text]] : [],
    ),
  );

/** Failing Services whose condition is not among the shown ones; those without a line of their own as a number. */
export function hiddenIn(warnings: readonly OwnWarning[], shown: ReadonlySet<string>): readonly Found[] {
  const hidden = warnings.flatMap(({ text, subject, since }) =>
    subject === undefined || shown.has(subject)
      ? []
      : [{ cause: text, view: `services/${subject}`, ...(since !== undefined && { since }) }],
  );
  const unnamed = shown.difference(new Set(warnings.map(({ subject }) => subject)));
  const further = warnings.reduce((sum, warning) => sum + (warning.further ?? 0), 0) - unnamed.size;
  return further > 0 ? [...hidden, { cause: `further failing Services: ${further}`, view: "services" }] : hidden;
}

interface Named extends Partial<Found> {
  readonly name: string;
}

export function named(found: readonly Named[], all: string): readonly Found[] {
  const first = found.slice(0, maxNamed).map(({ name, cause, ...rest }) => ({
    ...rest,
    cause: cause === undefined ? name : `${name}: ${cause}`,
  }));
  const more = found.length - first.length;
  return more > 0 ? [...first, { cause: `and ${more} more`, view: all }] : first;
}

/** The first of these lines; a last one counts the others. */
export const firstOf = (lines: readonly string[]): readonly string[] =>
  lines.length <= maxNamed ? lines : [...lines.slice(0, maxNamed), `and ${lines.length - maxNamed} more`];

/** Why a lock has no leader, as far as this replica knows. A standby does not read the further ones. */
export function whyUnheld({ lease, leader, expired, unread }: ConsoleStatus["locks"][number], isMain: boolean) {
  if (unread === true) return isMain ? `the Lease ${lease} has not been read yet` : undefined;
  if (leader === "") return `the Lease ${lease} has no holder`;
  return expired ? `${leader} no longer renews the Lease ${lease}, and no replica has acquired it` : undefined;
}

/** The latest write of each resource of the cloud that fails, and since when all have. Drift is a write of others. */
export function failingIn(writes: readonly WriteRecord[]) {
  const failing = new Map<string, { readonly write: WriteRecord; readonly since: string }>();
  for (const write of writes) {
    const { system, operation, resource, error, at } = write;
    if (system !== "cloud" || operation === "drift") continue;
    if (error === undefined) failing.delete(resource);
    else failing.set(resource, { write, since: failing.get(resource)?.since ?? at });
  }
  return [...failing.values()];
}

interface Since {
  readonly since?: string;
}

/** Oldest first; those without a time last. */
export function bySince({ since: one = "~" }: Since, { since: other = "~" }: Since): number {
  return one === other ? 0 : one < other ? -1 : 1;
}

/** The Services in one state, those that are in it longest first. */
export function servicesIn(services: readonly ServiceRow[], state: ServiceRow["state"]): readonly Found[] {
  const found = services.filter((service) => service.state === state).toSorted(bySince);
  return named(
    found.map(({ namespace, name, cause, since }) => ({
      name: `${namespace}/${name}`,
      view: `services/${namespace}/${name}`,
      cause,
      ...(since !== undefined && { since }),
    })),
    `services?filter=state:${state}`,
  );
}

/** By the relation of another shard to this one. */
export const shardTroubles = {
  overlaps: {
    severity: "critical",
    title: "Another shard serves some of the same Services",
    advice: "Only one of them leads: change the selector or the class of one.",
  },
  undecided: {
    severity: "warning",
    title: "Another shard does not show what it serves",
    advice: "It may be another program, which serves the same Services: compare its flags.",
  },
} as const satisfies Readonly<Record<string, Pick<Problem, "severity" | "title" | "advice">>>;
