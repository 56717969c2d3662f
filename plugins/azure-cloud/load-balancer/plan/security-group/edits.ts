import { familyOf } from "../../model/addresses.ts";
import type { Family } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { accessOf, portsOf, type RuleProtocol, ruleProtocols } from "./access.ts";
import {
  contentOfAllowing,
  contentOfDenying,
  contentOfSources,
  type Opening,
  sourceContentOf,
} from "./rule-contents.ts";
import { allowRuleName, denyRuleName, type RuleSet } from "./rules.ts";

/** A Service of the cluster with the addresses that its security rules are for. */
export interface Holder {
  readonly subject: Subject;
  /** Frontend addresses and additional ones. */
  readonly addresses: readonly string[];
  /** Destinations of the rules: `addresses`, or those of the nodes without floating IP. */
  readonly destinations: readonly string[];
  /** Addresses of its status that it does not have any more: another Service may keep them open for itself. */
  readonly left: readonly string[];
  /** Destinations that keep a rule which denies everything else; a Service with `ensure` adds its own again. */
  readonly denied: readonly string[];
  /** `keep` for Services that are not planned now, or that wait for their address. */
  readonly action: "ensure" | "delete" | "keep";
}

type Ports = ReadonlyMap<RuleProtocol, ReadonlySet<number>>;

function openPorts(subjects: readonly Subject[]): Ports {
  const open = new Map<RuleProtocol, Set<number>>(ruleProtocols.map((protocol) => [protocol, new Set()]));
  for (const subject of subjects)
    for (const [protocol, ports] of portsOf(subject)) for (const port of ports) open.get(protocol)?.add(port);
  return open;
}

/** Destinations with the other Services that have rules on any of them, and `at` one of them. */
export interface SharedDestinations {
  readonly destinations: readonly string[];
  readonly sharers: readonly Holder[];
  readonly at?: (destination: string) => readonly Holder[];
}

/**
 * Closes everything on these destinations that none of `sharers` has open. `asUpstream`: a rule that has only ports of
 * sharers keeps them all, so that a cluster of upstream's is taken over without a write. Its sources must be allowed by
 * that Service: no port of its own address stays open to others.
 */
export function clean(
  set: RuleSet,
  { destinations, sharers, at }: SharedDestinations,
  { asUpstream }: { readonly asUpstream: Subject | undefined },
): void {
  const subjectsOf = (holders: readonly Holder[]) => holders.map(({ subject }) => subject);
  const retained = openPorts(subjectsOf(sharers));
  // Asked for in each rule; most destinations have all of the sharers.
  const open = new Map<string, Ports>();
  const openAt = (destination: string): Ports => {
    const known = open.get(destination);
    if (known !== undefined) return known;
    const found = at === undefined ? sharers : at(destination);
    const ports = found.length === sharers.length ? retained : openPorts(subjectsOf(found));
    open.set(destination, ports);
    return ports;
  };
  const split = byFamily(destinations);
  for (const protocol of ruleProtocols)
    for (const [, removed] of split)
      set.remove(
        protocol,
        removed,
        (one) => portsFor(protocol, openAt(one)),
        (rule, ports) =>
          asUpstream !== undefined &&
          allowedSources(asUpstream).has(sourceContentOf(rule)) &&
          ports.every((port) => portsFor(protocol, retained).has(port)),
      );
  const denied = new Set(sharers.flatMap((one) => one.denied));
  set.removeDenied(destinations.filter((one) => !denied.has(one)));
}

const portsFor = (protocol: RuleProtocol, ports: Ports): ReadonlySet<number> => ports.get(protocol) ?? new Set();

/**
 * A Service that gives up floating IP keeps the rules for its addresses, as upstream, but none without a port that it
 * still has: nothing else would remove it. An address that it shares is left to the others, which may use more ports
 * than they ask for now.
 */
export function cleanFormerPorts(set: RuleSet, { addresses, destinations, subject }: Holder, shared: Addresses): void {
  const own = addresses.filter((one) => !destinations.includes(one) && !shared.has(one));
  const retained = openPorts([{ ...subject, floatingIP: true }]);
  for (const protocol of ruleProtocols) set.removeUnused(protocol, own, portsFor(protocol, retained));
}

type Addresses = ReadonlySet<string>;

/**
 * Takes node addresses out of the rules, apart from node ports of Services that are not planned now: nothing else would
 * notice that a Service has floating IP again.
 */
export function cleanNodes(set: RuleSet, holders: readonly Holder[], nodes: ReadonlySet<string>): void {
  const addresses = set.among(nodes);
  const keeping = holders.filter(({ action, subject }) => action === "keep" && !subject.floatingIP);
  const split = byFamily(addresses);
  for (const protocol of ruleProtocols) {
    const retained = new Set(keeping.flatMap(({ subject }) => portsOf(subject).get(protocol) ?? []));
    for (const [, removed] of split) set.remove(protocol, removed, () => retained);
  }
  if (!keeping.some(({ subject }) => accessOf(subject).denyAll)) set.removeDenied(addresses);
}

const families = ["IPv4", "IPv6"] as const;

/** The destinations of each family that has any. */
function byFamily(destinations: readonly string[]): readonly (readonly [Family, readonly string[]])[] {
  const found = Map.groupBy(destinations, familyOf);
  return families.flatMap((family) => {
    const split = found.get(family);
    return split === undefined ? [] : [[family, split] as const];
  });
}

interface Openings {
  readonly allowed: readonly Opening[];
  readonly denyAll: boolean;
}

/** Openings of a Service on its destinations, in the order in which new rules get priorities. */
const openingsOf = oncePer((subject: Subject): Openings => {
  if (subject.settings.get(annotations.disableSecurityRules)) return { allowed: [], denyAll: false };
  const { tags, ranges, denyAll } = accessOf(subject);
  const opened = portsOf(subject);
  const allowed = ruleProtocols.flatMap((protocol) => {
    const ports = opened.get(protocol);
    if (ports === undefined) return [];
    return families.flatMap((family) =>
      [...tags.map((tag) => [tag]), ...(ranges[family].length > 0 ? [ranges[family]] : [])].map((sources): Opening => ({
        protocol,
        family,
        sources,
        ports,
      })),
    );
  });
  return { allowed, denyAll };
});

/** The sources of its openings: it has as many as service tags, and the group as many rules. */
const allowedSources = oncePer(
  (subject: Subject): ReadonlySet<string> =>
    new Set(openingsOf(subject).allowed.map(({ sources }) => contentOfSources(sources))),
);

/** Opens the ports of a Service. */
export function patch(set: RuleSet, { subject, destinations }: Holder): void {
  const { allowed, denyAll } = openingsOf(subject);
  const split = new Map(byFamily(destinations));
  for (const opening of allowed) {
    const ofFamily = split.get(opening.family);
    if (ofFamily !== undefined) set.allow({ ...opening, destinations: ofFamily });
  }
  if (denyAll) for (const [family, ofFamily] of split) set.deny(family, ofFamily);
}

/** Contents by names of rules, on demand: hundreds of rules, with thousands of ports each, may be absent. */
export type RuleContents = ReadonlyMap<string, () => string>;

/** The rules that `patch` adds a destination of each family to. */
export const rulesFor = oncePer((subject: Subject): Readonly<Record<Family, RuleContents>> => {
  const { allowed, denyAll } = openingsOf(subject);
  const of = (family: Family) =>
    new Map([
      ...allowed.flatMap((opening) =>
        opening.family === family ? [[allowRuleName(opening), () => contentOfAllowing(opening)] as const] : [],
      ),
      ...(denyAll ? [[denyRuleName(family), () => contentOfDenying] as const] : []),
    ]);
  return { IPv4: of("IPv4"), IPv6: of("IPv6") };
});

/** The prefixes that the rules of a Service add to the group, at most: it may share rules with others. */
export function maxPrefixesOf({ subject, destinations }: Holder): Readonly<Record<"sources" | "destinations", number>> {
  const { tags, ranges } = accessOf(subject);
  const protocols = portsOf(subject).size;
  const sources = families.length * tags.length + ranges.IPv4.length + ranges.IPv6.length;
  return {
    sources: protocols * sources + families.length,
    destinations: destinations.length * (protocols * (tags.length + 1) + 1),
  };
}
