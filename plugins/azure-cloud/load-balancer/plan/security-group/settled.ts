import type { SecurityRule } from "@azure/arm-network";

import { familyOf } from "../../model/addresses.ts";
import { oncePer } from "../../model/once-per.ts";
import { type Holder, ruleNamesOf } from "./edits.ts";
import { destinationsOf, isCleaned, isManaged } from "./rules.ts";

type Rules = readonly SecurityRule[];

/** Managed rules by destination. */
const rulesByDestination = oncePer((rules: Rules): ReadonlyMap<string, Rules> => {
  const byName = new Map(rules.filter(isManaged).map((rule) => [rule.name ?? "", rule]));
  const found = new Map<string, SecurityRule[]>();
  for (const rule of byName.values())
    for (const one of new Set(destinationsOf(rule))) found.getOrInsertComputed(one, () => []).push(rule);
  return found;
});

/**
 * Services of which the group has exactly the rules that they would get, on addresses that nothing else of the plan
 * touches: to take them out and to put them in again changes nothing. `nodes`: addresses of nodes.
 */
export function settledHolders(
  present: Rules,
  holders: readonly Holder[],
  nodes: ReadonlySet<string>,
): ReadonlySet<Holder> {
  const byDestination = rulesByDestination(present);
  const owners = new Map<string, number>();
  for (const { addresses, left } of holders)
    for (const one of [...addresses, ...left]) owners.set(one, (owners.get(one) ?? 0) + 1);
  const hasItsRules = ({ subject }: Holder, destination: string): boolean => {
    const family = familyOf(destination);
    if (family === undefined) return false;
    const found = byDestination.get(destination) ?? [];
    const wanted = ruleNamesOf(subject)[family];
    const names = new Set(found.map(({ name = "" }) => name));
    return wanted.isSubsetOf(names) && found.every((rule) => wanted.has(rule.name ?? "") || !isCleaned(rule));
  };
  const isSettled = (holder: Holder): boolean =>
    holder.action === "ensure" &&
    holder.subject.floatingIP &&
    holder.left.length === 0 &&
    holder.destinations.every((one) => owners.get(one) === 1 && !nodes.has(one) && hasItsRules(holder, one));
  return new Set(holders.filter(isSettled));
}
