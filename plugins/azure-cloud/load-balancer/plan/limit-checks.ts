import type { LoadBalancingRule } from "@azure/arm-network";

import { sameName, startsWithName } from "../../arm/resource-id.ts";
import { isNearly, limits } from "../model/limits.ts";
import type { Family, ServiceKey } from "../model/model.ts";
import { poolName, withoutInternal } from "../model/names.ts";
import type { Subject } from "../service/subject.ts";
import { addEvent, type Draft, reject, type ResourceDraft } from "./draft/draft.ts";
import { type Balancer, namedFor } from "./draft/edits.ts";
import type { PlannedLinks } from "./private-link/plan.ts";

type BalancerDraft = ResourceDraft<Balancer>;

/** The use of one limit after the plan. */
interface Use {
  /** Such as `load balancer kubernetes`. */
  readonly resource: string;
  readonly what: string;
  readonly limit: number;
  readonly used: number;
  /** Use that a Service adds in this plan. */
  readonly addedBy: (subject: Subject) => number;
  readonly advice: string;
}

/**
 * Refuses the newest Services for which Azure has no room, and warns those that use up the last fifth. What a Service has
 * already is left to it, whatever the limit.
 */
export function checkLimits(draft: Draft, links: PlannedLinks): void {
  rejectLongNames(draft);
  const balancers = [...draft.balancers.values()].filter(({ services, current }) => services.size > 0 && current);
  const uses = [
    ...balancers.flatMap((one) => [rulesOf(one), frontendsOf(one), linksOf(draft, one, links)]),
    ...[...new Set(balancers.map(({ name }) => withoutInternal(name)))].flatMap((pair) =>
      (["IPv4", "IPv6"] as const).map((family) => interfaceRulesOf(draft, pair, family)),
    ),
  ];
  const newestFirst = draft.services.filter(({ action }) => action === "ensure").toReversed();
  for (const use of uses) {
    let excess = use.used - use.limit;
    for (const { subject } of newestFirst) {
      if (!isNearly(use.used, use.limit)) break;
      const added = use.addedBy(subject);
      if (added <= 0) continue;
      if (excess > 0) reject(draft, subject.key, "LimitReached", exceeded(use));
      else addEvent(draft, subject.key, { type: "Warning", reason: "LimitNearlyReached", message: nearly(use) });
      excess -= added;
    }
  }
}

/** New names that are made of those of the cluster or of a Service. All others are cut, or have a bound of their own. */
function rejectLongNames(draft: Draft): void {
  const { loadBalancerName, loadBalancers, shardSuffix } = draft.config;
  const isConfigured = loadBalancers.length > 0 || (loadBalancerName !== "" && shardSuffix === undefined);
  const ofBalancers = isConfigured ? "its name in the cloud config" : "--cluster-name";
  for (const { name, observed, services } of draft.balancers.values())
    if (observed === undefined)
      for (const key of services) rejectLong(draft, key, `load balancer ${name}`, name, ofBalancers);
  for (const { name, balancer, local, services } of draft.pools.values()) {
    if (balancer.observed?.backendAddressPools?.some((pool) => sameName(pool.name ?? "", name))) continue;
    const advice = local ? "the names of the Service and its namespace" : "--cluster-name";
    for (const key of services) rejectLong(draft, key, `backend pool ${name}`, name, advice);
  }
}

function rejectLong(draft: Draft, key: ServiceKey, what: string, { length }: string, shorten: string): void {
  const { nameLength } = limits;
  const message = `the name of ${what} would have ${length} characters, ${nameLength} at most; shorten ${shorten}`;
  if (length > nameLength) reject(draft, key, "LimitReached", message);
}

const exceeded = ({ resource, what, limit, used, advice }: Use): string =>
  `${resource} can have ${limit} ${what} and would have ${used}; ${advice}`;
const nearly = ({ resource, what, limit, used, advice }: Use): string =>
  `${resource} has ${used} of ${limit} ${what}; ${advice}`;

const fewerRules =
  "use fewer ports, or configure multipleStandardLoadBalancerConfigurations to spread Services over several load balancers";

const added = (
  { observed, current }: BalancerDraft,
  list: "loadBalancingRules" | "frontendIPConfigurations",
  { base }: Subject,
): number =>
  current?.[list] === observed?.[list]
    ? 0
    : namedFor(current?.[list], base).length - namedFor(observed?.[list], base).length;

const rulesOf = (one: BalancerDraft): Use => ({
  resource: `load balancer ${one.name}`,
  what: "rules",
  limit: limits.rulesPerLoadBalancer,
  used: (one.current?.loadBalancingRules?.length ?? 0) + (one.current?.inboundNatRules?.length ?? 0),
  addedBy: (subject) => added(one, "loadBalancingRules", subject),
  advice: fewerRules,
});

const frontendsOf = (one: BalancerDraft): Use => ({
  resource: `load balancer ${one.name}`,
  what: "frontends",
  limit: limits.frontendsPerLoadBalancer,
  used: one.current?.frontendIPConfigurations?.length ?? 0,
  addedBy: (subject) => added(one, "frontendIPConfigurations", subject),
  advice: "share addresses between Services with different ports, or use several load balancers",
});

function linksOf(draft: Draft, one: BalancerDraft, { links }: PlannedLinks): Use {
  const isOn = (frontends: readonly { readonly id?: string }[] = []): boolean =>
    frontends.some(({ id }) => startsWithName(id ?? "", `${one.id}/`));
  const staying = draft.observed.privateLinkServices.filter((link) => !draft.linkDeletions.has(link));
  const created = links.filter(({ observed }) => observed === undefined);
  const isNew = ({ current }: (typeof created)[number]): boolean => isOn(current?.loadBalancerFrontendIpConfigurations);
  return {
    resource: `load balancer ${one.name}`,
    what: "private link services",
    limit: limits.privateLinksPerLoadBalancer,
    used:
      staying.filter((link) => isOn(link.loadBalancerFrontendIpConfigurations)).length + created.filter(isNew).length,
    addedBy: ({ key }) => created.filter((link) => isNew(link) && link.services.has(key)).length,
    advice: "share a frontend, and with it its private link service, between Services, or use several load balancers",
  };
}

/** Every node is behind both load balancers of a pair, with an address of each family. Pools of addresses have no interfaces. */
function interfaceRulesOf(draft: Draft, pair: string, family: Family): Use {
  const both = [...draft.balancers.values()].filter(({ name }) => withoutInternal(name) === pair);
  const { clusterName, pools } = draft.config;
  const pool = poolName(clusterName, family);
  const onNodes = (rules: readonly LoadBalancingRule[] = []): number =>
    rules.filter(({ backendAddressPool: { id = "" } = {} }) => sameName(id.slice(id.lastIndexOf("/") + 1), pool))
      .length;
  const countOf = (balancer: Balancer | undefined, { base }: Subject): number =>
    onNodes(namedFor(balancer?.loadBalancingRules, base));
  return {
    resource: `the ${family} configuration of each node's network interface behind load balancer ${pair}`,
    what: "rules",
    limit: limits.rulesPerInterface,
    used: pools === "interfaces" ? both.reduce((sum, { current }) => sum + onNodes(current?.loadBalancingRules), 0) : 0,
    addedBy: (subject) =>
      both.reduce((sum, { current, observed }) => sum + countOf(current, subject) - countOf(observed, subject), 0),
    advice: fewerRules,
  };
}
