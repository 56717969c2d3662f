import { defaultLoadBalancerName, keyOf } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent, ServiceKey } from "../../model/model.ts";
import { hasBase } from "../../model/names.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { groupsInUse, isDenied, neededReads } from "./needed-reads.ts";

export interface Observation {
  readonly observed: Observed;
  readonly unreadable: Unreadable;
}

/** Errors of reads that concern some Services only; the others do not need them. */
export interface Unreadable {
  /** By resource group, of groups that only an annotation names. */
  readonly groups: Map<string, unknown>;
  /** By lower-case name. */
  readonly subnets: Map<string, unknown>;
  /** VM sets of the nodes: nothing can be placed without. */
  vmSets: unknown;
  /** Of Services about which reads contradict each other. */
  services: ReadonlyMap<ServiceKey, unknown>;
}

/**
 * The error of a read that the intent depends on; undefined if it can be planned. An annotation may name any group: one
 * that ARM denies access to does not block the deletion of a Service that has no frontend with an address there.
 */
export function blockedBy(
  intent: ServiceIntent,
  { observed, unreadable }: Observation,
  config: PlannerConfig,
): unknown {
  const { groups, subnets, vmSets, services } = unreadable;
  const needed = neededReads([intent], config);
  const subnet = needed.subnets.find((name) => subnets.has(name.toLowerCase()));
  if (subnet !== undefined) return subnets.get(subnet.toLowerCase());
  if (intent.action === "ensure" && vmSets !== undefined) return vmSets;
  const contradiction = services.get(keyOf(intent.service));
  if (groups.size === 0) return contradiction;
  const base = defaultLoadBalancerName(intent.service);
  const used = groupsInUse(observed.loadBalancers, (name) => hasBase(name, base));
  const isForeign = (group: string): boolean =>
    intent.action === "delete" && !used.includes(group) && isDenied(groups.get(group));
  const group = [...used, ...needed.publicIPResourceGroups, ...needed.privateLinkResourceGroups].find(
    (one) => groups.has(one) && !isForeign(one),
  );
  return group === undefined ? contradiction : groups.get(group);
}
