import { sameName } from "../../../arm/resource-id.ts";
import { internalSuffix, isInternalName, isServiceFrontend, withoutInternal } from "../../model/names.ts";
import { fullKey } from "../../service/annotation-rows.ts";
import { annotations } from "../../service/annotations.ts";
import { quoted } from "../../service/readers.ts";
import type { Subject } from "../../service/subject.ts";
import type { Draft } from "../draft/draft.ts";
import { withoutFrontends, withoutProbes, withoutRules } from "../draft/edits.ts";
import { isPrimary } from "../draft/frontends.ts";
import type { Choice, Planned } from "./multiple.ts";

/** Value of the mode annotation that leaves the choice to the provider. */
const anySet = "__auto__";

/**
 * Chooses among basic load balancers, one per scale set or availability set: the one where the Service is, unless the
 * mode annotation names another, else one without rules, else the one with the fewest. Source: upstream
 * `getServiceLoadBalancer` and `selectLoadBalancer`.
 */
export function chooseBasic(draft: Draft, subject: Subject, planned: Planned): Choice {
  const mode = subject.settings.get(annotations.mode);
  const isNamed = mode !== "" && !sameName(mode, anySet);
  const sets = setsOf(draft);
  if (isNamed && !sets.some((set) => sameName(set, mode)))
    return {
      code: "VMSetNotFound",
      problem: `annotation ${fullKey(annotations.mode)}: ${quoted(mode)} is not a scale set or availability set of the cluster`,
    };
  const current = currentBalancer(draft, subject);
  if (current !== undefined && !(isNamed && !sameName(withoutInternal(current), prefixOf(draft, mode).toLowerCase())))
    return { name: current };
  const wanted = mode === "" ? [draft.config.primaryVMSet] : isNamed ? [mode] : sets;
  return leastUsed(draft, subject, wanted, planned);
}

/** Names of the sets that nodes belong to, the primary one first. */
function setsOf({ observed, config }: Draft): readonly string[] {
  const others = new Set(observed.vmSets.values().filter((set) => !sameName(set, config.primaryVMSet)));
  return [config.primaryVMSet, ...[...others].toSorted()].filter((set) => set !== "");
}

/** The primary set's load balancer has the cluster's name, another one its set's. */
const prefixOf = ({ config }: Draft, set: string): string =>
  set === "" || sameName(set, config.primaryVMSet) ? config.loadBalancerName || config.clusterName : set;

const currentBalancer = ({ observed }: Draft, subject: Subject): string | undefined =>
  observed.loadBalancers.find(
    ({ name = "", frontendIPConfigurations = [] }) =>
      isInternalName(name) === subject.internal && frontendIPConfigurations.some((one) => isPrimary(one, subject)),
  )?.name;

function leastUsed(draft: Draft, subject: Subject, sets: readonly string[], planned: Planned): Choice {
  const limit = draft.config.maximumRules;
  const choices = sets.map((set) => {
    const name = prefixOf(draft, set) + (subject.internal ? internalSuffix : "");
    const present = draft.balancers.get(name.toLowerCase())?.current?.loadBalancingRules?.length ?? 0;
    return { name, rules: present + (planned.rules.get(name.toLowerCase()) ?? 0) };
  });
  const [least] = choices.toSorted((left, right) => left.rules - right.rules);
  if (least === undefined || least.rules >= limit)
    return { code: "LoadBalancersFull", problem: `every load balancer for Service ${subject.key} has ${limit} rules` };
  return { name: least.name };
}

/** Name of the set whose nodes belong to a basic load balancer; empty: all nodes. */
export const setOf = ({ config }: Draft, balancer: string): string =>
  sameName(withoutInternal(balancer), config.loadBalancerName || config.clusterName)
    ? config.primaryVMSet
    : withoutInternal(balancer);

/**
 * Takes this provider's resources out of basic load balancers left from before the cluster had the standard SKU, so that
 * they are deleted; their Services get a standard one in the next round. Source: upstream `cleanupBasicLoadBalancer`.
 */
export function retireBasic(draft: Draft): void {
  const { sku, loadBalancerName, clusterName } = draft.config;
  if (sku !== "standard") return;
  for (const one of draft.balancers.values()) {
    const isOurs = sameName(withoutInternal(one.name), loadBalancerName || clusterName);
    if (!isOurs || !sameName(one.current?.sku?.name ?? "", "Basic") || one.current === undefined) continue;
    draft.retired.add(one);
    const isOwn = ({ name }: { name?: string }): boolean => isServiceFrontend(name);
    const { loadBalancingRules = [], probes = [] } = one.current;
    const emptied = withoutProbes(withoutRules(one.current, loadBalancingRules.filter(isOwn)), probes.filter(isOwn));
    one.current = withoutFrontends(emptied, isOwn);
    for (const { subject } of draft.services) one.services.add(subject.key);
  }
}
