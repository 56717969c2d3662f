import { keyOf } from "cloud-controller-host/sdk";

import { childId, sameId } from "../../model/ids.ts";
import type { ServiceIntent } from "../../model/model.ts";
import { localPoolName } from "../../model/names.ts";
import type { Draft } from "../draft/draft.ts";

/**
 * Takes in the pools of local Services that are refused. Such a Service keeps the rules that it has, but its Pods move on:
 * a pool that did not follow them would soon have none of their nodes.
 */
export function useRefusedPools(draft: Draft, refused: readonly ServiceIntent[]): void {
  const { config, observed, pools } = draft;
  if (config.serviceGateway) return;
  for (const { service, nodes } of refused) {
    const key = keyOf(service);
    if (!observed.endpointNodes.has(key)) continue;
    for (const family of ["IPv4", "IPv6"] as const)
      for (const balancer of draft.balancers.values()) {
        const name = localPoolName(key, family);
        const id = childId(balancer.id, "backendAddressPools", name);
        const rules = balancer.current?.loadBalancingRules;
        if (!rules?.some(({ backendAddressPool }) => sameId(backendAddressPool?.id, id))) continue;
        const unused = {
          balancer,
          name,
          family,
          local: true,
          nodeLists: new Set<typeof nodes>(),
          services: new Set<string>(),
        };
        const used = pools.getOrInsert(id.toLowerCase(), unused);
        used.services.add(key);
        used.nodeLists.add(nodes);
      }
  }
}
