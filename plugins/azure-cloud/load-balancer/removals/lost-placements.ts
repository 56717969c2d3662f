import { keyOf } from "cloud-controller-host/sdk";

import type { ResourceChange } from "../../removal-guard/guard.ts";
import type { Item } from "../../removal-guard/items.ts";
import { sameAddress } from "../model/addresses.ts";
import type { PlanInput } from "../model/model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { observedAddresses, statusAddresses } from "../plan/draft/ingress.ts";
import { ownerTag } from "../plan/private-link/remove.ts";
import { annotations } from "../service/annotations.ts";
import { readSubject } from "../service/subject.ts";

/** Kinds of items that only a config can take away. */
export const placedKinds: ReadonlySet<Item["kind"]> = new Set(["addresses", "nodes", "private links", "routes"]);

/** Addresses in the status of Services that no frontend has where the config looks for them. */
export function lostAddresses({ intents, observed }: PlanInput, config: PlannerConfig): ResourceChange {
  const items = intents.flatMap(({ service }): readonly Item[] => {
    const { additionalAddresses } = readSubject(service, config).subject;
    const kept = [...observedAddresses(observed, service), ...additionalAddresses];
    const lost = statusAddresses(service).filter((address) => !kept.some((one) => sameAddress(one, address)));
    const key = keyOf(service);
    return lost.map((address) => ({ kind: "addresses", address, service: key, owners: [], services: [key] }));
  });
  const group = config.loadBalancerResourceGroup;
  return { id: group, title: `resource group ${group}, which lacks it`, before: items, after: [], writers: [] };
}

/** Private link services of which the config's resource group has none. */
export function lostLinks({ intents, observed }: PlanInput, config: PlannerConfig): ResourceChange {
  const owned = new Set(observed.privateLinkServices.map(({ tags }) => tags?.[ownerTag]?.toLowerCase()));
  const items = intents.flatMap(({ service }): readonly Item[] => {
    const key = keyOf(service);
    const wants = readSubject(service, config).subject.settings.get(annotations.plsCreate);
    const isLost = wants && statusAddresses(service).length > 0 && !owned.has(key.toLowerCase());
    return isLost ? [{ kind: "private links", service: key, owners: [], services: [key] }] : [];
  });
  const group = config.privateLinkResourceGroup;
  return {
    id: `${group}/links`,
    title: `resource group ${group}, which lacks it`,
    before: items,
    after: [],
    writers: [],
  };
}
