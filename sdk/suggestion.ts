interface SuggestionOptions {
  /** Number of edits by which a candidate may differ. */
  readonly maxDistance: number;
  /** Printed before the candidate, such as `--`. */
  readonly prefix?: string;
}

/** ` (did you mean x?)` for the candidate that is nearest to a word, in any case; empty where none is near enough. */
export function suggestionFor(
  given: string,
  candidates: Iterable<string>,
  { maxDistance, prefix = "" }: SuggestionOptions,
): string {
  const [nearest] = [...candidates]
    .filter((candidate) => Math.abs(candidate.length - given.length) <= maxDistance)
    .map((candidate) => ({ candidate, distance: editDistance(given, candidate) }))
    .filter(({ distance }) => distance <= maxDistance)
    .toSorted((one, other) => one.distance - other.distance);
  return nearest === undefined ? "" : ` (did you mean ${prefix}${nearest.candidate}?)`;
}

/** Levenshtein distance between two words, of any case. */
export function editDistance(one: string, other: string): number {
  const [left, right] = [one.toLowerCase(), other.toLowerCase()];
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let at = 1; at <= left.length; at++) {
    const next = [at];
    for (let to = 1; to <= right.length; to++) {
      const substitute = (row[to - 1] ?? 0) + (left[at - 1] === right[to - 1] ? 0 : 1);
      next.push(Math.min(substitute, (row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
