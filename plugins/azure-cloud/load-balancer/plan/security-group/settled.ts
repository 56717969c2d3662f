import type { SecurityRule } from "@azure/arm-network";

import { familyOf } from "../../model/addresses.ts";
import { oncePer } from "../../model/once-per.ts";
import type { Subject } from "../../service/subject.ts";
import { portsOf } from "./access.ts";
import { type Holder, type RuleContents, rulesFor } from "./edits.ts";
import { destinationsOf, hasContent } from "./rule-contents.ts";
import { isCleaned, isManaged } from "./rules.ts";

type Rules = readonly SecurityRule[];

/** Managed rules by destination and by name. */
const rulesByDestination = oncePer((rules: Rules): ReadonlyMap<string, ReadonlyMap<string, SecurityRule>> => {
  const byName = new Map(rules.filter(isManaged).map((rule) => [rule.name ?? "", rule]));
  const found = new Map<string, Map<string, SecurityRule>>();
  for (const [name, rule] of byName)
    for (const one of destinationsOf(rule)) found.getOrInsertComputed(one, () => new Map()).set(name, rule);
  return found;
});

const hasAll = (found: ReadonlyMap<string, SecurityRule> | undefined, wanted: RuleContents): boolean =>
  wanted.keys().every((name) => found?.has(name) === true);

/** True if the group has the rules that a Service would get on an address, and it would get some. */
export function hasRulesFor(present: Rules, subject: Subject, destination: string): boolean {
  const wanted = rulesFor(subject)[familyOf(destination) ?? "IPv4"];
  return wanted.size > 0 && hasAll(rulesByDestination(present).get(destination), wanted);
}

/** True if what the group allows on an address, for the ports of a Service, is what it asks for. */
export function isInForce(present: Rules, subject: Subject, destination: string): boolean {
  const wanted = rulesFor(subject)[familyOf(destination) ?? "IPv4"];
  const found = rulesByDestination(present).get(destination) ?? new Map<string, SecurityRule>();
  if (!hasAll(found, wanted)) return false;
  const others = found.size === wanted.size ? [] : [...found].filter(([name]) => !wanted.has(name));
  if (others.length === 0) return true;
  const ports = new Set([...portsOf(subject).values()].flat().map(String));
  return !others.some(([, rule]) => rule.destinationPortRanges?.some((one) => ports.has(one)));
}

/**
 * Services of which the group has exactly the rules that they would get on their addresses, as none has been edited, and no
 * other address.
 */
const haveTheirRules = oncePer((present: Rules) =>
  oncePer(({ subject, left, destinations }: Holder): boolean => {
    const hasItsRules = (destination: string): boolean => {
      const family = familyOf(destination);
      if (family === undefined) return false;
      const wanted = rulesFor(subject)[family];
      const found = rulesByDestination(present).get(destination);
      if (found === undefined) return wanted.size === 0;
      const isIntact = ([name, contentOf]: readonly [string, () => string]): boolean => {
        const rule = found.get(name);
        return rule !== undefined && hasContent(rule, contentOf());
      };
      return (
        wanted.entries().every(isIntact) &&
        found.entries().every(([name, rule]) => wanted.has(name) || !isCleaned(rule))
      );
    };
    return subject.floatingIP && left.length === 0 && destinations.every(hasItsRules);
  }),
);

/**
 * Services that have their rules, on addresses that nothing else of the plan touches: to take them out and to put them in
 * again changes nothing. `nodes`: addresses of nodes.
 */
export function settledHolders(
  present: Rules,
  holders: readonly Holder[],
  nodes: ReadonlySet<string>,
): ReadonlySet<Holder> {
  const owners = new Map<string, number>();
  const count = (address: string): void => void owners.set(address, (owners.get(address) ?? 0) + 1);
  for (const { addresses, left } of holders) for (const list of [addresses, left]) for (const one of list) count(one);
  const hasItsRules = haveTheirRules(present);
  const isSettled = (holder: Holder): boolean =>
    holder.action === "ensure" &&
    hasItsRules(holder) &&
    holder.destinations.every((one) => owners.get(one) === 1 && !nodes.has(one));
  return new Set(holders.filter(isSettled));
}
