import { editDistance, suggestionFor } from "cloud-controller-host/sdk";

/** ` (did you mean --x?)` for the most similar candidate, or nothing when none is similar enough. */
export function didYouMean(given: string, candidates: readonly string[], prefix: string): string {
  const maxDistance = given.length < 3 ? 0 : Math.max(given.length < 4 ? 1 : 2, Math.floor(given.length / 3));
  return suggestionFor(given, candidates, { maxDistance, prefix });
}

/** True when a word differs from a candidate by a slip or two of the finger, and not by its meaning. */
export const isMisspelled = (given: string, candidates: readonly string[]): boolean =>
  candidates.some((candidate) => editDistance(given, candidate) <= 2);
