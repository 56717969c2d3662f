import type { NetworkSecurityGroup, SecurityRule } from "@azure/arm-network";

import { lowerId, securityGroupId } from "../../model/ids.ts";
import type { ServiceKey } from "../../model/model.ts";
import { isServiceFrontend } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { reconcileTags } from "../../model/tags.ts";
import { isShared } from "../../service/identity.ts";
import { type Draft, reject, type ResourceDraft } from "../draft/draft.ts";
import { addressOf } from "../draft/ingress.ts";
import { portsOf } from "./access.ts";
import { clean, cleanFormerPorts, cleanNodes, type Holder, patch, type SharedDestinations } from "./edits.ts";
import { type BackendAddresses, holdersOf } from "./holders.ts";
import { chosenAddresses, nodeAddresses } from "./kept-holder.ts";
import { contentOf, destinationsOf, hasContent } from "./rule-contents.ts";
import { RuleSet } from "./rules.ts";
import { settledHolders } from "./settled.ts";
import { rejectTooManyPrefixes, rejectTooManyRules, warnOfPrefixes } from "./size.ts";

type Group = Readonly<NetworkSecurityGroup>;

/** `closing`: Services whose ports are closed before their frontends go, in a group that deployments share. */
export interface SecurityGroupDraft extends ResourceDraft<Group> {
  readonly closing: readonly ServiceKey[];
}

/**
 * Plans the rules of all Services in the one security group. A missing group stops Services that need it, but never a
 * deletion. Source: upstream `reconcileSecurityGroup`.
 */
export function planSecurityGroup(draft: Draft, backendAddresses: BackendAddresses): SecurityGroupDraft | undefined {
  const { config, observed } = draft;
  const group = observed.securityGroup;
  if (config.securityGroup === "" || group === undefined) {
    for (const { subject, action } of draft.services)
      if (action === "ensure") reject(draft, subject.key, "SecurityGroupNotFound", missing(config));
    return undefined;
  }
  const holders = holdersOf(draft, backendAddresses);
  const active = holders.filter(({ action, left }) => action !== "keep" || left.length > 0);
  if (active.length === 0) return undefined;
  const present = group.securityRules ?? [];
  const rules = planRules(draft, present, holders, active);
  const changed = changedDestinations(present, rules);
  const isChanged = (address: string): boolean => changed.has(address);
  const involved = active.filter(({ destinations, left }) => destinations.some(isChanged) || left.some(isChanged));
  warnOfPrefixes(draft, present, rules, involved);
  const closing = isShared(draft) ? involved.filter((holder) => isClosing(holder, changed)) : [];
  return {
    id: group.id ?? securityGroupId(config),
    resourceGroup: config.securityGroupResourceGroup,
    name: group.name ?? config.securityGroup,
    observed: group,
    current: withTags(withRules(group, rules), draft),
    services: keysOf(involved.length > 0 ? involved : active),
    closing: [...keysOf(closing)],
  };
}

const keysOf = (holders: readonly Holder[]): Set<ServiceKey> => new Set(holders.map(({ subject }) => subject.key));

/**
 * True if a Service leaves an address that the write closes. Where deployments share the group, each leaves the rules of
 * addresses that it does not know, and the frontend alone may tell this one: it never was in the status, or the API server
 * has cleared that with the type.
 */
const isClosing = ({ action, left }: Holder, changed: ReadonlySet<string>): boolean =>
  action === "delete" || left.some((one) => changed.has(one));

/**
 * Destinations that some rule gains or loses, and all of a rule that gets back what a user has edited: a write concerns the
 * Services that have them.
 */
function changedDestinations(before: readonly SecurityRule[], after: readonly SecurityRule[]): ReadonlySet<string> {
  const same = new Set(before).intersection(new Set(after));
  const changedIn = (rules: readonly SecurityRule[]) =>
    new Map(rules.flatMap((rule) => (same.has(rule) ? [] : [[rule.name, rule] as const])));
  const [old, next] = [changedIn(before), changedIn(after)];
  const names = new Set([...old.keys(), ...next.keys()]);
  const changedOf = (one: SecurityRule | undefined, other: SecurityRule | undefined): ReadonlySet<string> => {
    const [left, right] = [new Set(destinationsOf(one ?? {})), new Set(destinationsOf(other ?? {}))];
    return one && other && hasContent(one, contentOf(other)) ? left.symmetricDifference(right) : left.union(right);
  };
  return new Set([...names].flatMap((name) => [...changedOf(old.get(name), next.get(name))]));
}

const missing = ({ securityGroup, securityGroupResourceGroup }: PlannerConfig): string =>
  securityGroup === ""
    ? "cloud config: securityGroupName is not configured"
    : `security group ${securityGroup} was not found in resource group ${securityGroupResourceGroup}; create it, or correct securityGroupName or securityGroupResourceGroup in the cloud config`;

/** The group with the rules; the same object if they are the ones that it has. */
function withRules(group: Group, rules: readonly SecurityRule[]): Group {
  const present = group.securityRules ?? [];
  const known = new Set(present);
  const same = present.length === rules.length && rules.every((rule) => known.has(rule));
  return same ? group : { ...group, securityRules: [...rules] };
}

function withTags(group: Group, { config }: Draft): Group {
  if (config.tags.size === 0) return group;
  const tags = reconcileTags(group.tags, config.tags, config.systemTags);
  return tags === group.tags || tags === undefined ? group : { ...group, tags: { ...tags } };
}

function planRules(
  draft: Draft,
  present: readonly SecurityRule[],
  holders: readonly Holder[],
  active: readonly Holder[],
): readonly SecurityRule[] {
  const set = new RuleSet(present);
  const nodes = addressSet(nodeAddresses(draft.observed.nodes));
  cleanNodes(set, holders, nodes);
  const settled = settledHolders(present, holders, nodes);
  const edited = active.filter((holder) => !settled.has(holder));
  if (edited.length > 0) removeDestinations(set, edited, sharersByAddress(holders));
  const added = new Map<Holder, number>();
  for (const holder of edited.filter(({ action }) => action === "ensure")) {
    const before = set.size;
    patch(set, holder);
    if (set.size > before) added.set(holder, set.size - before);
  }
  if (!hasUnreadAddress(draft))
    set.retain(knownDestinations(draft, holders), isShared(draft) ? nodePortsOf(holders) : undefined);
  const rules = set.list();
  rejectTooManyRules(draft, rules.length, added);
  rejectTooManyPrefixes(draft, rules, active);
  return rules;
}

/** Closes what Services have open, apart from what others need there. */
function removeDestinations(set: RuleSet, edited: readonly Holder[], sharing: Sharing): void {
  for (const holder of edited) {
    if (holder.action !== "keep")
      for (const shared of sharing.onDestinations(holder))
        clean(set, shared, { asUpstream: holder.action === "ensure" ? holder.subject : undefined });
    clean(set, sharing.onLeft(holder), { asUpstream: undefined });
    if (holder.action === "ensure" && !holder.subject.floatingIP) cleanFormerPorts(set, holder, sharing.shared(holder));
  }
}

/** Ports that are open on nodes: all deployments know the nodes, and only this one knows of those that are gone. */
const nodePortsOf = (holders: readonly Holder[]): ReadonlySet<number> =>
  new Set(holders.flatMap(({ subject }) => (subject.floatingIP ? [] : [...portsOf(subject).values()].flat())));

const addressSet = oncePer((addresses: readonly string[]): ReadonlySet<string> => new Set(addresses));

interface Sharing {
  /** A Service's destinations with the other Services that have rules on them. */
  onDestinations(holder: Holder): readonly SharedDestinations[];
  /** Addresses of a Service that others have, too. */
  shared(holder: Holder): ReadonlySet<string>;
  /** Addresses that it has left, and who has them. */
  onLeft(holder: Holder): SharedDestinations;
}

function sharersByAddress(holders: readonly Holder[]): Sharing {
  const staying = holders.filter(({ action }) => action !== "delete");
  const withoutFloating = staying.filter(({ subject }) => !subject.floatingIP);
  const byAddress = new Map<string, Holder[]>();
  for (const holder of staying)
    for (const address of holder.addresses) {
      const known = byAddress.get(address);
      if (known === undefined) byAddress.set(address, [holder]);
      else known.push(holder);
    }
  const at = (addresses: readonly string[]): readonly Holder[] => addresses.flatMap((one) => byAddress.get(one) ?? []);
  const others = (found: readonly Holder[], holder: Holder): readonly Holder[] =>
    [...new Set(found)].filter((other) => other !== holder);
  return {
    onDestinations: (holder) => {
      const addresses = new Set(holder.addresses);
      const nodes = holder.destinations.filter((one) => !addresses.has(one));
      const own = holder.destinations.filter((one) => addresses.has(one));
      return [
        { destinations: nodes, sharers: others(withoutFloating, holder) },
        { destinations: own, sharers: others(at(own), holder), at: (one) => others(at([one]), holder) },
      ];
    },
    shared: (holder) => new Set(holder.addresses.filter((one) => (byAddress.get(one) ?? []).length > 1)),
    onLeft: (holder) => ({
      destinations: holder.left,
      sharers: others(at(holder.left), holder),
      at: (one) => others(at([one]), holder),
    }),
  };
}

/** True if the address of a Service's frontend could not be read: any destination may be that address. */
const hasUnreadAddress = ({ balancers, publicIPs }: Draft): boolean =>
  balancers
    .values()
    .some(({ current }) =>
      current?.frontendIPConfigurations?.some(
        ({ name, publicIPAddress }) =>
          publicIPAddress?.id !== undefined && !publicIPs.has(lowerId(publicIPAddress)) && isServiceFrontend(name),
      ),
    );

/**
 * Addresses of Services, frontends and nodes: managed rules have no other destinations. The rules of a Service may be
 * written before its load balancer: until then only the Service itself names its address.
 */
function knownDestinations(draft: Draft, holders: readonly Holder[]): (destination: string) => boolean {
  const staying = holders.filter(({ action }) => action !== "delete");
  const known = new Set(staying.flatMap(({ addresses }) => addresses));
  const ofNodes = addressSet(nodeAddresses(draft.observed.nodes));
  let others: ReadonlySet<string> | undefined;
  return (one) => known.has(one) || ofNodes.has(one) || (others ??= otherDestinations(draft, staying)).has(one);
}

/** Addresses of frontends, and those that Services request. Few plans need them: all addresses are known without them. */
const otherDestinations = (draft: Draft, staying: readonly Holder[]): ReadonlySet<string> =>
  new Set([
    ...[...draft.balancers.values()]
      .flatMap(({ current }) => current?.frontendIPConfigurations ?? [])
      .flatMap((frontend) => addressOf(draft, frontend) ?? []),
    ...staying.flatMap(({ subject }) => chosenAddresses(draft, subject)),
  ]);
