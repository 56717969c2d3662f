import { kinds } from "cloud-controller-host/sdk";
import type { CreateWork } from "cloud-controller-host/sdk/testing";

import { aNode } from "../plugins/azure-node-ipam/nodes.ts";

/** Nodes of machines, without which `CloudAllocator` has nothing to do. */
export const machines: CreateWork = async ({ admin, memory, round }) => {
  for (const ipv4 of [24, 26]) {
    const name = `node-${round}-${ipv4}`;
    memory.masks.set(name, { ipv4, ipv6: 64 });
    await admin.create(kinds.Node, aNode(name, [], { spec: { providerID: `memory://${name}` } }));
  }
};
