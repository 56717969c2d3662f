import { describe } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import type { BringWork } from "cloud-controller-host/sdk/testing";

import plugin from "../../../plugins/azure-node-ipam/plugin.ts";
import { describeController } from "../../kit/conformance.ts";
import { aNode } from "./nodes.ts";

describe("with RangeAllocator", () => describeController(plugin));

/** Nodes of machines, without which this allocator has nothing to do. */
const machines: BringWork = async ({ admin, memory, round }) => {
  for (const ipv4 of [24, 26]) {
    const name = `node-${round}-${ipv4}`;
    memory.masks.set(name, { ipv4, ipv6: 64 });
    await admin.create(kinds.Node, aNode(name, [], { spec: { providerID: `memory://${name}` } }));
  }
};

describe("with CloudAllocator", () =>
  describeController(plugin, { work: machines, flags: { cidrAllocatorType: "CloudAllocator" } }));
