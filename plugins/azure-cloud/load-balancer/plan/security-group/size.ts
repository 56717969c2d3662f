import type { SecurityRule } from "@azure/arm-network";

import { familyOf } from "../../model/addresses.ts";
import { isNearly, limits } from "../../model/limits.ts";
import { fullKey } from "../../service/annotation-rows.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { addEvent, type Draft, reject } from "../draft/draft.ts";
import { accessOf, portsOf } from "./access.ts";
import { type Holder, maxPrefixesOf } from "./edits.ts";
import { destinationsOf, sourcesOf } from "./rule-contents.ts";

interface Size {
  readonly rules: number;
  readonly sources: number;
  readonly destinations: number;
}

const limitOf: Readonly<Record<keyof Size, readonly [limit: number, what: string]>> = {
  rules: [limits.rulesPerSecurityGroup, "rules"],
  sources: [limits.prefixesPerSecurityGroup, "source prefixes"],
  destinations: [limits.prefixesPerSecurityGroup, "destination prefixes"],
};

/**
 * Azure's limits that the rules of a Service exceed by themselves. The rules are counted, never built: for each protocol
 * and family, one per service tag and one for all ranges, each with every destination of the family.
 */
export function securityRulesProblems(subject: Subject): readonly string[] {
  if (subject.settings.get(annotations.disableSecurityRules)) return [];
  const size = sizeOf(subject);
  return (["rules", "sources", "destinations"] as const).flatMap((kind) => {
    const [limit, what] = limitOf[kind];
    return size[kind] <= limit
      ? []
      : [
          `needs ${size[kind]} ${what} in the security group, which has ${limit} at most; use fewer items in ${listed(subject)}`,
        ];
  });
}

/** At least: the nodes of a Service without floating IP are not counted. */
function sizeOf(subject: Subject): Size {
  const { tags, ranges, denyAll } = accessOf(subject);
  const protocols = portsOf(subject).size;
  const additional = Map.groupBy(subject.additionalAddresses, familyOf);
  const total = { rules: 0, sources: 0, destinations: 0 };
  for (const family of ["IPv4", "IPv6"] as const) {
    const destinations = (subject.families.includes(family) ? 1 : 0) + (additional.get(family)?.length ?? 0);
    if (destinations === 0) continue;
    const deny = denyAll ? 1 : 0;
    const rules = protocols * (tags.length + (ranges[family].length > 0 ? 1 : 0)) + deny;
    total.rules += rules;
    total.sources += protocols * (tags.length + ranges[family].length) + deny;
    total.destinations += rules * destinations;
  }
  return total;
}

const lists = [
  annotations.allowedServiceTags,
  annotations.additionalPublicIPs,
  annotations.allowedIPRanges,
  annotations.sourceRanges,
] as const;

/** The lists that the Service has, as users know them. */
function listed({ service, settings }: Subject): string {
  const given = lists.filter((row) => (settings.get(row)?.length ?? 0) > 0).map((row) => fullKey(row));
  const ranges = service.spec?.loadBalancerSourceRanges ?? [];
  return [...given, ...(ranges.length > 0 ? ["spec.loadBalancerSourceRanges"] : [])].join(", ");
}

const advice =
  "give Services the same ports, ranges and service tags, so that they share rules, or remove unused rules";

/** Refuses a Service for which the group has no room. */
function refuse(draft: Draft, { subject }: Holder, kind: keyof Size): void {
  const [limit, what] = limitOf[kind];
  const message = `the security group exceeds the maximum number of ${what} (${limit}); ${advice}`;
  reject(draft, subject.key, "TooManySecurityRules", message);
}

/** Warns a Service that adds to what uses up the last fifth of a limit. */
function warnIfNearly(draft: Draft, { subject }: Holder, kind: keyof Size, used: number): void {
  const [limit, what] = limitOf[kind];
  const message = `the security group has ${used} of ${limit} ${what}; ${advice}`;
  if (isNearly(used, limit)) addEvent(draft, subject.key, { type: "Warning", reason: "LimitNearlyReached", message });
}

/**
 * Rejects the Services whose new rules do not fit into the group beside those of older ones, and warns the others. One that
 * adds no rule is not at fault, however full the group is. `total`: with all that is in `added`, oldest Service first.
 */
export function rejectTooManyRules(draft: Draft, total: number, added: ReadonlyMap<Holder, number>): void {
  let used = total - added.values().reduce((sum, count) => sum + count, 0);
  for (const [holder, count] of added)
    if (used + count > limits.rulesPerSecurityGroup) refuse(draft, holder, "rules");
    else {
      used += count;
      warnIfNearly(draft, holder, "rules", used);
    }
}

const prefixCounts = (rules: readonly SecurityRule[]): Readonly<Record<"sources" | "destinations", number>> => ({
  sources: rules.reduce((sum, rule) => sum + sourcesOf(rule).length, 0),
  destinations: rules.reduce((sum, rule) => sum + destinationsOf(rule).length, 0),
});

/** Warns the Services of a write that uses up the last fifth of the group's prefixes. */
export function warnOfPrefixes(
  draft: Draft,
  before: readonly SecurityRule[],
  rules: readonly SecurityRule[],
  involved: readonly Holder[],
): void {
  const [old, next] = [prefixCounts(before), prefixCounts(rules)];
  for (const kind of ["sources", "destinations"] as const)
    if (next[kind] > old[kind])
      for (const holder of involved.filter(({ action }) => action === "ensure"))
        warnIfNearly(draft, holder, kind, next[kind]);
}

/**
 * Rejects the newest Services until the group is within ARM's limits. Several at once, if each is certain to be one too
 * many: every rejection is followed by planning all others again.
 */
export function rejectTooManyPrefixes(draft: Draft, rules: readonly SecurityRule[], active: readonly Holder[]): void {
  const counts = prefixCounts(rules);
  const newestFirst = active.filter(({ action }) => action === "ensure").toReversed();
  for (const kind of ["sources", "destinations"] as const) {
    let excess = counts[kind] - limits.prefixesPerSecurityGroup;
    for (const holder of newestFirst) {
      if (excess <= 0) break;
      refuse(draft, holder, kind);
      excess -= maxPrefixesOf(holder)[kind];
    }
  }
}
