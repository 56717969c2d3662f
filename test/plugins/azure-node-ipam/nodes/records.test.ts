import { describe, expect, test } from "bun:test";

import { type Node, parseCIDR } from "cloud-controller-host/sdk";

import { createLogger } from "../../../../host/process/log/log.ts";
import { ipamEvents } from "../../../../plugins/azure-node-ipam/nodes/events.ts";
import { NodeRecords } from "../../../../plugins/azure-node-ipam/nodes/records.ts";
import { aNode } from "../nodes.ts";
import { cidrs, openAllocations } from "../open-allocations.ts";

const cluster = "10.0.0.0/16";

function openRecords() {
  const recorded: string[] = [];
  const opened = openAllocations({ clusters: [cluster], masks: [24] });
  const records = new NodeRecords({
    settings: {
      type: "RangeAllocator",
      clusters: [parseCIDR(cluster)],
      masks: [24],
      services: [],
      configureCloudRoutes: false,
    },
    allocations: opened.allocations,
    events: ipamEvents({
      events: { event: (_subject, _type, reason, message) => recorded.push(`${reason}: ${message}`) },
    }),
    log: createLogger({ format: "json", verbosity: 0, write: () => undefined }),
  });
  const used = (): readonly string[] => {
    const set = opened.allocations.sets[0];
    return Array.from({ length: set?.size ?? 0 }, (_, block) => block)
      .filter((block) => set?.isUsed(block))
      .map((block) => set?.cidrAt(block).text ?? "");
  };
  /** Offers a block to node0 and writes it, with whatever answer. */
  const offer = (uid: string): readonly string[] => {
    const offered = opened.allocations.allocate("node0", uid) ?? [];
    records.sending("node0", offered);
    return offered.map(({ text }) => text);
  };
  return { records, recorded, used, offer, allocations: opened.allocations };
}

const node0 = (uid: string, ...podCIDRs: readonly string[]): Node => aNode("node0", podCIDRs, { metadata: { uid } });

describe("a watch event", () => {
  test("a watch event with CIDRs of another writer reserves them and ours until the node is read", () => {
    const { records, used, offer } = openRecords();
    records.seen(node0("one"));
    expect(offer("one")).toEqual(["10.0.0.0/24"]);
    records.seen(node0("one", "10.0.7.0/24"));
    expect(used()).toEqual(["10.0.0.0/24", "10.0.7.0/24"]);
    expect(records.isSettled(node0("one"))).toBe(false);
    expect(records.confirmed(node0("one", "10.0.7.0/24"))).toBe(true);
    expect(used()).toEqual(["10.0.7.0/24"]);
    expect(records.isSettled(node0("one"))).toBe(true);
  });

  test("a watch event with our CIDRs settles the claim", () => {
    const { records, used, offer } = openRecords();
    records.seen(node0("one"));
    const ours = offer("one");
    records.seen(node0("one", ...ours));
    expect(records.isSettled(node0("one"))).toBe(true);
    expect(records.isDoubtful(node0("one", ...ours))).toBe(false);
    expect(used()).toEqual(ours);
  });

  test("a watch event that is outdated frees nothing and requires no read", () => {
    const { records, used, offer } = openRecords();
    const ours = offer("one");
    records.confirmed(node0("one", ...ours));
    records.seen(node0("one"));
    expect(used()).toEqual(ours);
    expect(records.isSettled(node0("one"))).toBe(true);
    expect(records.isDoubtful(node0("one", ...ours))).toBe(false);
  });

  test("a watch event with CIDRs from the node's creation requires no read", () => {
    const { records } = openRecords();
    records.seen(node0("one", "10.0.7.0/24"));
    expect(records.isDoubtful(node0("one", "10.0.7.0/24"))).toBe(false);
    expect(records.confirmed(node0("one", "10.0.7.0/24"))).toBe(false);
  });

  test("a watch event with CIDRs on a node that waited requires a read", () => {
    const { records, used } = openRecords();
    records.seen(node0("one"));
    records.seen(node0("one", "10.0.7.0/24"));
    records.seen(node0("one", "10.0.7.0/24"));
    expect(used()).toEqual(["10.0.7.0/24"]);
    expect(records.isDoubtful(node0("one", "10.0.7.0/24"))).toBe(true);
    expect(records.confirmed(node0("one", "10.0.7.0/24"))).toBe(true);
    expect(records.isDoubtful(node0("one", "10.0.7.0/24"))).toBe(false);
  });

  test("a watch event of a recreated node keeps the CIDRs of the old one too", () => {
    const { records, used } = openRecords();
    records.seen(node0("one", "10.0.7.0/24"));
    records.seen(node0("two", "10.0.8.0/24"));
    expect(used()).toEqual(["10.0.7.0/24", "10.0.8.0/24"]);
    records.seen(node0("two", "10.0.8.0/24"));
    expect(used()).toEqual(["10.0.7.0/24", "10.0.8.0/24"]);
    expect(records.isSettled(node0("two"))).toBe(false);
  });
});

describe("a read of a node", () => {
  test("a read of a node with our own late write on a recreated node is not reported as another writer", () => {
    const { records, used, offer } = openRecords();
    records.seen(node0("one"));
    const ours = offer("one");
    records.seen(node0("one", ...ours));
    records.seen(node0("two"));
    records.seen(node0("two", ...ours));
    expect(records.confirmed(node0("two", ...ours))).toBe(false);
    expect(used()).toEqual(ours);
  });

  test("a read of a node with CIDRs outside the range is not reported as another allocator", () => {
    const { records, recorded } = openRecords();
    records.seen(node0("one"));
    expect(records.confirmed(node0("one", "192.168.0.0/24"))).toBe(false);
    expect(recorded).toEqual([
      `PodCIDROutOfRange: Pod CIDRs of node node0: 192.168.0.0/24 is out the range of cluster cidr ${cluster}`,
    ]);
  });

  test("a read of a node that finds the same problem again does not report it again, but a new one", () => {
    const { records, recorded } = openRecords();
    records.seen(node0("one", "192.168.0.0/24"));
    records.seen(node0("one", "192.168.0.0/24"));
    records.confirmed(node0("one", "192.168.0.0/24"));
    expect(recorded).toHaveLength(1);
    records.confirmed(node0("one", "192.168.1.0/24"));
    expect(recorded).toHaveLength(2);
  });

  test("a read of a node that was recreated unseen reports its problem again", () => {
    const { records, recorded } = openRecords();
    records.confirmed(node0("one", "192.168.0.0/24"));
    records.confirmed(node0("two", "192.168.0.0/24"));
    expect(recorded).toHaveLength(2);
  });

  test("a read of a node that finds it deleted removes its claim, and problems of the next node are reported again", () => {
    const { records, used, recorded, allocations } = openRecords();
    allocations.observe("node1", "uid", cidrs("10.0.7.0/24"));
    records.confirmed(node0("one", "10.0.7.0/25"));
    records.released("node0");
    expect(used()).toEqual(["10.0.7.0/24"]);
    records.seen(node0("two", "10.0.7.0/25"));
    expect(recorded).toEqual([
      "PodCIDRConflict: Pod CIDRs of node node0: 10.0.7.0/25 overlaps 10.0.7.0/24 of node node1",
      "PodCIDRConflict: Pod CIDRs of node node0: 10.0.7.0/25 overlaps 10.0.7.0/24 of node node1",
    ]);
  });
});
