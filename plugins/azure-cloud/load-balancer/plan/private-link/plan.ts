import type { PrivateLinkService, Subnet } from "@azure/arm-network";

import { isUnprovisioned } from "../../../arm/errors.ts";
import { groupOf, sameName } from "../../../arm/resource-id.ts";
import { lowerId, sameId } from "../../model/ids.ts";
import { reconcileTags } from "../../model/tags.ts";
import { fullKey } from "../../service/annotation-rows.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { type Draft, reject, type ResourceDraft, type UsedFrontend } from "../draft/draft.ts";
import { desiredIPConfigurations, sameIPConfigurations } from "./ip-configurations.ts";
import { clusterTag, isOfThisCluster, linkOf, ownerTag } from "./remove.ts";

type Link = Readonly<PrivateLinkService>;

export interface PlannedLinks {
  readonly links: readonly ResourceDraft<Link>[];
  /** Subnets whose network policies must be disabled first. */
  readonly subnets: readonly ResourceDraft<Readonly<Subnet>>[];
}

/** Annotations that configure a private link service; only its owner may have them. */
const configuring = [
  annotations.plsName,
  annotations.plsSubnet,
  annotations.plsCount,
  annotations.plsAddresses,
  annotations.plsFqdns,
  annotations.plsProxyProtocol,
  annotations.plsVisibility,
  annotations.plsAutoApproval,
] as const;

/** Plans private link services. One that is no longer requested stays until its frontend is deleted, as upstream. */
export function planPrivateLinks(draft: Draft): PlannedLinks {
  const links = new Map<string, ResourceDraft<Link>>();
  const subnets = new Map<string, ResourceDraft<Readonly<Subnet>>>();
  for (const { subject, action } of draft.services) {
    if (action !== "ensure" || !subject.settings.get(annotations.plsCreate)) continue;
    for (const used of draft.frontends.get(subject.key) ?? [])
      if (used.family === "IPv4") planLink(draft, subject, used, { links, subnets });
  }
  return { links: [...links.values()], subnets: [...subnets.values()] };
}

interface Found {
  readonly links: Map<string, ResourceDraft<Link>>;
  readonly subnets: Map<string, ResourceDraft<Readonly<Subnet>>>;
}

function planLink(draft: Draft, subject: Subject, { frontend }: UsedFrontend, { links, subnets }: Found): void {
  const present = linkOf(draft, frontend.id);
  const problem = present === undefined ? undefined : claimProblem(draft, subject, present);
  if (problem !== undefined) return reject(draft, subject.key, "PrivateLinkServiceConflict", problem);
  if (present !== undefined && !isOwner(present, subject)) return;
  const name = subject.settings.get(annotations.plsName) || (present?.name ?? `pls-${frontend.name}`);
  if (present !== undefined && !sameName(present.name ?? "", name))
    return reject(
      draft,
      subject.key,
      "PrivateLinkServiceRenamed",
      `cannot change existing private link service name ${present.name} to ${name}`,
    );
  const subnetName = subject.settings.get(annotations.plsSubnet) || (subject.subnet ?? draft.config.subnet);
  const subnet = draft.observed.subnets.get(subnetName.toLowerCase());
  if (subnet === undefined)
    return reject(
      draft,
      subject.key,
      "SubnetNotFound",
      `private link service: failed to get subnet: ${draft.config.virtualNetwork.name}/${subnetName}`,
    );
  const start = present ?? newLink(draft, name, frontend.id ?? "");
  const next = withSettings(start, subject, { draft, subnet, name });
  if (next === present && !isUnprovisioned(present)) return;
  const group = present === undefined ? groupFor(draft, subject) : groupOf(present.id);
  const id = present?.id ?? linkId(draft, group, name);
  const holder = present === undefined ? holderOf(draft, links, id) : undefined;
  if (holder !== undefined)
    return reject(
      draft,
      subject.key,
      "PrivateLinkServiceConflict",
      `private link service ${name} is that of frontend ${holder}; use another name`,
    );
  links.set(id.toLowerCase(), {
    id,
    resourceGroup: group,
    name,
    observed: present,
    current: next,
    services: new Set([subject.key]),
  });
  if (subnet.privateLinkServiceNetworkPolicies !== "Disabled") addSubnet(draft, subnets, subnet, subject);
}

/** Name of the other frontend whose private link service has the id after the plan. ARM never moves one. */
function holderOf(draft: Draft, links: Found["links"], id: string): string | undefined {
  const existing = draft.observed.privateLinkServices.find((one) => sameId(one.id, id));
  const link = links.get(id.toLowerCase())?.current ?? existing;
  const held = new Set(link?.loadBalancerFrontendIpConfigurations?.map(lowerId));
  return draft.balancers
    .values()
    .flatMap(({ current }) => current?.frontendIPConfigurations ?? [])
    .find((frontend) => held.has(lowerId(frontend)))?.name;
}

/** Why the Service cannot use the private link service of its frontend. */
function claimProblem(draft: Draft, subject: Subject, link: Link): string | undefined {
  if (!isOfThisCluster(link, draft)) return `frontend already has unmanaged private link service ${link.name}`;
  if (isOwner(link, subject)) return undefined;
  const own = configuring.filter((row) => subject.service.metadata?.annotations?.[fullKey(row)] !== undefined);
  return own.length === 0
    ? undefined
    : `private link service ${link.name} belongs to Service ${link.tags?.[ownerTag]}; remove ${own.map((one) => fullKey(one)).join(", ")} to share it`;
}

const isOwner = ({ tags }: Link, { key }: Subject): boolean => sameName(tags?.[ownerTag] ?? "", key);

const groupFor = ({ config }: Draft, { settings }: Subject): string =>
  settings.get(annotations.plsResourceGroup).toLowerCase() || config.privateLinkResourceGroup;

/** Private link services are in the machines' subscription. */
const linkId = ({ config }: Draft, group: string, name: string): string =>
  `/subscriptions/${config.computeSubscription}/resourceGroups/${group}/providers/Microsoft.Network/privateLinkServices/${name}`;

const newLink = ({ config }: Draft, name: string, frontendId: string): Link => ({
  name,
  location: config.location,
  ...(config.extendedLocation && { extendedLocation: config.extendedLocation }),
  loadBalancerFrontendIpConfigurations: [{ id: frontendId }],
});

interface Surroundings {
  readonly draft: Draft;
  readonly subnet: Readonly<Subnet>;
  readonly name: string;
}

/** Source: upstream `getExpectedPrivateLinkService`. */
function withSettings(link: Link, subject: Subject, { draft, subnet, name }: Surroundings): Link {
  const { settings } = subject;
  const ipConfigurations = desiredIPConfigurations(subject, name, subnet);
  const proxy = settings.get(annotations.plsProxyProtocol);
  const fqdns = settings.get(annotations.plsFqdns);
  const visible = settings.get(annotations.plsVisibility);
  const visibility = visible.includes("*") ? ["*"] : visible;
  const approval = settings.get(annotations.plsAutoApproval);
  const sameSubscriptions =
    sameItems(link.visibility?.subscriptions, visibility) && sameItems(link.autoApproval?.subscriptions, approval);
  const desiredTags = new Map([...draft.config.tags, [clusterTag, draft.config.clusterName], [ownerTag, subject.key]]);
  const tags = reconcileTags(link.tags, desiredTags, draft.config.systemTags);
  const changes: Partial<PrivateLinkService> = {
    ...(!sameIPConfigurations(link.ipConfigurations, ipConfigurations) && { ipConfigurations: [...ipConfigurations] }),
    ...((link.enableProxyProtocol ?? false) !== proxy && { enableProxyProtocol: proxy }),
    ...(!sameItems(link.fqdns, fqdns) && { fqdns: [...fqdns] }),
    ...(!sameSubscriptions && {
      visibility: { subscriptions: [...visibility] },
      autoApproval: { subscriptions: [...approval] },
    }),
    ...(tags !== link.tags && tags !== undefined && { tags: { ...tags } }),
  };
  return Object.keys(changes).length === 0 ? link : { ...link, ...changes };
}

const sameItems = (left: readonly string[] = [], right: readonly string[] = []): boolean =>
  left.toSorted().join() === right.toSorted().join();

function addSubnet(
  draft: Draft,
  subnets: Map<string, ResourceDraft<Readonly<Subnet>>>,
  subnet: Readonly<Subnet>,
  { key }: Subject,
): void {
  const name = subnet.name ?? "";
  const known = subnets.get(name.toLowerCase());
  if (known !== undefined) {
    known.services.add(key);
    return;
  }
  subnets.set(name.toLowerCase(), {
    id: subnet.id ?? "",
    resourceGroup: draft.config.virtualNetwork.resourceGroup,
    name,
    observed: subnet,
    current: { ...subnet, privateLinkServiceNetworkPolicies: "Disabled" },
    services: new Set([key]),
  });
}
