import { describe, expect, test } from "bun:test";

import { type Node, parseCIDR } from "cloud-controller-host/sdk";

import { createLogger } from "../../../../host/process/log/log.ts";
import { ipamEvents } from "../../../../plugins/azure-node-ipam/events.ts";
import { NodeRecords } from "../../../../plugins/azure-node-ipam/nodes/records.ts";
import { aNode } from "../nodes.ts";
import { cidrs, openAllocations } from "../open-allocations.ts";

const cluster = "10.0.0.0/16";

function openRecords() {
  const told: string[] = [];
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
    events: ipamEvents({ events: { event: (_subject, _type, reason, message) => told.push(`${reason}: ${message}`) } }),
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
  return { records, told, used, offer, allocations: opened.allocations };
}

const node0 = (uid: string, ...podCIDRs: readonly string[]): Node => aNode("node0", podCIDRs, { metadata: { uid } });

describe("news from the watch", () => {
  test("of CIDRs of somebody else keeps them and ours, until the node is read afresh", () => {
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

  test("of ours settles them", () => {
    const { records, used, offer } = openRecords();
    records.seen(node0("one"));
    const ours = offer("one");
    records.seen(node0("one", ...ours));
    expect(records.isSettled(node0("one"))).toBe(true);
    expect(records.isDoubtful(node0("one", ...ours))).toBe(false);
    expect(used()).toEqual(ours);
  });

  test("that is older than what is known takes nothing away, and makes no doubt", () => {
    const { records, used, offer } = openRecords();
    const ours = offer("one");
    records.confirmed(node0("one", ...ours));
    records.seen(node0("one"));
    expect(used()).toEqual(ours);
    expect(records.isSettled(node0("one"))).toBe(true);
    expect(records.isDoubtful(node0("one", ...ours))).toBe(false);
  });

  test("of CIDRs that a node has brought with it makes no doubt", () => {
    const { records } = openRecords();
    records.seen(node0("one", "10.0.7.0/24"));
    expect(records.isDoubtful(node0("one", "10.0.7.0/24"))).toBe(false);
    expect(records.confirmed(node0("one", "10.0.7.0/24"))).toBe(false);
  });

  test("of CIDRs on a node that waited, and for which nothing is kept, is doubtful until it is read", () => {
    const { records, used } = openRecords();
    records.seen(node0("one"));
    records.seen(node0("one", "10.0.7.0/24"));
    records.seen(node0("one", "10.0.7.0/24"));
    expect(used()).toEqual(["10.0.7.0/24"]);
    expect(records.isDoubtful(node0("one", "10.0.7.0/24"))).toBe(true);
    expect(records.confirmed(node0("one", "10.0.7.0/24"))).toBe(true);
    expect(records.isDoubtful(node0("one", "10.0.7.0/24"))).toBe(false);
  });

  test("of a node made anew keeps what the old one had as well", () => {
    const { records, used } = openRecords();
    records.seen(node0("one", "10.0.7.0/24"));
    records.seen(node0("two", "10.0.8.0/24"));
    expect(used()).toEqual(["10.0.7.0/24", "10.0.8.0/24"]);
    records.seen(node0("two", "10.0.8.0/24"));
    expect(used()).toEqual(["10.0.7.0/24", "10.0.8.0/24"]);
    expect(records.isSettled(node0("two"))).toBe(false);
  });
});

describe("an answer", () => {
  test("that shows our own late write on a node made anew is no sign of somebody else", () => {
    const { records, used, offer } = openRecords();
    records.seen(node0("one"));
    const ours = offer("one");
    records.seen(node0("one", ...ours));
    records.seen(node0("two"));
    records.seen(node0("two", ...ours));
    expect(records.confirmed(node0("two", ...ours))).toBe(false);
    expect(used()).toEqual(ours);
  });

  test("of CIDRs outside the range is no sign of somebody who could give ours twice", () => {
    const { records, told } = openRecords();
    records.seen(node0("one"));
    expect(records.confirmed(node0("one", "192.168.0.0/24"))).toBe(false);
    expect(told).toEqual([
      `PodCIDROutOfRange: Pod CIDRs of node node0: 192.168.0.0/24 is out the range of cluster cidr ${cluster}`,
    ]);
  });

  test("that the node has gone leaves nothing of it, and what was told of it is told anew of the next one", () => {
    const { records, used, told, allocations } = openRecords();
    allocations.observe("node1", "uid", cidrs("10.0.7.0/24"));
    records.confirmed(node0("one", "10.0.7.0/25"));
    records.released("node0");
    expect(used()).toEqual(["10.0.7.0/24"]);
    records.seen(node0("two", "10.0.7.0/25"));
    expect(told).toEqual([
      "PodCIDRConflict: Pod CIDRs of node node0: 10.0.7.0/25 overlaps 10.0.7.0/24 of node node1",
      "PodCIDRConflict: Pod CIDRs of node node0: 10.0.7.0/25 overlaps 10.0.7.0/24 of node node1",
    ]);
  });
});
