import { isObject } from "cloud-controller-host/sdk";

/**
 * As few of the items as have every feature that any of them has: of those with the most features that are still missing,
 * the first, again and again.
 */
export function covering<T>(items: readonly T[], featuresOf: (item: T) => ReadonlySet<string>): ReadonlySet<T> {
  const features = new Map(items.map((item) => [item, featuresOf(item)]));
  const missing = new Set(features.values().flatMap((own) => own));
  const chosen = new Set<T>();
  while (missing.size > 0) {
    const gain = (item: T): number => features.get(item)?.intersection(missing).size ?? 0;
    const best = items.reduce((one, other) => (gain(other) > gain(one) ? other : one));
    chosen.add(best);
    for (const feature of features.get(best) ?? []) missing.delete(feature);
  }
  return chosen;
}

/** The kinds of differences between two documents: which fields come, go or change, and to which word of an enumeration. */
export function differencesBetween(before: unknown, after: unknown): ReadonlySet<string> {
  const [then, now] = [leavesOf(before), leavesOf(after)];
  const gone = [...then].filter(([path, value]) => now.get(path) !== value).map(([path]) => `- ${kindOf(path)}`);
  const come = [...now]
    .filter(([path, value]) => then.get(path) !== value)
    .map(([path, value]) => `+ ${kindOf(path)} ${word.test(value) ? value : ""}`);
  return new Set([...gone, ...come]);
}

/** `true`, `Tcp` or `Local`: no name, number, address or id. */
const word = /^(?:true|false|[A-Z][a-z]+)$/u;

/** Items of lists are alike. */
const kindOf = (path: string): string => path.replaceAll(/\/\d+(?=\/|$)/gu, "/*");

function leavesOf(value: unknown, path = "", leaves = new Map<string, string>()): ReadonlyMap<string, string> {
  const children = Array.isArray(value) || isObject(value) ? Object.entries(value) : undefined;
  if (children === undefined) return leaves.set(path, String(value));
  for (const [key, child] of children) leavesOf(child, `${path}/${key}`, leaves);
  return leaves;
}
