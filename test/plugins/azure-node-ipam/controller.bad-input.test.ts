import { describe, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { TestCluster } from "../../kit/harness.ts";
import { aNode, given, messagesOf, podCIDRsOf, podCIDRWrites, runIpam } from "./nodes.ts";

const flags = { clusterCidr: "10.244.0.0/20", serviceClusterIpRange: "10.244.8.0/24" };

describe("a node with invalid pod CIDRs gets an event, and no other node is affected", () => {
  for (const { name, podCIDRs, fault, message, next } of [
    {
      name: "one outside the cluster's range",
      podCIDRs: ["192.168.0.0/24"],
      fault: "PodCIDROutOfRange",
      message: "192.168.0.0/24 is out the range of cluster cidr 10.244.0.0/20",
      next: "10.244.0.0/24",
    },
    {
      name: "one of a family that the cluster does not have",
      podCIDRs: ["10.244.0.0/24", "2001:db8::/64"],
      fault: "PodCIDROutOfRange",
      message: "2001:db8::/64 is out the range of cluster cidr 10.244.0.0/20",
      next: "10.244.1.0/24",
    },
    {
      name: "one larger than the cluster's range",
      podCIDRs: ["10.0.0.0/8"],
      fault: "PodCIDRInvalid",
      message: "10.0.0.0/8 is ignored: it covers all of cluster cidr 10.244.0.0/20",
      next: "10.244.0.0/24",
    },
    {
      name: "one as large as the cluster's range",
      podCIDRs: ["10.244.0.0/20"],
      fault: "PodCIDRInvalid",
      message: "10.244.0.0/20 is ignored: it covers all of cluster cidr 10.244.0.0/20",
      next: "10.244.0.0/24",
    },
    {
      name: "one that overlaps the service range, which stays reserved for the node",
      podCIDRs: ["10.244.8.0/23"],
      fault: "PodCIDRConflict",
      message: "10.244.8.0/23 overlaps service range 10.244.8.0/24",
      next: "10.244.0.0/24",
    },
  ] as const)
    test(name, async () => {
      await using cluster = await TestCluster.start();
      const odd = cluster.api.create(kinds.Node, aNode("odd", podCIDRs));
      const { controller } = await runIpam(cluster, flags);
      cluster.api.create(kinds.Node, aNode("node0"));
      expect(await given(cluster, "node0")).toEqual([next]);

      const event = await eventually("the event is recorded", () => cluster.event(fault));
      expect(event).toMatchObject({
        type: "Warning",
        message: `Pod CIDRs of node odd: ${message}`,
        involvedObject: { kind: "Node", name: "odd", uid: odd.metadata?.uid },
      });
      expect(cluster.log.some((line) => line.includes(JSON.stringify(message).slice(1, -1)))).toBe(true);
      expect(podCIDRsOf(cluster, "odd")).toEqual([...podCIDRs]);
      expect(podCIDRWrites(cluster).map(([node]) => node)).toEqual(["node0"]);
      expect(controller.warnings?.()).toEqual([]);
    });
});

describe("two nodes with one CIDR", () => {
  test("keep it, the second gets an event, and the block is free when both are deleted", async () => {
    await using cluster = await TestCluster.start();
    await runIpam(cluster, { clusterCidr: "10.244.0.0/24" });
    await cluster.admin.create(kinds.Node, aNode("node0", ["10.244.0.0/24"]));
    await cluster.admin.create(kinds.Node, aNode("node1", ["10.244.0.128/25"]));
    await eventually("the event is recorded", () => cluster.event("PodCIDRConflict"));
    expect(messagesOf(cluster, "PodCIDRConflict", "node1")).toEqual([
      "Pod CIDRs of node node1: 10.244.0.128/25 overlaps 10.244.0.0/24 of node node0",
    ]);
    await cluster.admin.create(kinds.Node, aNode("node2"));
    await eventually("the ranges are exhausted", () => messagesOf(cluster, "CIDRNotAvailable", "node2").length > 0);
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await eventually("its deletion is confirmed", () =>
      cluster.sent({ method: "GET", path: "/api/v1/nodes/node0" }).some(({ status }) => status === 404),
    );
    expect(podCIDRsOf(cluster, "node2")).toBeUndefined();
    await cluster.admin.delete(kinds.Node, { name: "node1" });
    expect(await given(cluster, "node2")).toEqual(["10.244.0.0/24"]);
  });
});

describe("a problem of a node", () => {
  test("is reported once, however often the node changes", async () => {
    await using cluster = await TestCluster.start();
    await cluster.admin.create(kinds.Node, aNode("odd", ["192.168.0.0/24"]));
    await runIpam(cluster, flags);
    for (const value of ["one", "two", "three"])
      await cluster.admin.patch(kinds.Node, { name: "odd" }, "merge", { metadata: { labels: { value } } });
    await cluster.admin.create(kinds.Node, aNode("node0"));
    await given(cluster, "node0");
    await eventually("the event is recorded", () => cluster.event("PodCIDROutOfRange"));
    expect(cluster.log.filter((line) => line.includes("Node has invalid pod CIDRs"))).toHaveLength(1);
    expect(messagesOf(cluster, "PodCIDROutOfRange", "odd")).toHaveLength(1);
  });

  test("is one event, however many other nodes overlap", async () => {
    await using cluster = await TestCluster.start();
    for (const index of [0, 1, 2, 3, 4])
      cluster.api.create(kinds.Node, aNode(`node${index}`, [`10.244.${index}.0/24`]));
    await runIpam(cluster, flags);
    await cluster.admin.create(kinds.Node, aNode("odd", ["10.244.0.0/21"]));
    await eventually("the event is recorded", () => cluster.event("PodCIDRConflict"));
    expect(messagesOf(cluster, "PodCIDRConflict", "odd")).toEqual([
      expect.stringMatching(/^Pod CIDRs of node odd: 10\.244\.0\.0\/21 overlaps .*, and 2 more$/),
    ]);
  });
});
