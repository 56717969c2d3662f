import type { Node } from "cloud-controller-host/sdk";

import type { HeldChange } from "../../removal-guard/guard.ts";
import type { Owner } from "../../removal-guard/items.ts";
import { familyOf } from "../model/addresses.ts";
import type { PlanInput, ServiceKey } from "../model/model.ts";
import { nodeName } from "../plan/draft/nodes.ts";

/** The input with the nodes and endpoints whose removal is held. */
export function withHeldNodes({ intents, observed }: PlanInput, changes: readonly HeldChange[]): PlanInput {
  const items = changes.flatMap((change) => change.items);
  const addresses = new Map<string, Set<string>>();
  const endpoints = new Map<ServiceKey, readonly string[]>(observed.endpointNodes);
  for (const item of items)
    for (const owner of item.owners) {
      const node = nodeOf(owner);
      if (node === undefined) continue;
      const known = addresses.getOrInsertComputed(node, () => new Set());
      if ("address" in item && familyOf(item.address) !== undefined) known.add(item.address);
      if (owner.kind === "endpoint") endpoints.set(owner.service, [...(endpoints.get(owner.service) ?? []), node]);
    }
  const back = [...addresses].flatMap(([name, known]): readonly Node[] => {
    if (known.size === 0) return [];
    const node = observed.nodes.find((one) => nodeName(one) === name) ?? { metadata: { name } };
    const present = node.status?.addresses ?? [];
    const missing = known.difference(new Set(present.map(({ address }) => address)));
    const added = [...missing].map((address) => ({ type: "InternalIP", address }));
    return [{ ...node, status: { ...node.status, addresses: [...present, ...added] } }];
  });
  const join = (nodes: readonly Node[]): readonly Node[] => {
    const names = new Set(back.map(nodeName));
    return [...nodes.filter((one) => !names.has(nodeName(one))), ...back];
  };
  return {
    intents: intents.map((intent) => ({ ...intent, nodes: join(intent.nodes) })),
    observed: {
      ...observed,
      nodes: join(observed.nodes),
      deletedNodes: observed.deletedNodes.difference(new Set(addresses.keys())),
      endpointNodes: endpoints,
    },
  };
}

function nodeOf(owner: Owner): string | undefined {
  if (owner.kind === "endpoint") return owner.node;
  return owner.kind === "Node" ? owner.name : undefined;
}
