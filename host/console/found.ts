import type { OwnWarning } from "../generation/slot/own-reports.ts";
import type { Problem } from "./schema.ts";
import { aboutNode } from "./warning-kinds.ts";

/** An object or a group of objects in trouble. */
export type Found = Pick<Problem, "cause"> & Partial<Pick<Problem, "title" | "since" | "view">>;

/** Objects of one kind that are named; a last line counts the others. */
export const maxNamed = 20;

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
