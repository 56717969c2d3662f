import { createHash } from "node:crypto";

import type { SecurityRule } from "@azure/arm-network";

import { sameName } from "../../../arm/resource-id.ts";
import { familyOf } from "../../model/addresses.ts";
import type { Family } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import { type RuleProtocol, ruleProtocols } from "./access.ts";
import {
  contentOfAllowing,
  contentOfDenying,
  destinationsOf,
  hasContent,
  type Opening,
  sourcesOf,
  textsOf,
  withContent,
} from "./rule-contents.ts";

type Rule = Readonly<SecurityRule>;

const prefix = "k8s-azure-lb";
/** Priorities of managed rules, both ends included; the last is never given to a new rule. */
const lowest = 500;
const highest = 4096;

/** Other rules belong to users and are never touched. */
export const isManaged = ({ name = "", priority = 0 }: Rule): boolean =>
  name.startsWith(prefix) && priority >= lowest && priority <= highest;

/** Source: upstream `GenerateAllowSecurityRuleName`. */
export function allowRuleName({
  protocol,
  family,
  sources,
  ports,
}: Omit<Opening, "protocol"> & { readonly protocol: string }): string {
  const text = [protocol, sources.toSorted().join(","), textsOf(ports).joined].join("_");
  return `${prefix}_allow_${family}_${createHash("md5").update(text).digest("hex")}`;
}

export const denyRuleName = (family: Family): string => `${prefix}_deny-all_${family}`;

/** Ports of an allow rule; `undefined` when they are ranges or all: such a rule is not ours to split. */
function portsOfRule({ destinationPortRange, destinationPortRanges = [] }: Rule): readonly number[] | undefined {
  const texts = destinationPortRange ? [...destinationPortRanges, destinationPortRange] : destinationPortRanges;
  return texts.every((text) => /^\d+$/u.test(text)) ? texts.map(Number) : undefined;
}

/** One destination is written as a single prefix, several as a sorted list. */
function withDestinations(rule: Rule, destinations: Iterable<string>): Rule {
  const sorted = [...new Set(destinations)].toSorted();
  const { destinationAddressPrefix: _one, destinationAddressPrefixes: _several, ...rest } = rule;
  const [only, ...more] = sorted;
  if (only === undefined) return rest;
  return more.length === 0
    ? { ...rest, destinationAddressPrefix: only }
    : { ...rest, destinationAddressPrefixes: sorted };
}

interface AllowRule extends Opening {
  readonly destinations: readonly string[];
}

function newAllowRule(name: string, { protocol, sources, ports, destinations }: AllowRule, priority: number): Rule {
  const [source, ...more] = sources;
  const rule: Rule = {
    name,
    protocol,
    access: "Allow",
    direction: "Inbound",
    priority,
    sourcePortRange: "*",
    ...(source !== undefined && more.length === 0
      ? { sourceAddressPrefix: source }
      : { sourceAddressPrefixes: [...sources] }),
    destinationPortRanges: [...textsOf(ports).sorted],
  };
  return withDestinations(rule, destinations);
}

const newDenyRule = (family: Family, destinations: readonly string[], priority: number): Rule =>
  withDestinations(
    {
      name: denyRuleName(family),
      protocol: "*",
      access: "Deny",
      direction: "Inbound",
      priority,
      sourcePortRange: "*",
      sourceAddressPrefix: "*",
      destinationPortRange: "*",
    },
    destinations,
  );

const setOf = oncePer((list: readonly string[]): ReadonlySet<string> => new Set(list));

/** Items of a list that are in a set. A cluster has thousands of nodes and of rules, and a rule has few destinations. */
const among = (list: readonly string[], set: ReadonlySet<string>): readonly string[] =>
  list.length > set.size && set.isDisjointFrom(setOf(list)) ? [] : list.filter((one) => set.has(one));

/** True for a rule out of which `remove` and `removeDenied` take whatever destination no other Service needs there. */
export const isCleaned = (rule: Rule): boolean =>
  rule.access === "Deny" ||
  (rule.access === "Allow" &&
    ruleProtocols.some((one) => one === rule.protocol) &&
    (portsOfRule(rule) ?? []).length > 0);

interface ManagedRule {
  readonly rule: Rule;
  readonly destinations: Set<string>;
}

/** The rules of a security group with the destinations of managed ones as sets, for many edits in a row. */
export class RuleSet {
  readonly #rules = new Map<string, ManagedRule>();
  readonly #others: Rule[];
  readonly #priorities: Set<number>;
  /** Every priority below, or above, is taken: none is ever given back. */
  #nextLowest = lowest;
  #nextHighest = highest - 1;

  constructor(rules: readonly Rule[]) {
    this.#others = rules.filter((rule) => !isManaged(rule));
    this.#priorities = new Set(rules.map(({ priority = 0 }) => priority));
    for (const rule of rules)
      if (isManaged(rule)) this.#rules.set(rule.name ?? "", { rule, destinations: new Set(destinationsOf(rule)) });
  }

  get size(): number {
    return this.#rules.size + this.#others.length;
  }

  /**
   * Takes destinations out of the rules of a protocol. A destination stays in a rule all of whose ports other Services
   * use there (`portsOn`); from another one, the ports that are in use move to a rule of their own. A rule that `isRetained`
   * stays as it is. Source: upstream `RemoveDestinationFromRules`, which retains the ports that are in use on any of the
   * destinations.
   */
  remove(
    protocol: RuleProtocol,
    removed: readonly string[],
    portsOn: (destination: string) => ReadonlySet<number>,
    isRetained: (rule: Rule, ports: readonly number[]) => boolean = () => false,
  ): void {
    for (const { rule, destinations } of this.#rules.values()) {
      if (rule.protocol !== protocol || rule.access !== "Allow") continue;
      const present = among(removed, destinations);
      const ports = present.length === 0 ? undefined : portsOfRule(rule);
      if (ports === undefined || isRetained(rule, ports)) continue;
      const affected = present.filter((one) => !ports.every((port) => portsOn(one).has(port)));
      for (const one of affected) destinations.delete(one);
      const family = familyOf(affected[0] ?? "") ?? "IPv4";
      const moving = Map.groupBy(affected, (one) => ports.filter((port) => portsOn(one).has(port)).join());
      for (const [list, moved] of moving)
        if (list !== "") {
          const staying = list.split(",").map(Number);
          this.allow({ protocol, family, sources: sourcesOf(rule), ports: staying, destinations: moved });
        }
    }
  }

  /** Takes destinations out of the rules of a protocol that have none of the `retained` ports. */
  removeUnused(protocol: RuleProtocol, removed: readonly string[], retained: ReadonlySet<number>): void {
    for (const { rule, destinations } of this.#rules.values()) {
      if (rule.protocol !== protocol || rule.access !== "Allow") continue;
      const isUsed = portsOfRule(rule)?.some((port) => retained.has(port)) ?? true;
      if (!isUsed) for (const one of removed) destinations.delete(one);
    }
  }

  /** Takes destinations out of the rules that deny everything. */
  removeDenied(removed: readonly string[]): void {
    for (const { rule, destinations } of this.#rules.values())
      if (rule.access === "Deny") for (const one of removed) destinations.delete(one);
  }

  allow(wanted: AllowRule): void {
    const name = allowRuleName(wanted);
    this.#add(
      name,
      wanted.destinations,
      () => contentOfAllowing(wanted),
      (priority = this.#lowestFree()) => newAllowRule(name, { ...wanted, destinations: [] }, priority),
    );
  }

  deny(family: Family, destinations: readonly string[]): void {
    this.#add(
      denyRuleName(family),
      destinations,
      () => contentOfDenying,
      (priority = this.#highestFree()) => newDenyRule(family, [], priority),
    );
  }

  /** The destinations of all rules that are in a set. */
  among(addresses: ReadonlySet<string>): readonly string[] {
    return [...new Set(this.#rules.values().flatMap(({ destinations }) => destinations.intersection(addresses)))];
  }

  /** Keeps only destinations for which `isKnown` holds; with `ports`, only in rules that have no other ones. */
  retain(isKnown: (destination: string) => boolean, ports?: ReadonlySet<number>): void {
    for (const { rule, destinations } of this.#rules.values())
      if (ports === undefined || portsOfRule(rule)?.every((port) => ports.has(port)) === true)
        for (const one of destinations) if (!isKnown(one)) destinations.delete(one);
  }

  /** The desired rules; unchanged ones are the same objects, rules without destinations are left out. */
  list(): readonly Rule[] {
    const managed = this.#rules.values().flatMap(({ rule, destinations }) => {
      const present = destinationsOf(rule);
      if (destinations.size === 0 && !rule.destinationApplicationSecurityGroups?.length) return [];
      const same = present.length === destinations.size && present.every((one) => destinations.has(one));
      return [same ? rule : withDestinations(rule, destinations)];
    });
    return [...this.#others, ...managed];
  }

  /** A user may have edited the rule. */
  #add(name: string, added: readonly string[], content: () => string, create: (priority?: number) => Rule): void {
    const known = this.#rules.get(name) ?? this.#adopted(name);
    if (known === undefined) return this.#set(name, create(), new Set(added));
    for (const one of added) known.destinations.add(one);
    const { rule, destinations } = known;
    if (!hasContent(rule, content())) this.#set(name, withContent(rule, create(rule.priority)), destinations);
  }

  /** The rule of this name to which a user has given a priority of users' rules: ARM takes no second one. */
  #adopted(name: string): ManagedRule | undefined {
    const at = this.#others.findIndex((rule) => sameName(rule.name ?? "", name));
    const [rule] = at < 0 ? [] : this.#others.splice(at, 1);
    if (rule !== undefined) this.#set(name, rule, new Set(destinationsOf(rule)));
    return this.#rules.get(name);
  }

  #set(name: string, rule: Rule, destinations: Set<string>): void {
    this.#priorities.add(rule.priority ?? 0);
    this.#rules.set(name, { rule, destinations });
  }

  #lowestFree(): number {
    while (this.#priorities.has(this.#nextLowest)) this.#nextLowest += 1;
    return this.#nextLowest;
  }

  #highestFree(): number {
    while (this.#priorities.has(this.#nextHighest)) this.#nextHighest -= 1;
    return this.#nextHighest;
  }
}
