import { describe, expect, test } from "bun:test";

import { cidrs, openAllocations } from "../open-allocations.ts";

const usedBlocks = ({ allocations }: ReturnType<typeof openAllocations>, index = 0): readonly number[] => {
  const set = allocations.sets[index];
  return Array.from({ length: set?.size ?? 0 }, (_, block) => block).filter((block) => set?.isUsed(block));
};

describe("a changed mask size", () => {
  for (const [family, cluster, held, blocks] of [
    ["IPv4", "127.123.234.0/30", "127.123.234.0/31", [0, 1]],
    ["IPv6", "beef:1234::/30", "beef:1236::/31", [2, 3]],
  ] as const) {
    test(`it should update the mask size and re-calculate the used bits, ${family}`, () => {
      const opened = openAllocations({ clusters: [cluster], masks: [31] });
      opened.observe("node0", held);
      opened.allocate("node1", [32]);
      opened.allocations.release("node1");
      expect(opened.allocations.sets[0]?.mask).toBe(32);
      expect(usedBlocks(opened)).toEqual([...blocks]);
    });

    test(`it should do nothing if the max subnet mask size is equal to it in the cidr set, ${family}`, () => {
      const opened = openAllocations({ clusters: [cluster], masks: [32] });
      opened.allocate("node0", [32]);
      opened.allocations.release("node0");
      expect(opened.allocations.sets[0]?.mask).toBe(32);
      expect(usedBlocks(opened)).toEqual([]);
    });

    test(`it should do nothing when the new size is less than the current one, ${family}`, () => {
      const opened = openAllocations({ clusters: [cluster], masks: [31] });
      opened.allocate("node0", [30]);
      opened.allocations.release("node0");
      expect(opened.allocations.sets[0]?.mask).toBe(31);
      expect(usedBlocks(opened)).toEqual([]);
    });
  }
});

describe("an allocation", () => {
  test("is one block of each cluster CIDR, in their order", () => {
    const { allocate } = openAllocations({
      clusters: ["127.0.0.0/8", "ace:cab:deca::/84", "10.0.0.0/8"],
      masks: [24, 98, 24],
      services: ["127.0.0.0/23"],
    });
    expect(allocate("node0")).toEqual(["127.0.2.0/24", "ace:cab:deca::/98", "10.0.0.0/24"]);
    expect(allocate("node1")).toEqual(["127.0.3.0/24", "ace:cab:deca::4000:0/98", "10.0.1.0/24"]);
  });

  test("replaces an earlier claim of the node", () => {
    const opened = openAllocations({ clusters: ["10.0.0.0/16"], masks: [24] });
    expect(opened.allocate("node0")).toEqual(["10.0.0.0/24"]);
    expect(opened.allocate("node0")).toEqual(["10.0.1.0/24"]);
    expect(usedBlocks(opened)).toEqual([1]);
  });

  test("allocates nothing in one family when the other is full", () => {
    const opened = openAllocations({ clusters: ["10.0.0.0/16", "2001:db8::/63"], masks: [24, 64] });
    expect([opened.allocate("node0"), opened.allocate("node1")]).not.toContain(undefined);
    for (let count = 0; count < 10; count++) expect(opened.allocate("node2")).toBeUndefined();
    expect(usedBlocks(opened)).toEqual([0, 1]);
    opened.allocations.release("node0");
    expect(opened.allocate("node2")).toEqual(["10.0.2.0/24", "2001:db8::/64"]);
  });

  test("has the requested size, beside others of other sizes", () => {
    const { allocate } = openAllocations({ clusters: ["10.240.0.0/16"], masks: [24] });
    expect(allocate("node0", [24])).toEqual(["10.240.0.0/24"]);
    expect(allocate("node1", [26])).toEqual(["10.240.1.0/26"]);
    expect(allocate("node2", [25])).toEqual(["10.240.1.128/25"]);
    expect(allocate("node3", [26])).toEqual(["10.240.1.64/26"]);
    expect(allocate("node4", [24])).toEqual(["10.240.2.0/24"]);
  });
});

describe("blocks that become smaller", () => {
  test("service ranges, CIDRs of nodes and pending allocations stay reserved", () => {
    const { allocate, observe } = openAllocations({
      clusters: ["10.0.0.0/24"],
      masks: [25],
      services: ["10.0.0.0/28"],
    });
    observe("node0", "10.0.0.16/28");
    expect(allocate("node1", [25])).toEqual(["10.0.0.128/25"]);
    expect(allocate("node2", [28])).toEqual(["10.0.0.32/28"]);
  });

  test("the service range stays reserved even without any node", () => {
    const { allocate } = openAllocations({ clusters: ["10.0.0.0/24"], masks: [24], services: ["10.0.0.0/26"] });
    expect(allocate("node0", [26])).toEqual(["10.0.0.64/26"]);
  });
});

describe("a block with two claims", () => {
  test("is free when the last claim is released", () => {
    const freed: number[] = [];
    const opened = openAllocations({ clusters: ["10.0.0.0/22"], masks: [24], freed: (blocks) => freed.push(blocks) });
    opened.observe("node0", "10.0.1.0/24");
    opened.observe("node1", "10.0.0.0/23");
    opened.allocations.release("node1");
    expect(usedBlocks(opened)).toEqual([1]);
    opened.allocations.release("node0");
    expect(usedBlocks(opened)).toEqual([]);
    expect(freed).toEqual([1, 1]);
  });

  test("a block with two claims of disjoint CIDRs is not an overlap", () => {
    const { observe } = openAllocations({ clusters: ["10.0.0.0/22"], masks: [24] });
    expect(observe("node0", "10.0.1.0/26")).toEqual([]);
    expect(observe("node1", "10.0.1.64/26")).toEqual([]);
  });

  test("a block with two claims with a CIDR that another node is about to get is reported with that node", () => {
    const { allocate, observe } = openAllocations({ clusters: ["10.0.0.0/16"], masks: [24] });
    expect(allocate("node0")).toEqual(["10.0.0.0/24"]);
    expect(observe("node1", "10.0.0.0/24")).toMatchObject([{ other: { text: "10.0.0.0/24" }, node: "node0" }]);
  });

  test("is not reported again when the same CIDRs are observed again", () => {
    const { observe } = openAllocations({ clusters: ["10.0.0.0/16"], masks: [24] });
    observe("node0", "10.0.0.0/24");
    expect(observe("node1", "10.0.0.0/24")).toHaveLength(1);
    expect(observe("node1", "10.0.0.0/24")).toEqual([]);
  });

  test("a block with two claims is reported with the nodes that have one now, not with those that had one", () => {
    const { allocations, observe } = openAllocations({ clusters: ["10.0.0.0/16"], masks: [24] });
    const nodes = (node: string) => observe(node, "10.0.0.0/26").map((overlap) => overlap.node);
    observe("moved", "10.0.0.0/26");
    observe("moved", "10.0.9.0/26");
    nodes("deleted");
    allocations.release("deleted");
    expect(nodes("first")).toEqual([]);
    expect(nodes("second")).toEqual(["first"]);
  });

  test("is reported with the other node", () => {
    const { observe } = openAllocations({ clusters: ["10.0.0.0/16"], masks: [24], services: ["10.0.7.0/24"] });
    observe("node0", "10.0.1.0/24");
    const overlaps = observe("node1", "10.0.0.0/21").map(({ other, node }) => [other.text, node]);
    expect(overlaps).toEqual([
      ["10.0.7.0/24", undefined],
      ["10.0.1.0/24", "node0"],
    ]);
  });
});

describe("the claim of a node", () => {
  test("grows by watch events, and is replaced by a read", () => {
    const opened = openAllocations({ clusters: ["10.0.0.0/21"], masks: [24] });
    expect(opened.allocate("node0")).toEqual(["10.0.0.0/24"]);
    opened.allocations.add("node0", "uid", cidrs("10.0.5.0/24"));
    expect(usedBlocks(opened)).toEqual([0, 5]);
    opened.observe("node0", "10.0.5.0/24");
    expect(usedBlocks(opened)).toEqual([5]);
  });

  test("frees only what it no longer has when it is replaced", () => {
    const freed: number[] = [];
    const opened = openAllocations({ clusters: ["10.0.0.0/21"], masks: [24], freed: (blocks) => freed.push(blocks) });
    opened.observe("node0", "10.0.1.0/24");
    opened.observe("node0", "10.0.1.0/24", "10.0.2.0/24");
    expect(freed).toEqual([]);
    opened.observe("node0", "10.0.2.0/24", "10.0.4.0/23");
    expect([freed, usedBlocks(opened)]).toEqual([[1], [2, 4, 5]]);
  });

  test("reserves in every cluster CIDR that it overlaps, whatever its position in the node's list", () => {
    const opened = openAllocations({ clusters: ["10.0.0.0/21", "2001:db8::/61"], masks: [24, 64] });
    opened.observe("node0", "2001:db8:0:2::/64", "10.0.3.0/24");
    expect([usedBlocks(opened, 0), usedBlocks(opened, 1)]).toEqual([[3], [2]]);
  });
});
