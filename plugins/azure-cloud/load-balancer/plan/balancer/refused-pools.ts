import { keyOf } from "cloud-controller-host/sdk";

import { childId } from "../../model/ids.ts";
import type { ServiceIntent } from "../../model/model.ts";
import { localPoolName } from "../../model/names.ts";
import type { Draft } from "../draft/draft.ts";
import { ruledPools } from "../draft/edits.ts";
import { usePool } from "./balancers.ts";

/**
 * Takes in the pools of local Services that are refused. Such a Service keeps the rules that it has, but its Pods move on:
 * a pool that did not follow them would soon have none of their nodes.
 */
export function useRefusedPools(draft: Draft, refused: readonly ServiceIntent[]): void {
  if (draft.config.serviceGateway) return;
  for (const { service, nodes } of refused) {
    const key = keyOf(service);
    if (!draft.observed.endpointNodes.has(key)) continue;
    for (const family of ["IPv4", "IPv6"] as const) {
      const name = localPoolName(key, family);
      for (const balancer of draft.balancers.values()) {
        const id = childId(balancer.id, "backendAddressPools", name).toLowerCase();
        if (balancer.current !== undefined && ruledPools(balancer.current).has(id))
          usePool(draft, { balancer, name, family, local: true }, { subject: { key }, nodes });
      }
    }
  }
}
