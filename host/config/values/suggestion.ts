/** ` (did you mean --x?)` for the most similar candidate, or nothing when none is similar enough. */
export function didYouMean(given: string, candidates: readonly string[], prefix: string): string {
  const limit = given.length < 3 ? 0 : Math.max(given.length < 4 ? 1 : 2, Math.floor(given.length / 3));
  const [best] = candidates
    .map((candidate) => ({ candidate, distance: distanceOf(given, candidate) }))
    .filter(({ distance }) => distance <= limit)
    .toSorted((one, other) => one.distance - other.distance);
  return best === undefined ? "" : ` (did you mean ${prefix}${best.candidate}?)`;
}

/** True when a word differs from a candidate by a slip or two of the finger, and not by its meaning. */
export const isMisspelled = (given: string, candidates: readonly string[]): boolean =>
  candidates.some((candidate) => distanceOf(given, candidate) <= 2);

const distanceOf = (given: string, candidate: string): number =>
  editDistance(given.toLowerCase(), candidate.toLowerCase());

/** Levenshtein distance. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let at = 1; at <= one.length; at++) {
    const next = [at];
    for (let to = 1; to <= other.length; to++) {
      const substitute = (row[to - 1] ?? 0) + (one[at - 1] === other[to - 1] ? 0 : 1);
      next.push(Math.min(substitute, (row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
