/** ` (did you mean x?)` for the known key that is nearest, or nothing. `common`: characters that all keys begin with. */
export function suggestion(given: string, byLowerCase: ReadonlyMap<string, string>, common = 0): string {
  const limit = Math.min(3, Math.max(1, Math.floor((given.length - common) / 4)));
  const near = [...byLowerCase]
    .map(([lower, key]) => ({ key, distance: editDistance(lower, given.toLowerCase(), limit) }))
    .filter(({ distance }) => distance <= limit)
    .toSorted((left, right) => left.distance - right.distance)[0];
  return near === undefined ? "" : ` (did you mean ${near.key}?)`;
}

/** Levenshtein distance, computed only up to `limit`. */
function editDistance(left: string, right: string, limit: number): number {
  if (Math.abs(left.length - right.length) > limit) return limit + 1;
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (const [row, letter] of Array.from(left).entries()) {
    const current = [row + 1];
    for (const [column, other] of Array.from(right).entries()) {
      const change = (previous[column] ?? 0) + (letter === other ? 0 : 1);
      current.push(Math.min(change, (previous[column + 1] ?? 0) + 1, (current[column] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[right.length] ?? limit + 1;
}
