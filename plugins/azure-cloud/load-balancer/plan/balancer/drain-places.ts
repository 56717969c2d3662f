import type { LoadBalancer } from "@azure/arm-network";
import { defaultLoadBalancerName, isBeingDeleted, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import { drainCause, type DrainPlace, type NodeDrain } from "../../model/drain.ts";
import { childId, loadBalancerId } from "../../model/ids.ts";
import type { Observed } from "../../model/model.ts";
import { isClusterPool, isInternalName, localPoolName } from "../../model/names.ts";
import { isOfAnotherShard, type PlannerConfig } from "../../model/planner-config.ts";
import { annotations } from "../../service/annotations.ts";
import { readSubject } from "../../service/subject.ts";
import { internalAddresses, isControlPlane, isExcluded, nodeName } from "../draft/nodes.ts";

/** An address in a pool, with the drain of its node. */
export interface DrainingAddress {
  readonly node: string;
  readonly drain: NodeDrain;
  readonly place: DrainPlace;
}

/** Nothing where pools have network interfaces, which know no state. */
export interface Draining {
  /** By `placeKey`. */
  readonly addresses: ReadonlyMap<string, DrainingAddress>;
  /** Names of nodes that are about to leave, by lower-case id of each pool that they must not join. */
  readonly leaving: ReadonlyMap<string, ReadonlySet<string>>;
}

export const placeKey = (poolId: string, ipAddress: string): string => `${poolId.toLowerCase()} ${ipAddress}`;

type ObservedForDrains = Pick<Observed, "drains" | "loadBalancers" | "nodes" | "services">;

/** The addresses in the cluster's pools whose nodes drain, or did. Pools that another component fills are left out. */
export function drainingIn(observed: ObservedForDrains, config: PlannerConfig): Draining {
  const { drains } = observed;
  const addresses = new Map<string, DrainingAddress>();
  const leaving = new Map<string, ReadonlySet<string>>();
  if (drains === undefined || drains.size === 0 || config.pools === "interfaces") return { addresses, leaving };
  const names = new Set([...drains].flatMap(([name, { cause }]) => (cause === undefined ? [] : [name])));
  const nodes = new Map<string, Node>(
    observed.nodes.flatMap((node) => internalAddresses(node).map((address) => [address, node] as const)),
  );
  for (const balancer of observed.loadBalancers) {
    const { name = "", backendAddressPools = [] } = balancer;
    const { internal, external } = config.preConfiguredPools;
    if ((isInternalName(name) ? internal : external) || isOfAnotherShard(name, config)) continue;
    const id = balancer.id ?? loadBalancerId(config, name);
    const times = drainTimes(balancer, observed.services, config);
    for (const { name: pool = "", loadBalancerBackendAddresses = [] } of backendAddressPools) {
      const drainMs = times.get(pool.toLowerCase());
      if (drainMs === undefined) continue;
      const poolId = childId(id, "backendAddressPools", pool).toLowerCase();
      if (drainMs > 0) leaving.set(poolId, names);
      const members = loadBalancerBackendAddresses.flatMap(({ ipAddress = "", adminState }) => {
        const node = nodes.get(ipAddress);
        return node === undefined ? [] : [{ node, ipAddress, isDown: adminState === "Down" }];
      });
      const hasOthers = members.some(
        ({ node, isDown }) =>
          !isDown && drainCause(node) === undefined && !isExcluded(node, config) && !isControlPlane(node),
      );
      const isLocal = !isClusterPool(pool, config.clusterName);
      for (const { node, ipAddress, isDown } of members) {
        const drain = drains.get(nodeName(node));
        const place = { balancer: id.toLowerCase(), isDown, hasOthers, isLocal, drainMs };
        const key = placeKey(poolId, ipAddress);
        if (drain !== undefined) addresses.set(key, { node: nodeName(node), drain, place });
      }
    }
  }
  return { addresses, leaving };
}

/** By lower-case name of each pool of ours: the longest time of the Services that use it. */
function drainTimes(
  { loadBalancingRules = [] }: LoadBalancer,
  services: readonly Service[],
  config: PlannerConfig,
): ReadonlyMap<string, number> {
  const served = new Set(loadBalancingRules.map(({ name = "" }) => name.split("-", 1)[0]?.toLowerCase()));
  const times = new Map<string, number>();
  const use = (pool: string, ms: number): void =>
    void times.set(pool.toLowerCase(), Math.max(ms, times.get(pool.toLowerCase()) ?? 0));
  for (const service of services) {
    if (isBeingDeleted(service) || !served.has(defaultLoadBalancerName(service).toLowerCase())) continue;
    const { subject } = readSubject(service, config);
    const ms = drainMsOf(subject.settings.get(annotations.drainSeconds), config);
    for (const family of ["IPv4", "IPv6"] as const) {
      const hasOwnPool = subject.local && config.loadBalancers.length > 0;
      const suffix = family === "IPv6" ? "-IPv6" : "";
      use(hasOwnPool ? localPoolName(keyOf(service), family) : `${config.clusterName}${suffix}`, ms);
    }
  }
  return times;
}

const drainMsOf = (annotated: number | undefined, { drainSeconds }: PlannerConfig): number =>
  (annotated ?? drainSeconds) * 1000;
