import { sameName } from "../arm/resource-id.ts";
import { internalSuffix } from "./names.ts";
import type { PlannerConfig } from "./planner-config.ts";
import type { Subject } from "./subject.ts";

/** Name of the only standard load balancer of a kind. */
export const singleBalancerName = (subject: Subject, config: PlannerConfig): string =>
  (config.loadBalancerName || config.clusterName) + (subject.internal ? internalSuffix : "");

/** Pools that this provider fills; load balancers with other pools are never deleted. */
export const isClusterPool = (name: string, { clusterName }: PlannerConfig): boolean =>
  sameName(name, clusterName) || sameName(name, `${clusterName}-IPv6`);
