import { describe, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { TestCluster } from "../../kit/harness.ts";
import { aNode, answeredWrites, type Flags, given, messagesOf, runIpam, strategic } from "./nodes.ts";

const v4 = { clusterCidr: "10.10.0.0/16", nodeCidrMaskSizeIpv4: 24 };
const both = { clusterCidr: "10.10.0.0/16,ace:cab:deca::/8", nodeCidrMaskSizeIpv4: 24, nodeCidrMaskSizeIpv6: 24 };

describe("CIDRs that nodes already have", () => {
  const rows: readonly {
    readonly name: string;
    readonly flags: Flags;
    readonly existing?: readonly string[];
    readonly next: readonly string[];
    readonly problem?: string;
  }[] = [
    { name: "success, single stack no node allocation", flags: v4, next: ["10.10.0.0/24"] },
    { name: "success, dual stack no node allocation", flags: both, next: ["10.10.0.0/24", "a00::/24"] },
    {
      name: "success, single stack correct node allocation",
      flags: v4,
      existing: ["10.10.0.1/24"],
      next: ["10.10.1.0/24"],
    },
    {
      name: "success, dual stack both allocated correctly",
      flags: both,
      existing: ["10.10.0.1/24", "a00::/86"],
      next: ["10.10.1.0/24", "a00:100::/24"],
    },
    {
      name: "success, single stack incorrect node allocation",
      flags: v4,
      existing: ["172.10.0.1/24"],
      next: ["10.10.0.0/24"],
      problem: "172.10.0.0/24 is out the range of cluster cidr 10.10.0.0/16",
    },
    {
      name: "success, dualstack node allocating bad v4",
      flags: both,
      existing: ["172.10.0.1/24", "a00::/86"],
      next: ["10.10.0.0/24", "a00:100::/24"],
      problem: "172.10.0.0/24 is out the range of cluster cidr 10.10.0.0/16,a00::/8",
    },
    {
      name: "success, dualstack node allocating bad v6",
      flags: both,
      existing: ["10.10.0.1/24", "cdd::/86"],
      next: ["10.10.1.0/24", "a00::/24"],
      problem: "cdd::/86 is out the range of cluster cidr 10.10.0.0/16,a00::/8",
    },
    {
      // Upstream ends the process here. This plugin records an event on the node and continues.
      name: "fail, dualstack node allocating from non existing cidr",
      flags: v4,
      existing: ["10.10.0.1/24", "a00::/86"],
      next: ["10.10.1.0/24"],
      problem: "a00::/86 is out the range of cluster cidr 10.10.0.0/16",
    },
  ];
  for (const { name, flags, existing, next, problem } of rows)
    test(name, async () => {
      await using cluster = await TestCluster.start();
      cluster.api.create(kinds.Node, aNode("node0", existing));
      // A node that has nothing is the next one itself.
      const waiting = existing === undefined ? "node0" : "node1";
      if (existing !== undefined) cluster.api.create(kinds.Node, aNode(waiting));
      const { controller } = await runIpam(cluster, flags);
      expect(await given(cluster, waiting)).toEqual([...next]);
      if (problem !== undefined) await eventually("the event is recorded", () => cluster.event("PodCIDROutOfRange"));
      expect(messagesOf(cluster, "PodCIDROutOfRange", "node0")).toEqual(
        problem === undefined ? [] : [`Pod CIDRs of node node0: ${problem}`],
      );
      expect(controller.warnings?.()).toEqual([]);
    });
});

describe("allocating CIDRs", () => {
  const small = { clusterCidr: "127.123.234.0/24", nodeCidrMaskSizeIpv4: 30 };
  const v4v6 = { nodeCidrMaskSizeIpv4: 24, nodeCidrMaskSizeIpv6: 98, serviceClusterIpRange: "127.123.234.0/26" };
  const rows: readonly {
    readonly name: string;
    readonly flags: Flags;
    readonly existing?: readonly string[];
    readonly expected: readonly string[];
  }[] = [
    { name: "When there's no ServiceCIDR return first CIDR in range", flags: small, expected: ["127.123.234.0/30"] },
    {
      name: "Correctly filter out ServiceCIDR",
      flags: { ...small, serviceClusterIpRange: "127.123.234.0/26" },
      expected: ["127.123.234.64/30"],
    },
    {
      name: "Correctly ignore already allocated CIDRs",
      flags: { ...small, serviceClusterIpRange: "127.123.234.0/26" },
      existing: ["127.123.234.64/30", "127.123.234.68/30", "127.123.234.72/30", "127.123.234.80/30"],
      expected: ["127.123.234.76/30"],
    },
    {
      name: "Dualstack CIDRs v4,v6",
      flags: { ...v4v6, clusterCidr: "127.0.0.0/8,ace:cab:deca::/84" },
      expected: ["127.0.0.0/24", "ace:cab:deca::/98"],
    },
    {
      name: "Dualstack CIDRs v6,v4",
      flags: { ...v4v6, clusterCidr: "ace:cab:deca::/84,127.0.0.0/8" },
      expected: ["ace:cab:deca::/98", "127.0.0.0/24"],
    },
    {
      name: "no double counting",
      flags: { clusterCidr: "10.10.0.0/22", nodeCidrMaskSizeIpv4: 24 },
      existing: ["10.10.0.0/24", "10.10.2.0/24"],
      expected: ["10.10.1.0/24"],
    },
  ];
  for (const { name, flags, existing = [], expected } of rows)
    test(name, async () => {
      await using cluster = await TestCluster.start();
      for (const [index, cidr] of existing.entries()) cluster.api.create(kinds.Node, aNode(`has${index}`, [cidr]));
      cluster.api.create(kinds.Node, aNode("node0"));
      await runIpam(cluster, flags);
      expect(await given(cluster, "node0")).toEqual([...expected]);
      expect(await answeredWrites(cluster)).toEqual([["node0", { podCIDR: expected[0], podCIDRs: expected }, 200]]);
      expect(cluster.writes()[0]?.contentType).toBe(strategic);
    });
});

const four = { clusterCidr: "127.123.234.0/28", nodeCidrMaskSizeIpv4: 30 };
const blockOf = (index: number): string => `127.123.234.${index * 4}/30`;

async function occupied(cluster: TestCluster, blocks: readonly number[]): Promise<void> {
  for (const block of blocks) await cluster.admin.create(kinds.Node, aNode(`has${block}`, [blockOf(block)]));
}

test("records an event when no CIDR is left", async () => {
  await using cluster = await TestCluster.start();
  await occupied(cluster, [0, 1, 2, 3]);
  const node = await cluster.admin.create(kinds.Node, aNode("node0"));
  const clock = manualClock();
  await runIpam(cluster, four, { clock });
  const event = await eventually("the event is recorded", () => cluster.event("CIDRNotAvailable"));
  expect(event).toMatchObject({
    type: "Normal",
    message: "Node node0 status is now: CIDRNotAvailable",
    involvedObject: { apiVersion: "v1", kind: "Node", name: "node0", uid: node.metadata?.uid },
    source: { component: "node-ipam" },
  });
  await clock.advance(1_000);
  await eventually("it is tried again", () => cluster.worked("node-ipam", 2));
  expect(cluster.writes()).toEqual([]);
  expect(cluster.log.join("\n")).toContain(
    "failed to allocate cidr for node node0: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range",
  );
});

describe("releasing CIDRs", () => {
  test("Correctly release preallocated CIDR", async () => {
    await using cluster = await TestCluster.start();
    await occupied(cluster, [0, 1, 2, 3]);
    await cluster.admin.create(kinds.Node, aNode("node0"));
    // Time stands still: it is not the next try that finds the block, but the block that finds the node.
    await runIpam(cluster, four, { clock: manualClock() });
    await eventually("the ranges are exhausted", () => cluster.event("CIDRNotAvailable"));
    await cluster.admin.delete(kinds.Node, { name: "has1" });
    expect(await given(cluster, "node0")).toEqual([blockOf(1)]);
  });

  test("a block that becomes free is given to the next node that waits, not to one that was deleted meanwhile", async () => {
    await using cluster = await TestCluster.start();
    await occupied(cluster, [0, 1, 2, 3]);
    for (const name of ["node0", "node1"]) cluster.api.create(kinds.Node, aNode(name));
    await runIpam(cluster, four, { clock: manualClock() });
    await eventually("the ranges are exhausted", () => cluster.events("CIDRNotAvailable").length === 2);
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await eventually("its deletion is processed", () => cluster.worked("node-ipam", 3));
    await cluster.admin.delete(kinds.Node, { name: "has1" });
    expect(await given(cluster, "node1")).toEqual([blockOf(1)]);
  });

  test("Correctly recycle CIDR", async () => {
    await using cluster = await TestCluster.start();
    await occupied(cluster, [1, 2, 3]);
    await runIpam(cluster, four);
    await cluster.admin.create(kinds.Node, aNode("node0"));
    expect(await given(cluster, "node0")).toEqual([blockOf(0)]);
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await cluster.admin.create(kinds.Node, aNode("node1"));
    expect(await given(cluster, "node1")).toEqual([blockOf(0)]);
  });
});

describe("allocating again after a failure", () => {
  test("It should release allocated CIDR and retry with new CIDR when node patch fails", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 422 }, times: 9 });
    await cluster.admin.create(kinds.Node, aNode("node0"));
    await runIpam(cluster, four);
    expect(await given(cluster, "node0")).toEqual([blockOf(3)]);
    const tried = (await answeredWrites(cluster)).map(([, , status]) => status);
    expect(tried).toEqual([...Array.from({ length: 9 }, () => 422), 200]);
    const event = await eventually("the event is recorded", () => cluster.event("CIDRAssignmentFailed"));
    expect(event).toMatchObject({ type: "Normal", message: "Node node0 status is now: CIDRAssignmentFailed" });

    // What was refused is free again: three more nodes find room.
    for (const name of ["node1", "node2", "node3"]) await cluster.admin.create(kinds.Node, aNode(name));
    const others = await Promise.all(["node1", "node2", "node3"].map((name) => given(cluster, name)));
    expect(others.flat().toSorted()).toEqual([blockOf(0), blockOf(1), blockOf(2)]);
  });
});
