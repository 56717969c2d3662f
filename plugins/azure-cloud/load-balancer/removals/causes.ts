import { isDeepStrictEqual } from "node:util";

import type { LoadBalancingRule } from "@azure/arm-network";
import { isBeingDeleted, keyOf, type Node, type Service, type Shards } from "cloud-controller-host/sdk";

import { lastSegment, sameName } from "../../arm/resource-id.ts";
import type { Cause, ResourceChange } from "../../removal-guard/guard.ts";
import type { Item, ItemOf, Owner } from "../../removal-guard/items.ts";
import { familyOf, sameAddress } from "../model/addresses.ts";
import { drainCause } from "../model/drain.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import { frontendName, isInternalName, isIPv6Name, publicIPName, withoutInternal } from "../model/names.ts";
import { oncePer } from "../model/once-per.ts";
import { hasNameOfNeighbor, type PlannerConfig } from "../model/planner-config.ts";
import { desiredRules } from "../plan/balancer/rules.ts";
import { internalAddresses, isControlPlane, isExcluded, memberAddress, nodeName } from "../plan/draft/nodes.ts";
import { opensPorts, portsOf, ruleProtocols } from "../plan/security-group/access.ts";
import { annotations } from "../service/annotations.ts";
import { hasMarkOf, isShared, wantsLoadBalancer } from "../service/identity.ts";
import {
  readSubject,
  type Subject,
  wantedAddress,
  wantedAddresses,
  wantedPrefix,
  wantedPublicIP,
} from "../service/subject.ts";

export interface CausesInput {
  readonly batch: readonly ServiceIntent[];
  readonly observed: Observed;
  readonly config: PlannerConfig;
  /** The Service as the API server has it. */
  readonly current: (key: ServiceKey) => Service | undefined;
  /** The Service as it was when its load balancer last matched it. */
  readonly settled: (key: ServiceKey) => Service | undefined;
  /** Names of nodes that join a pool with the same plan. */
  readonly joining: ReadonlySet<string>;
  readonly shards?: Shards | undefined;
}

/**
 * Causes that can be seen in the objects themselves: a Service that is deleted, changed, or does not ask for the item; a
 * node that is excluded. What is only missing from a list is unconfirmed.
 */
export function causesOf(input: CausesInput): (item: Item, change: ResourceChange) => Cause {
  const intents = new Map(input.batch.map((intent) => [keyOf(intent.service), intent]));
  const nodes = new Map(input.observed.nodes.map((node) => [nodeName(node), node]));
  const causeOf = (owner: Owner, item: Item, change: ResourceChange): Cause => {
    if (owner.kind === "Service")
      return causeOfService(owner.name, item, change, { ...input, intent: intents.get(owner.name) });
    if (owner.kind === "endpoint") {
      const isListed = input.observed.endpointNodes.get(owner.service)?.includes(owner.node) === true;
      return isListed ? causeOfNode(nodes.get(owner.node), item, input) : "unconfirmed";
    }
    // Its address is open for Services, and each of them may want less now.
    const isClosed = item.kind === "security rules" && item.services.every((key) => hasChanged(key, input));
    return isClosed ? "known" : causeOfNode(nodes.get(owner.name), item, input);
  };
  const frontendsLeft = oncePer(({ after }: ResourceChange) => new Set(after.flatMap(frontendOf)));
  return (item, change) => {
    if (change.isIdle?.(item) === true) return "known";
    if (item.kind === "members by interface") return "placement";
    // It goes with its frontend, which is counted.
    if (item.kind === "frontend addresses" && !frontendsLeft(change).has(item.frontend)) return "known";
    const found = new Set(item.owners.map((owner) => causeOf(owner, item, change)));
    return weakestFirst.find((cause) => found.has(cause)) ?? "known";
  };
}

const frontendOf = (item: Item): readonly string[] => (item.kind === "frontends" ? [item.name] : []);

const weakestFirst = ["none", "placement", "unconfirmed"] as const;

function causeOfService(
  key: ServiceKey,
  item: Item,
  change: ResourceChange,
  input: CausesInput & { readonly intent: ServiceIntent | undefined },
): Cause {
  const { intent, config, current } = input;
  const stored = current(key);
  const service = intent?.service;
  if (service !== undefined && intent?.action === "delete" && isBeingDeleted(service)) return "known";
  if (stored === undefined) return "unconfirmed";
  // Another one has the name now.
  if (service !== undefined && service.metadata?.uid !== stored.metadata?.uid) return "known";
  if (intent?.action === "delete" || !wantsLoadBalancer(stored)) return "known";
  if (hasChanged(key, input) || isLeftByAnother(stored, item, change, input)) return "known";
  const { subject } = readSubject(stored, config);
  if (!wants(subject, item, change, input)) return "known";
  return isPlacedElsewhere(subject, item, change, input) ? "placement" : "none";
}

/**
 * True if it is on a load balancer of another deployment, which has left the Service to this one: so its mark shows or,
 * where this one serves all that others do not mark, those of others. The process that took it may have been killed since.
 */
function isLeftByAnother(service: Service, item: Item, { id }: ResourceChange, input: CausesInput): boolean {
  const { config, observed, shards } = input;
  const balancerId = item.kind === "private link services" ? balancerOfLink(item.name, observed) : id;
  if (config.sku === "basic" || !/\/loadbalancers\/[^/]+$/iu.test(balancerId)) return false;
  const isOwn = shards?.isAlive === undefined ? isShared({ config, observed }) : hasMarkOf(service, shards);
  return isOwn && hasNameOfNeighbor(lastSegment(balancerId), config);
}

/** True if it is where this config places nothing, whatever the Service requests. */
function isPlacedElsewhere(
  subject: Subject,
  item: Item,
  { id }: ResourceChange,
  { config, observed }: CausesInput,
): boolean {
  // Several load balancers and shards: labels of Services and nodes matter. Basic ones are named by the VMs.
  if (config.loadBalancers.length > 0 || config.shardSuffix !== undefined || config.sku === "basic") return false;
  const own = (config.loadBalancerName || config.clusterName).toLowerCase();
  const isElsewhere = (balancerId: string): boolean => withoutInternal(lastSegment(balancerId)) !== own;
  if (item.kind === "frontends") return isElsewhere(id);
  if (item.kind === "private link services") return isElsewhere(balancerOfLink(item.name, observed));
  const cluster = item.kind === "frontend addresses" ? clusterOf(item.address, subject) : undefined;
  return cluster !== undefined && !sameName(cluster, config.clusterName);
}

/** The load balancer of a private link service. */
function balancerOfLink(name: string, { privateLinkServices }: Observed): string {
  const link = privateLinkServices.find((one) => one.name === name);
  return link?.loadBalancerFrontendIpConfigurations?.[0]?.id?.split("/frontendIPConfigurations/", 1)[0] ?? "";
}

/** The cluster in the name of a public IP that was created for the Service. */
function clusterOf(publicIP: string, { base }: Subject): string | undefined {
  const end = publicIP.toLowerCase().indexOf(`-${base}`);
  return end < 0 ? undefined : publicIP.slice(0, end);
}

/** True if a Service is not as it was when its load balancer last matched it. */
function hasChanged(key: ServiceKey, { current, settled }: CausesInput): boolean {
  const [before, stored] = [settled(key), current(key)];
  return before !== undefined && stored !== undefined && isOtherWish(before)(stored);
}

/** Compared once for two versions: each opening of a Service with thousands of ports needs the result. */
const isOtherWish = oncePer((before: Service) =>
  oncePer((stored: Service): boolean => !isDeepStrictEqual(wishOf(before), wishOf(stored))),
);

const wishOf = ({ spec, metadata }: Service): unknown => [spec, metadata?.annotations, metadata?.labels];

/** True if the Service still asks for such an item in such a place. */
function wants(subject: Subject, item: Item, { id }: ResourceChange, { config, observed }: CausesInput): boolean {
  switch (item.kind) {
    case "frontends":
      return isPlaceOf(subject, id) && subject.families.some((family) => frontendName(subject, family) === item.name);
    case "frontend addresses":
      return isPlaceOf(subject, id) && wantsFrontendAddress(subject, item, observed);
    case "private link services":
      return subject.settings.get(annotations.plsCreate) && isPlaceOf(subject, balancerOfLink(item.name, observed));
    case "rules":
      return isPlaceOf(subject, id) && rulesOf(subject, config).some(({ name }) => name === item.name);
    case "probes":
      return (
        isPlaceOf(subject, id) &&
        rulesOf(subject, config).some(({ probe }) => probe?.id !== undefined && lastSegment(probe.id) === item.name)
      );
    case "public IPs":
      return wantsPublicIP(subject, item.name, config);
    case "security rules":
      return opens(subject, item, observed);
    default:
      return true;
  }
}

/** A load balancer of its kind that none of its annotations rules out. */
function isPlaceOf(subject: Subject, id: string): boolean {
  const balancer = lastSegment(id);
  const chosen = subject.settings.get(annotations.configurations)?.filter((name) => name !== "") ?? [];
  const isChosen = chosen.length === 0 || chosen.some((name) => name.toLowerCase() === withoutInternal(balancer));
  return isInternalName(balancer) === subject.internal && isChosen;
}

const rulesOf = (subject: Subject, config: PlannerConfig): readonly LoadBalancingRule[] =>
  subject.families.flatMap(
    (family) => desiredRules(subject, family, { loadBalancer: "", frontend: "", pool: "" }, config).rules,
  );

/** True if its settings still allow that public IP or private address. A subnet of its own is not compared with a former one. */
function wantsFrontendAddress(
  subject: Subject,
  { frontend, address }: ItemOf<"frontend addresses">,
  { publicIPs }: Observed,
): boolean {
  const family = subject.families.find((one) => frontendName(subject, one) === frontend);
  if (family === undefined) return false;
  const wanted = wantedAddress(subject, family);
  const current = subject.internal ? address : publicIPs.find(({ name = "" }) => sameName(name, address))?.ipAddress;
  if (wanted !== "") return sameAddress(current, wanted);
  if (subject.internal) return subject.subnet === undefined;
  const chosen = wantedPublicIP(subject, family);
  if (chosen !== "") return sameName(chosen, address);
  const cluster = clusterOf(address, subject);
  const own = cluster && publicIPName(cluster, subject, family, wantedPrefix(subject, family));
  return own !== undefined && sameName(own, address);
}

function wantsPublicIP(subject: Subject, name: string, { clusterName }: PlannerConfig): boolean {
  const family = isIPv6Name(name) ? "IPv6" : "IPv4";
  if (subject.internal || wantedAddresses(subject).length > 0 || wantedPublicIP(subject, family) !== "") return false;
  return subject.families.some((one) => publicIPName(clusterName, subject, one, wantedPrefix(subject, one)) === name);
}

/** True if the Service opens that address, protocol and port. */
function opens(
  subject: Subject,
  { address, protocol, port }: ItemOf<"security rules">,
  { publicIPs }: Observed,
): boolean {
  const family = familyOf(address);
  if (!subject.floatingIP || family === undefined || !opensPorts(subject, family)) return false;
  const publicIP = publicIPs.find(({ ipAddress }) => sameAddress(ipAddress, address));
  if (!mayHave(subject, address, publicIP)) return false;
  const known = ruleProtocols.find((one) => one.toLowerCase() === protocol);
  return known !== undefined && (portsOf(subject).get(known)?.includes(Number(port)) ?? false);
}

/** True if the settings of the Service still allow such an address: public or private, of its families, and chosen. */
function mayHave(subject: Subject, address: string, publicIP: Observed["publicIPs"][number] | undefined): boolean {
  const family = familyOf(address);
  if (family === undefined || !subject.families.includes(family)) return false;
  if (subject.additionalAddresses.some((one) => sameAddress(one, address))) return true;
  const wanted = wantedAddress(subject, family);
  if (wanted !== "") return sameAddress(wanted, address);
  if ((publicIP === undefined) !== subject.internal) return false;
  const chosen = wantedPublicIP(subject, family);
  return chosen === "" || chosen.toLowerCase() === publicIP?.name?.toLowerCase();
}

/** A node that moves to another load balancer still gets traffic. */
function causeOfNode(node: Node | undefined, item: Item, { config, joining }: CausesInput): Cause {
  if (node === undefined) return "unconfirmed";
  const isOut = drainCause(node) !== undefined || isExcluded(node, config) || isControlPlane(node);
  const hasAddress = !("address" in item) || addressesOf(node, config).includes(item.address);
  return isOut || !hasAddress || joining.has(nodeName(node)) ? "known" : "none";
}

/** Those that the load balancers use. */
const addressesOf = (node: Node, { pools }: PlannerConfig): readonly (string | undefined)[] =>
  pools === "interfaces" ? internalAddresses(node) : [memberAddress(node, "IPv4"), memberAddress(node, "IPv6")];
