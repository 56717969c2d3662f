import { suggestionFor } from "cloud-controller-host/sdk";

/** ` (did you mean x?)` for the known key that is nearest, or nothing. `common`: characters that all keys begin with. */
export const suggestion = (given: string, known: Iterable<string>, common = 0): string =>
  suggestionFor(given, known, { maxDistance: Math.min(3, Math.max(1, Math.floor((given.length - common) / 4))) });
