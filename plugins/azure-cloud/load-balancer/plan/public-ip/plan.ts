import type { PublicIPAddress } from "@azure/arm-network";
import { defaultLoadBalancerName } from "cloud-controller-host/sdk";

import { groupOf, sameName, startsWithName } from "../../../arm/resource-id.ts";
import { lowerId, sameId } from "../../model/ids.ts";
import type { Family, ServiceKey } from "../../model/model.ts";
import { isPublicIPNameOf } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { addEvent, type Draft, edit, type PlannedService, reject, zonesFor } from "../draft/draft.ts";
import { type Balancer, frontendsWith } from "../draft/edits.ts";
import { type DesiredPublicIP, desiredPublicIP, indexPublicIPs, type PublicIPIndex } from "./desired.ts";
import { ensurePublicIP, overruled } from "./ensure.ts";
import { parseIPTags, sameIPTags } from "./ip-tags.ts";
import { servicesIn, withoutOwner } from "./owners.ts";
import { familyOfPublicIP, ownership } from "./ownership.ts";
import { byKey, sharersOf } from "./sharers.ts";

type PublicIP = Readonly<PublicIPAddress>;

/** The public IP of each family of a Service; a family that waits for its public IP to be created again is absent. */
export type PublicIPTargets = ReadonlyMap<ServiceKey, ReadonlyMap<Family, DesiredPublicIP>>;

/** Drafts of every observed public IP. */
export function draftPublicIPs(draft: Draft): void {
  for (const one of draft.observed.publicIPs)
    if (one.id !== undefined)
      draft.publicIPs.set(lowerId(one), {
        id: one.id,
        resourceGroup: groupOf(one.id),
        name: one.name ?? "",
        observed: one,
        current: one,
        services: new Set(),
      });
}

/** A Service that has the public IPs that it wants, and none to release. */
interface Settled {
  readonly chosen: ReadonlyMap<Family, DesiredPublicIP>;
  /** All that it wants as they are, by lower-case id. */
  readonly publicIPs: ReadonlyMap<string, PublicIP>;
  /** The other Services on them. */
  readonly sharers: readonly Subject[];
}

/** By everything that it follows from, as long as no other Service changes one of its public IPs. */
const settledBy = oncePer((_config: PlannerConfig) =>
  oncePer((_publicIPs: readonly PublicIP[]) =>
    oncePer((_loadBalancers: readonly Balancer[]) => new WeakMap<Subject, Settled>()),
  ),
);

/** Ensures the public IPs of external Services, and releases those that Services no longer use. */
export function planPublicIPs(draft: Draft): PublicIPTargets {
  const { config, observed, services } = draft;
  const index = indexPublicIPs(observed.publicIPs);
  const known = settledBy(config)(observed.publicIPs)(observed.loadBalancers);
  const settled = ({ subject, action }: PlannedService): Settled | undefined => {
    const one = action === "ensure" ? known.get(subject) : undefined;
    return one !== undefined && isAsObserved(draft, one) && hasSameSharers(draft, subject, one) ? one : undefined;
  };
  const targets = new Map<ServiceKey, ReadonlyMap<Family, DesiredPublicIP>>();
  for (const planned of services)
    if (planned.action === "ensure")
      targets.set(planned.subject.key, settled(planned)?.chosen ?? ensureAll(draft, planned.subject, index));
  for (const planned of services) {
    // An edit for another Service may leave it the last owner of a public IP.
    if (settled(planned) !== undefined) continue;
    for (const one of taggedFor(draft, planned.subject)) releaseOne(draft, planned, lowerId(one), targets);
    const chosen = targets.get(planned.subject.key);
    const now = chosen && settledWith(draft, planned.subject, chosen);
    if (now !== undefined) known.set(planned.subject, now);
  }
  return targets;
}

const isAsObserved = ({ publicIPs: drafts }: Draft, { publicIPs }: Pick<Settled, "publicIPs">): boolean =>
  publicIPs.entries().every(([id, one]) => drafts.get(id)?.current === one);

const hasSameSharers = (draft: Draft, subject: Subject, { publicIPs, sharers }: Settled): boolean => {
  const now = sharersOfAll(draft, subject, publicIPs);
  return now.length === sharers.length && now.every((sharer, index) => sharer === sharers[index]);
};

const sharersOfAll = (draft: Draft, subject: Subject, publicIPs: Settled["publicIPs"]): readonly Subject[] =>
  [...publicIPs.values()].flatMap((one) => sharersOf(draft, subject, one));

/** Undefined for a Service that is refused, needs an edit, or waits: it lacks a public IP then. */
function settledWith(draft: Draft, subject: Subject, chosen: Settled["chosen"]): Settled | undefined {
  const { key, internal, families } = subject;
  if (draft.problems.has(key) || (!internal && chosen.size < families.length)) return undefined;
  const wanted = [...chosen.values()].map(({ current }) => current);
  if (wanted.includes(undefined)) return undefined;
  const all = new Set([...wanted, ...taggedFor(draft, subject)].filter((one) => one !== undefined));
  const publicIPs = new Map([...all].map((one) => [lowerId(one), one]));
  return isAsObserved(draft, { publicIPs })
    ? { chosen, publicIPs, sharers: sharersOfAll(draft, subject, publicIPs) }
    : undefined;
}

function ensureAll(draft: Draft, subject: Subject, index: PublicIPIndex): ReadonlyMap<Family, DesiredPublicIP> {
  const chosen = new Map<Family, DesiredPublicIP>();
  if (subject.internal) return chosen;
  // IPv4 comes first, whatever the order of the Service: so do its frontends, and the addresses in its status.
  for (const family of subject.families.toSorted()) {
    const choice = desiredPublicIP(subject, family, index, draft.config);
    if ("problem" in choice) reject(draft, subject.key, choice.problem.code, ...choice.problem.messages);
    else if (isToBeCreatedAgain(draft, subject, family, choice) || isOnRetired(draft, choice))
      draft.pending.add(subject.key);
    else if (isFree(draft, subject, choice)) {
      ensureOne(draft, subject, family, choice);
      chosen.set(family, choice);
    }
  }
  return chosen;
}

/** A single-stack IPv6 Service and the IPv4 half of a dual-stack one have public IPs of one name: neither can become the other. */
function isToBeCreatedAgain(draft: Draft, subject: Subject, family: Family, { id, current }: DesiredPublicIP): boolean {
  if (current === undefined) return false;
  const kept = familyOfPublicIP(current) === family ? current.name : undefined;
  return isReleased(current, subject, kept, draft.config) && isReleasable(draft, subject, { ...current, id });
}

/**
 * True if a public IP with the tags of a Service is one of this cluster: an annotation may name the resource group of
 * another cluster with the same name, where a Service of the same namespace and name has its own.
 */
function isReleasable({ config, balancers }: Draft, { base }: Subject, { id = "", name = "" }: PublicIP): boolean {
  const group = groupOf(id);
  return (
    group === config.resourceGroup ||
    group === config.loadBalancerResourceGroup ||
    isPublicIPNameOf(config.clusterName, base, name) ||
    balancers.values().some(({ observed }) => observed !== undefined && frontendsWith(observed, id).length > 0)
  );
}

/** The SKU of a public IP can only be changed once its basic load balancer is deleted. */
function isOnRetired({ retired }: Draft, { current }: DesiredPublicIP): boolean {
  const user = current?.ipConfiguration?.id ?? "";
  return retired.values().some(({ id }) => startsWithName(user, `${id}/`));
}

/** A user's public IP must not belong to anything but the load balancers of the cluster. */
function isFree(draft: Draft, subject: Subject, { name, current }: DesiredPublicIP): boolean {
  const user = current?.ipConfiguration?.id;
  if (current === undefined || user === undefined) return true;
  if (!ownership(current, subject, draft.config.clusterName).userAssigned || isOfCluster(draft, user)) return true;
  reject(draft, subject.key, "PublicIPInUse", `public IP ${name} is in use by ${user}`);
  return false;
}

/** True if an IP configuration is a frontend of an observed load balancer. */
export const isOfCluster = (draft: Draft, ipConfigurationId: string): boolean => {
  const [, id] = /^(.+)\/frontendIPConfigurations\//iu.exec(ipConfigurationId) ?? [];
  return id !== undefined && draft.balancers.values().some((one) => one.id.toLowerCase() === id.toLowerCase());
};

function ensureOne(draft: Draft, subject: Subject, family: Family, desired: DesiredPublicIP): void {
  const id = lowerId(desired.current ?? desired);
  const known = draft.publicIPs.get(id);
  const current = known?.current;
  const { config } = draft;
  const zones = current === undefined ? zonesFor(draft, subject.key) : [];
  const sharers = current === undefined ? [] : sharersOf(draft, subject, current);
  const ensured = ensurePublicIP(subject, family, { ...desired, current }, { config, zones, sharers });
  if ("problem" in ensured) return reject(draft, subject.key, ensured.problem.code, ...ensured.problem.messages);
  for (const message of overruled(ensured.publicIP, subject, sharers))
    addEvent(draft, subject.key, { type: "Warning", reason: "AnnotationIgnored", message });
  if (known !== undefined) edit(known, subject.key, () => ensured.publicIP);
  else
    draft.publicIPs.set(id, {
      id: desired.id,
      resourceGroup: desired.group,
      name: desired.name,
      observed: undefined,
      current: ensured.publicIP,
      services: new Set([subject.key]),
    });
}

/** By the owners that their tags name, in lower case. */
const byOwner = oncePer((publicIPs: readonly PublicIP[]): ReadonlyMap<string, readonly PublicIP[]> => {
  const owned = new Map<string, PublicIP[]>();
  for (const one of publicIPs)
    for (const owner of servicesIn(one.tags)) owned.getOrInsertComputed(owner.toLowerCase(), () => []).push(one);
  return owned;
});

const taggedFor = ({ observed }: Draft, { key }: Subject): readonly PublicIP[] =>
  byOwner(observed.publicIPs).get(key.toLowerCase()) ?? [];

/** The public IPs that a Service of this cluster owns. */
export const ownPublicIPs = (draft: Draft, subject: Subject): readonly PublicIP[] =>
  taggedFor(draft, subject).filter((one) => ownership(one, subject, draft.config.clusterName).owned);

function releaseOne(draft: Draft, { subject, action }: PlannedService, id: string, targets: PublicIPTargets): void {
  const one = draft.publicIPs.get(id);
  if (one?.current === undefined) return;
  const { current } = one;
  if (!isReleasable(draft, subject, current)) return;
  if (action === "delete") {
    if (isOfSuccessor(draft, subject, current)) return;
    const release = releaseFromDeleted(current, subject, draft.config);
    if (release === "delete") remove(one, subject.key);
    else edit(one, subject.key, () => release.keep);
    return;
  }
  if (isOnRetired(draft, { ...one, group: one.resourceGroup, current })) return;
  const desired = targets.get(subject.key)?.get(familyOfPublicIP(current));
  // One of the same name may be in another resource group.
  const name = sameId(desired?.id, one.id) ? desired?.name : undefined;
  if (isReleased(current, subject, name, draft.config)) remove(one, subject.key);
}

/** Another Service may have the name of one that is deleted, and its public IP the same tags. */
function isOfSuccessor({ observed, config }: Draft, { key, base }: Subject, { name = "" }: PublicIP): boolean {
  const successor = byKey(observed.services).get(key);
  const own = successor && defaultLoadBalancerName(successor);
  return own !== undefined && own !== base && isPublicIPNameOf(config.clusterName, own, name);
}

function remove(one: { current: unknown; readonly services: Set<ServiceKey> }, key: ServiceKey): void {
  one.current = undefined;
  one.services.add(key);
}

/** `keep` with the desired object, or `delete`. */
type Release = { readonly keep: PublicIP } | "delete";

/**
 * Decides on a public IP of a Service that is deleted: the last owner deletes it, an earlier one leaves the tag. Source:
 * upstream `reconcilePublicIPs` and `shouldReleaseExistingOwnedPublicIP`.
 */
export function releaseFromDeleted(publicIP: PublicIP, subject: Subject, config: PlannerConfig): Release {
  const { owned, userAssigned } = ownership(publicIP, subject, config.clusterName);
  const tags = withoutOwner(publicIP.tags, subject.key);
  if (!owned || userAssigned || tags === publicIP.tags || tags === undefined) return { keep: publicIP };
  return servicesIn(tags).length === 0 ? "delete" : { keep: { ...publicIP, tags: { ...tags } } };
}

/**
 * Decides on a public IP of a Service that stays: it is deleted when it is the Service's alone and the Service has
 * another one or none now, or when its IP tags can only be changed by creating it again.
 */
export function isReleased(
  publicIP: PublicIP,
  subject: Subject,
  desired: string | undefined,
  config: PlannerConfig,
): boolean {
  const { owned, userAssigned } = ownership(publicIP, subject, config.clusterName);
  const [owner, ...others] = servicesIn(publicIP.tags);
  if (!owned || userAssigned || others.length > 0 || !sameName(owner ?? "", subject.key)) return false;
  return desired === undefined || !sameName(publicIP.name ?? "", desired) || hasOtherIPTags(publicIP, subject, config);
}

function hasOtherIPTags({ ipTags }: PublicIP, { settings }: Subject, { mutateIPTags }: PlannerConfig): boolean {
  const asked = settings.get(annotations.pipIPTags);
  return !mutateIPTags && asked !== undefined && !sameIPTags(parseIPTags(asked), ipTags);
}
