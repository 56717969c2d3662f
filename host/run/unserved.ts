import { annotationOf, annotations, keyOf, parseLabelSelector, type Service } from "cloud-controller-host/sdk";

import type { Served } from "../process/leader-election/announcement.ts";
import type { Shards } from "../process/leader-election/shards.ts";

/**
 * Services with load balancers that neither this process nor a shard with a leader serves, each with its reason: a shard
 * was removed, or the labels match none. They are neither changed nor deleted. Rejects if Leases cannot be read.
 */
export async function unservedServices(shards: Shards, services: readonly Service[]): Promise<readonly string[]> {
  const leading = (await shards.look()).filter(({ leader, relation }) => leader !== "" && relation !== "self");
  if (leading.some(({ relation }) => relation === "undecided")) return [];
  const selections = [shards.own, ...leading.flatMap(({ serves }) => serves ?? [])].map(selectionOf);
  return services
    .filter(({ spec }) => spec?.type === "LoadBalancer")
    .filter((service) => !selections.some((selects) => selects(service)))
    .map((service) => {
      const mark = annotationOf(service, annotations.servedBy);
      return `Service ${keyOf(service)}: no shard that leads selects it${mark === undefined ? "" : `; ${mark} served it`}`;
    });
}

function selectionOf({ services, loadBalancerClass, serviceSelector }: Served): (service: Service) => boolean {
  const matches = parseLabelSelector(serviceSelector);
  return ({ metadata, spec }) =>
    services && (spec?.loadBalancerClass ?? "") === loadBalancerClass && matches(metadata?.labels ?? {});
}
