import type { Violation } from "./invariants/table.ts";

/** What differs between two histories that show the same defect: names, addresses, numbers and times. */
const incidental: readonly (readonly [pattern: RegExp, kind: string])[] = [
  [/^[\d.]+ s: /gu, ""],
  [/\b[\da-f]*:(?:[\da-f]*:)+[\da-f]*\b/gu, "address"],
  [/\b\d+(?:\.\d+){3}\b/gu, "address"],
  [/\b(?=[a-z]*\d)[\da-f]{8,}\b/gu, "id"],
  [/\d+/gu, "#"],
  [/#(?:-#)+/gu, "#"],
];

/** The problems of a violation: of which kind of subject, and what is wrong with it. */
function problemKinds({ text }: Violation): ReadonlySet<string> {
  const worded = incidental.reduce((rest, [pattern, kind]) => rest.replaceAll(pattern, kind), text);
  return new Set(worded.split("; "));
}

/**
 * A shrunk history must show the defect of the one that it stands for: another one that breaks the same invariant would
 * hide it. Both have the same kinds of problems then.
 */
export function isSameFailure(one: Violation | undefined, other: Violation | undefined): boolean {
  if (one === undefined || other === undefined || one.invariant !== other.invariant) return false;
  return problemKinds(one).symmetricDifference(problemKinds(other)).size === 0;
}
