import { editDistance } from "cloud-controller-host/sdk";

/** ` (did you mean x?)` for the known key that is nearest, or nothing. `common`: characters that all keys begin with. */
export function suggestion(given: string, byLowerCase: ReadonlyMap<string, string>, common = 0): string {
  const limit = Math.min(3, Math.max(1, Math.floor((given.length - common) / 4)));
  const near = [...byLowerCase]
    .filter(([lower]) => Math.abs(lower.length - given.length) <= limit)
    .map(([lower, key]) => ({ key, distance: editDistance(lower, given) }))
    .filter(({ distance }) => distance <= limit)
    .toSorted((left, right) => left.distance - right.distance)[0];
  return near === undefined ? "" : ` (did you mean ${near.key}?)`;
}
