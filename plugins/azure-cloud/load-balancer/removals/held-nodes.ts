import type { Node } from "cloud-controller-host/sdk";

import type { HeldChange } from "../../removal-guard/guard.ts";
import type { Owner } from "../../removal-guard/rule.ts";
import { familyOf } from "../model/addresses.ts";
import type { PlanInput, ServiceKey } from "../model/model.ts";
import { nodeName } from "../plan/draft/nodes.ts";

/** The input with the nodes and endpoints whose removal is held. */
export function withHeldNodes({ intents, observed }: PlanInput, changes: readonly HeldChange[]): PlanInput {
  const items = changes.flatMap((change) => change.items);
  const addresses = new Map<string, Set<string>>();
  const endpoints = new Map<ServiceKey, readonly string[]>(observed.endpointNodes);
  for (const { owners, name } of items)
    for (const owner of owners) {
      const [address = ""] = name.split(" ");
      const node = nodeOf(owner);
      if (node === undefined) continue;
      const known = addresses.getOrInsertComputed(node, () => new Set());
      if (familyOf(address) !== undefined) known.add(address);
      const key = owner.kind === "endpoint" ? owner.name.split(" ")[0] : undefined;
      if (key !== undefined) endpoints.set(key, [...(endpoints.get(key) ?? []), node]);
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

const nodeOf = ({ kind, name }: Owner): string | undefined =>
  kind === "Node" ? name : kind === "endpoint" ? name.split(" ")[1] : undefined;
