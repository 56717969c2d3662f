import type { ErrorCode } from "cloud-controller-host/sdk";

import { sameName } from "../../../arm/resource-id.ts";
import { sameAddress } from "../../model/addresses.ts";
import { internalSuffix, isInternalName, withoutInternal } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import { isOfAnotherShard, type PlannerConfig } from "../../model/planner-config.ts";
import { annotations } from "../../service/annotations.ts";
import { some } from "../../service/readers.ts";
import { matches } from "../../service/selectors.ts";
import { choosesAddress, type Subject, wantedAddresses, wantedPublicIP } from "../../service/subject.ts";
import type { Draft } from "../draft/draft.ts";
import { type Balancer, namedFor } from "../draft/edits.ts";
import { isPrimary } from "../draft/frontends.ts";
import { clusterIn } from "../public-ip/owners.ts";
import type { PublicIPTargets } from "../public-ip/plan.ts";

type Configuration = PlannerConfig["loadBalancers"][number];

export type Choice = { readonly name: string } | { readonly code: ErrorCode; readonly problem: string };

/** Choices made earlier in the same plan. */
export interface Planned {
  /** Rules that Services bring to load balancers, by lower-case name. */
  readonly rules: Map<string, number>;
  /** Load balancers by the public IPs (lower-case ids) and private addresses that they will have. */
  readonly addresses: Map<string, string>;
}

/** Addresses that only one load balancer can have: a Service's public IPs, or the private addresses it requests. */
function addressesFor(subject: Subject, publicIPs: PublicIPTargets): readonly string[] {
  if (subject.internal) return wantedAddresses(subject);
  return [...(publicIPs.get(subject.key)?.values() ?? [])].map(({ id }) => id.toLowerCase());
}

/** Notes a choice for the Services that follow. */
export function remember(planned: Planned, subject: Subject, publicIPs: PublicIPTargets, name: string): void {
  const full = name.toLowerCase();
  planned.rules.set(full, (planned.rules.get(full) ?? 0) + subject.ports.length);
  for (const address of addressesFor(subject, publicIPs)) planned.addresses.set(address, withoutInternal(name));
}

/** Largest number of rules of one load balancer. */
const maxRules = 301;

/**
 * Chooses among several standard load balancers: the one that holds the address or public IP asked for, else the one
 * where the Service is if it may stay there, else the emptiest that it may use. Source: upstream
 * `getAzureLoadBalancerName` and `getMostEligibleLBForService`.
 */
export function chooseMultiple(draft: Draft, subject: Subject, publicIPs: PublicIPTargets, planned: Planned): Choice {
  const eligible = eligibleConfigurations(draft, subject);
  if ("problem" in eligible) return eligible;
  const names = eligible.map(({ name }) => name.toLowerCase());
  const together = addressesFor(subject, publicIPs).map((address) => planned.addresses.get(address));
  const held = together.find((name) => name !== undefined) ?? pinnedBalancer(draft, subject, publicIPs);
  // The load balancer of a shard that has handed the Service over.
  const pinned = held !== undefined && isOfAnotherShard(held, draft.config) ? undefined : held;
  if (pinned !== undefined && !names.includes(pinned)) {
    const problem = `load balancer ${pinned} holds the address of Service ${subject.key}, but is not in the eligible set ${names.join(", ")}`;
    return { code: "LoadBalancerNotEligible", problem };
  }
  const current = pinned ?? currentBalancer(draft, subject);
  const chosen = current !== undefined && names.includes(current) ? current : emptiest(draft, subject, names, planned);
  if (chosen === undefined)
    return {
      code: "LoadBalancersFull",
      problem: `every eligible load balancer has ${maxRules} rules: ${names.join(", ")}`,
    };
  // A new one is named as the config spells it.
  const spelled = eligible.find(({ name }) => name.toLowerCase() === chosen)?.name ?? chosen;
  return { name: withKind(spelled, subject) };
}

const withKind = (name: string, { internal }: Subject): string => name + (internal ? internalSuffix : "");

type Eligible = readonly Configuration[] | { readonly code: ErrorCode; readonly problem: string };

function eligibleConfigurations(draft: Draft, subject: Subject): Eligible {
  const { config, observed } = draft;
  const ending = config.shardSuffix ?? "";
  const main = config.clusterName + ending;
  if (!config.loadBalancers.some(({ name }) => sameName(name, main)))
    return {
      code: "InvalidConfiguration",
      problem: `multipleStandardLoadBalancerConfigurations: no configuration named ${config.clusterName}`,
    };
  const annotated = annotatedNames(subject)?.map((name) => name + ending);
  const named = config.loadBalancers.filter(
    ({ name }) => annotated === undefined || annotated.includes(name.toLowerCase()),
  );
  if (annotated !== undefined && named.length === 0) {
    const problem = `service selects ${annotated.length} load balancers by annotation (${some(annotated)}), but none of them is defined in cloud provider configuration`;
    return { code: "LoadBalancerNotFound", problem };
  }
  const labels = subject.service.metadata?.labels ?? {};
  const ofNamespace = observed.namespaceLabels.get(subject.service.metadata?.namespace ?? "") ?? {};
  const reasons: string[] = [];
  const left = named.filter((one) => {
    const reason = refusal(draft, subject, one, { labels, ofNamespace });
    if (reason !== undefined) reasons.push(`${one.name} (${reason})`);
    return reason === undefined;
  });
  if (left.length === 0)
    return {
      code: "LoadBalancerNotEligible",
      problem: `no load balancer may be used by Service ${subject.key}: ${reasons.join(", ")}`,
    };
  return left.some(hasSelector) ? left.filter(hasSelector) : left;
}

/** Names from the annotation; undefined without it. */
const annotatedNames = ({ settings }: Subject): readonly string[] | undefined => {
  const names = settings.get(annotations.configurations)?.filter((name) => name !== "");
  return names === undefined || names.length === 0 ? undefined : names.map((name) => name.toLowerCase());
};

const hasSelector = ({ serviceLabelSelector, serviceNamespaceSelector }: Configuration): boolean =>
  serviceLabelSelector !== undefined || serviceNamespaceSelector !== undefined;

type Labels = Readonly<Record<string, string>>;

function refusal(
  draft: Draft,
  subject: Subject,
  one: Configuration,
  { labels, ofNamespace }: { labels: Labels; ofNamespace: Labels },
): string | undefined {
  if (!one.allowServicePlacement && !isActive(draft, subject, one.name)) return "AllowServicePlacement set to false";
  const { serviceLabelSelector, serviceNamespaceSelector } = one;
  if (serviceLabelSelector !== undefined && !matches(serviceLabelSelector, labels))
    return "its label selector does not match";
  if (serviceNamespaceSelector !== undefined && !matches(serviceNamespaceSelector, ofNamespace))
    return "its namespace selector does not match";
  return undefined;
}

/** Load balancers of both kinds by the lower-case name of their configuration. */
const byConfiguration = oncePer((balancers: readonly Balancer[]) =>
  Map.groupBy(balancers, ({ name = "" }) => withoutInternal(name)),
);

/** True if the Service has rules on a load balancer of the configuration. */
const isActive = ({ observed }: Draft, { base }: Subject, configuration: string): boolean =>
  byConfiguration(observed.loadBalancers)
    .get(configuration.toLowerCase())
    ?.some(({ loadBalancingRules }) => namedFor(loadBalancingRules, base).length > 0) ?? false;

/** The load balancer with the address or the public IP that the Service asks for. */
function pinnedBalancer(draft: Draft, subject: Subject, publicIPs: PublicIPTargets): string | undefined {
  const addresses = wantedAddresses(subject);
  if (subject.internal && addresses.length === 0) return undefined;
  if (subject.internal)
    return draft.observed.loadBalancers
      .filter(({ name = "" }) => isInternalName(name))
      .filter(({ frontendIPConfigurations = [] }) =>
        frontendIPConfigurations.some((one) => addresses.some((address) => sameAddress(one.privateIPAddress, address))),
      )
      .map(({ name = "" }) => withoutInternal(name))[0];
  for (const [family, { current }] of publicIPs.get(subject.key) ?? []) {
    if (addresses.length === 0 && wantedPublicIP(subject, family) === "") continue;
    const cluster = clusterIn(current?.tags);
    const [, name] = /\/loadBalancers\/([^/]+)\//iu.exec(current?.ipConfiguration?.id ?? "") ?? [];
    if (name !== undefined && (cluster === "" || sameName(cluster, draft.config.clusterName)))
      return withoutInternal(name);
  }
  return undefined;
}

/** A load balancer with the Service's own frontend, else one where it has rules. */
function currentBalancer(draft: Draft, subject: Subject): string | undefined {
  const active = draft.config.loadBalancers.find(({ name }) => isActive(draft, subject, name))?.name.toLowerCase();
  if (choosesAddress(subject) || annotatedNames(subject) !== undefined) return active;
  const own = draft.observed.loadBalancers.find(
    ({ name = "", frontendIPConfigurations }) =>
      isInternalName(name) === subject.internal &&
      namedFor(frontendIPConfigurations, subject.base).some((one) => isPrimary(one, subject)),
  );
  return own?.name === undefined ? active : withoutInternal(own.name);
}

/** An existing one without rules, else a new one, else the one with the fewest rules; the first of equals. */
function emptiest(draft: Draft, subject: Subject, names: readonly string[], planned: Planned): string | undefined {
  const rulesOf = (name: string): number | undefined => {
    const full = withKind(name, subject).toLowerCase();
    const present = draft.balancers.get(full);
    const coming = planned.rules.get(full);
    return present === undefined && coming === undefined
      ? undefined
      : (present?.current?.loadBalancingRules?.length ?? 0) + (coming ?? 0);
  };
  const empty = names.find((name) => rulesOf(name) === 0);
  const [fewest] = names.toSorted((left, right) => (rulesOf(left) ?? 0) - (rulesOf(right) ?? 0));
  const chosen = empty ?? fewest;
  return chosen !== undefined && (rulesOf(chosen) ?? 0) < maxRules ? chosen : undefined;
}
