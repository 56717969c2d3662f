import { sameName } from "../../arm/resource-id.ts";

type Tags = Readonly<Record<string, string>>;

/**
 * Tags of the form `a=b,c=d`, with those of `map` over them; keys compare case-insensitively. Entries that are not one
 * key and one value are skipped. A value `null` keeps its spaces: alone, the word is reserved in ARM.
 * Source: upstream `parseTags`.
 */
export function parseTags(text: string, map: Tags = {}): ReadonlyMap<string, string> {
  const tags = new Map<string, string>();
  const spellings = new Map<string, string>();
  const set = (key: string, value: string): void => {
    if (key === "") return;
    const older = spellings.get(key.toLowerCase());
    if (older !== undefined && older !== key) tags.delete(older);
    spellings.set(key.toLowerCase(), key);
    tags.set(key, sameName(value.trim(), "null") ? value : value.trim());
  };
  for (const entry of text.split(",")) {
    const [key = "", value, ...more] = entry.split("=");
    if (value !== undefined && more.length === 0) set(key.trim(), value);
  }
  for (const [key, value] of Object.entries(map)) set(key.trim(), value);
  return tags;
}

/** The tags with others over them; keys that differ in case alone are one, in its first spelling. */
export function overrideTags(
  tags: ReadonlyMap<string, string>,
  others: ReadonlyMap<string, string>,
): Map<string, string> {
  const merged = new Map(tags);
  const spellings = new Map(tags.keys().map((key) => [key.toLowerCase(), key]));
  for (const [key, value] of others) merged.set(spellings.getOrInsert(key.toLowerCase(), key), value);
  return merged;
}

/**
 * The tags with `desired` among them: a tag of another value is overwritten under its present spelling. Only with
 * `systemTags`, tags that are neither desired nor begin with one of those prefixes are removed. The same object when
 * nothing changes. Source: upstream `reconcileTags`.
 */
export function reconcileTags(
  current: Tags | undefined,
  desired: ReadonlyMap<string, string>,
  systemTags: readonly string[],
): Tags | undefined {
  const next = new Map(Object.entries(current ?? {}));
  let changed = false;
  for (const [key, value] of desired) {
    const present = next.keys().find((known) => sameName(known, key));
    if (present !== undefined && sameName(next.get(present) ?? "", value)) continue;
    next.set(present ?? key, value);
    changed = true;
  }
  if (systemTags.length > 0)
    for (const key of next.keys()) {
      const isKept = systemTags.some((prefix) => key.toLowerCase().startsWith(prefix.toLowerCase()));
      if (isKept || desired.keys().some((wanted) => sameName(wanted, key))) continue;
      next.delete(key);
      changed = true;
    }
  return changed ? Object.fromEntries(next) : current;
}
