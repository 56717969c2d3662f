import type { IpTag, PublicIPAddress } from "@azure/arm-network";
import type { ErrorCode } from "cloud-controller-host/sdk";

import { sameName } from "../../../arm/resource-id.ts";
import type { Family, PlanProblem } from "../../model/model.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { overrideTags, parseTags, reconcileTags } from "../../model/tags.ts";
import { type Annotation, fullKey } from "../../service/annotation-rows.ts";
import { annotations } from "../../service/annotations.ts";
import { quoted } from "../../service/readers.ts";
import { type Subject, wantedPrefix } from "../../service/subject.ts";
import type { DesiredPublicIP } from "./desired.ts";
import { parseIPTags, sameIPTags } from "./ip-tags.ts";
import {
  clusterIn,
  clusterTag,
  dnsOwnerIn,
  dnsTag,
  isOwnerTag,
  servicesIn,
  serviceTag,
  type Tags,
  withOwner,
} from "./owners.ts";
import { familyOfPublicIP, ownership } from "./ownership.ts";

type PublicIP = Readonly<PublicIPAddress>;

type Ensured = { readonly publicIP: PublicIP } | { readonly problem: PlanProblem };

const problem = (code: ErrorCode, message: string): Ensured => ({ problem: { code, messages: [message] } });

interface Circumstances {
  readonly config: PlannerConfig;
  /** Of a public IP that is created. */
  readonly zones: readonly string[];
  /** Services that share the public IP. */
  readonly sharers?: readonly Subject[];
}

/**
 * The public IP as the Service wants it; the same object as observed when nothing changes. One that a user
 * created is only checked, apart from a DNS label that the Service asks for. Source: upstream `ensurePublicIPExists`.
 */
export function ensurePublicIP(
  subject: Subject,
  family: Family,
  { name, current }: DesiredPublicIP,
  circumstances: Circumstances,
): Ensured {
  const { config, zones, sharers = [] } = circumstances;
  const start = current ?? newPublicIP(subject, family, { name, config, zones });
  const userAssigned = current !== undefined && ownership(current, subject, config.clusterName).userAssigned;
  const unfit = userAssigned ? unfitness(start, family, config) : undefined;
  if (unfit !== undefined) return problem("PublicIPUnfit", `public IP ${name} ${unfit}`);
  const owned = userAssigned ? start : withManagedFields(start, subject, family, circumstances);
  const labeled = withDnsLabel(owned, subject, userAssigned, sharers);
  if (typeof labeled === "string") return problem("DNSLabelTaken", labeled);
  return { publicIP: labeled };
}

function newPublicIP(
  subject: Subject,
  family: Family,
  { name, config, zones }: { name: string; config: PlannerConfig; zones: readonly string[] },
): PublicIP {
  const prefix = wantedPrefix(subject, family);
  const tags = parseIPTags(subject.settings.get(annotations.pipIPTags) ?? "");
  const standard = config.sku === "standard";
  return {
    name,
    location: config.location,
    publicIPAllocationMethod: "Static",
    publicIPAddressVersion: family,
    tags: { [serviceTag]: subject.key, [clusterTag]: config.clusterName },
    ...(config.extendedLocation && { extendedLocation: config.extendedLocation }),
    ...(tags.length > 0 && { ipTags: [...tags] }),
    ...(standard && { sku: { name: "Standard" } }),
    ...(standard && prefix !== "" && { publicIPPrefix: { id: prefix } }),
    ...(standard && config.extendedLocation === undefined && zones.length > 0 && { zones: [...zones] }),
  };
}

/** Why a user's public IP cannot be a frontend of this family. */
function unfitness(publicIP: PublicIP, family: Family, { sku }: PlannerConfig): string | undefined {
  if (familyOfPublicIP(publicIP) !== family)
    return `is an ${familyOfPublicIP(publicIP)} address; the frontend needs ${family}`;
  if (sku === "standard" && sameName(publicIP.sku?.name ?? "Basic", "Basic"))
    return "has SKU Basic; standard load balancers need SKU Standard";
  return undefined;
}

function withManagedFields(
  publicIP: PublicIP,
  subject: Subject,
  family: Family,
  { config, sharers = [] }: Circumstances,
): PublicIP {
  const standard = config.sku === "standard";
  const allocation = family === "IPv6" && !standard ? "Dynamic" : "Static";
  const method = family === "IPv6" ? allocation : (publicIP.publicIPAllocationMethod ?? "Static");
  const tags = managedTags(publicIP.tags, subject, config, sharers);
  const ipTags = config.mutateIPTags ? desiredIPTags(publicIP, subject, sharers) : undefined;
  return changed(publicIP, {
    ...(tags !== publicIP.tags && { tags: { ...tags } }),
    ...(standard && publicIP.sku?.name !== "Standard" && { sku: { ...publicIP.sku, name: "Standard" } }),
    ...(publicIP.publicIPAddressVersion !== family && { publicIPAddressVersion: family }),
    ...(publicIP.publicIPAllocationMethod !== method && { publicIPAllocationMethod: method }),
    ...(ipTags !== undefined && !sameIPTags(ipTags, publicIP.ipTags) && { ipTags: [...ipTags] }),
  });
}

/** The object itself where `changes` is empty. */
const changed = (publicIP: PublicIP, changes: Partial<PublicIPAddress>): PublicIP =>
  Object.keys(changes).length === 0 ? publicIP : { ...publicIP, ...changes };

const ipTagsAsked = ({ settings }: Subject): readonly IpTag[] | undefined => {
  const asked = settings.get(annotations.pipIPTags);
  return asked === undefined ? undefined : parseIPTags(asked);
};

/** Undefined: the present ones stay, as one of the Services asks for them, or none does for any. */
function desiredIPTags(
  { ipTags }: PublicIP,
  subject: Subject,
  sharers: readonly Subject[],
): readonly IpTag[] | undefined {
  const isAsked = sharers.map(ipTagsAsked).some((asked) => asked !== undefined && sameIPTags(asked, ipTags));
  return isAsked ? undefined : ipTagsAsked(subject);
}

/** Owner tags, and the configured tags under those of the annotation. Source: upstream `ensurePIPTagged`. */
function managedTags(
  tags: Tags | undefined,
  subject: Subject,
  config: PlannerConfig,
  sharers: readonly Subject[],
): Tags {
  const bound = withOwner(tags, subject.key);
  const desired = overrideTags(config.tags, tagsAsked(subject));
  addTagsOfSharers(desired, bound, sharers);
  // In another case, they would be a second value for the owners' own.
  for (const key of desired.keys()) if (isOwnerTag(key)) desired.delete(key);
  const removes = config.systemTags.length > 0;
  if (desired.size === 0 && !removes) return bound;
  const owners = {
    [serviceTag]: servicesIn(bound).join(","),
    [clusterTag]: clusterIn(bound),
    [dnsTag]: dnsOwnerIn(bound),
  };
  for (const [key, value] of Object.entries(owners))
    if (value !== "" && (removes || bound[key] !== undefined)) desired.set(key, bound[key] ?? value);
  return reconcileTags(bound, desired, config.systemTags) ?? bound;
}

const tagsAsked = ({ settings }: Subject): ReadonlyMap<string, string> => parseTags(settings.get(annotations.pipTags));

/**
 * Tags that only others ask for stay, and of several values for one tag the present one does: two Services that took turns
 * in writing theirs would never be done.
 */
function addTagsOfSharers(desired: Map<string, string>, present: Tags, sharers: readonly Subject[]): void {
  for (const [key, value] of sharers.flatMap((sharer) => [...tagsAsked(sharer)])) {
    const wanted = desired.keys().find((known) => sameName(known, key));
    const isPresent = Object.entries(present).some(([known, text]) => sameName(known, key) && sameName(text, value));
    if (isPresent) desired.set(wanted ?? key, value);
  }
}

/**
 * The public IP with the DNS label of the annotation, or why it cannot have it. No tag of a user's public IP names the
 * Service that has set the label: it stays as long as one of those that share it asks for it. Source: upstream
 * `reconcileDNSSettings`.
 */
function withDnsLabel(
  publicIP: PublicIP,
  subject: Subject,
  userAssigned: boolean,
  sharers: readonly Subject[],
): PublicIP | string {
  const label = subject.settings.get(annotations.dnsLabel);
  if (label === undefined) return publicIP;
  const owner = dnsOwnerIn(publicIP.tags);
  if (owner !== "" && !sameName(owner, subject.key))
    return `annotation ${fullKey(annotations.dnsLabel)}: the DNS label of public IP ${publicIP.name} belongs to Service ${quoted(owner)}`;
  const present = publicIP.dnsSettings?.domainNameLabel ?? "";
  const isAsked = sharers.some(({ settings }) => sameName(settings.get(annotations.dnsLabel) ?? "", present));
  if (userAssigned && present !== "" && isAsked) return publicIP;
  if (label === "") {
    const { dnsSettings, ...rest } = publicIP;
    return dnsSettings === undefined ? publicIP : rest;
  }
  const isSet = sameName(present, label);
  return changed(publicIP, {
    ...(!isSet && { dnsSettings: { ...publicIP.dnsSettings, domainNameLabel: label } }),
    ...(!userAssigned && owner === "" && { tags: { ...publicIP.tags, [dnsTag]: subject.key } }),
  });
}

/**
 * What a Service asks for in vain on a public IP because Services that share it have asked for something else first, each
 * with its annotation. A label that belongs to one of them is refused instead.
 */
export function overruled(publicIP: PublicIP, subject: Subject, sharers: readonly Subject[]): readonly string[] {
  if (sharers.length === 0) return [];
  const { name, tags = {}, ipTags, dnsSettings: { domainNameLabel = "" } = {} } = publicIP;
  const keeps = (row: Annotation<unknown>, what: string): string =>
    `annotation ${fullKey(row)}: public IP ${name}, which other Services share, keeps ${what}`;
  const label = subject.settings.get(annotations.dnsLabel);
  if (servicesIn(tags).length === 0)
    return label === undefined || sameName(label, domainNameLabel)
      ? []
      : [keeps(annotations.dnsLabel, `DNS label ${quoted(domainNameLabel)}`)];
  const asked = tagsAsked(subject);
  const kept = Object.entries(tags).filter(([key, value]) =>
    asked.entries().some(([wanted, text]) => sameName(wanted, key) && !sameName(text, value)),
  );
  const wantedIPTags = ipTagsAsked(subject);
  return [
    ...kept
      .filter(([key]) => !isOwnerTag(key))
      .map(([key, value]) => keeps(annotations.pipTags, `tag ${quoted(`${key}=${value}`)}`)),
    ...(wantedIPTags === undefined || sameIPTags(wantedIPTags, ipTags)
      ? []
      : [keeps(annotations.pipIPTags, "its IP tags")]),
  ];
}
