import { describe, expect, test } from "bun:test";

import { kinds, labels, type Node, type NodeAddress, taints } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";

const hostname: NodeAddress = { type: "Hostname", address: "node0" };
const internal: NodeAddress = { type: "InternalIP", address: "10.240.0.4" };
const machine = { nodeAddresses: [internal], instanceType: "Standard_D2s_v3", zone: "eastus-1", region: "eastus" };
const strategic = "application/strategic-merge-patch+json";

const newNode = (addresses: readonly NodeAddress[]): Node => ({
  metadata: { name: "node0", labels: { "kubernetes.io/os": "linux" } },
  spec: {
    podCIDR: "10.244.0.0/24",
    podCIDRs: ["10.244.0.0/24"],
    taints: [
      { key: "node.kubernetes.io/not-ready", effect: "NoSchedule" },
      { key: taints.uninitialized, value: "true", effect: "NoSchedule" },
    ],
  },
  status: { addresses },
});

describe("what an initialization writes", () => {
  test("the whole node with its version, and then its addresses with the replace marker", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    const before = await cluster.admin.create(kinds.Node, newNode([hostname]));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is initialized", () => cluster.event("Synced"));

    const [put, patch, ...others] = cluster.writes();
    expect(others).toEqual([]);
    expect(put).toMatchObject({ method: "PUT", path: "/api/v1/nodes/node0", contentType: "application/json" });
    expect(put?.body).toMatchObject({
      metadata: {
        name: "node0",
        uid: before.metadata?.uid,
        resourceVersion: before.metadata?.resourceVersion,
        labels: {
          "kubernetes.io/os": "linux",
          [labels.instanceType]: "Standard_D2s_v3",
          [labels.instanceTypeBeta]: "Standard_D2s_v3",
          [labels.zone]: "eastus-1",
          [labels.zoneBeta]: "eastus-1",
          [labels.region]: "eastus",
          [labels.regionBeta]: "eastus",
        },
      },
      spec: {
        podCIDR: "10.244.0.0/24",
        podCIDRs: ["10.244.0.0/24"],
        providerID: "memory://node0",
        taints: [{ key: "node.kubernetes.io/not-ready", effect: "NoSchedule" }],
      },
    });
    expect(patch).toMatchObject({ method: "PATCH", path: "/api/v1/nodes/node0/status", contentType: strategic });
    expect(patch?.body).toEqual({ status: { addresses: [internal, hostname, { $patch: "replace" }] } });
  });

  test("no marker for the addresses of a node that has none", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode([]));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(cluster.writes()[1]?.body).toEqual({ status: { addresses: [internal] } });
  });

  test("no address patch where the addresses are right already", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode([internal, hostname]));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(cluster.writes().map(({ method }) => method)).toEqual(["PUT"]);
  });

  test("an event on the node and one observation of each delay", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    const node = await cluster.admin.create(kinds.Node, newNode([]));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    const event = await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(event).toMatchObject({
      type: "Normal",
      message: "Node synced successfully",
      source: { component: "cloud-node-controller" },
      involvedObject: { apiVersion: "v1", kind: "Node", name: "node0", uid: node.metadata?.uid },
    });
    for (const name of ["cloud_provider_taint_removal_delay", "initial_node_sync_delay"])
      expect(await cluster.metric(`node_controller_${name}_seconds_count`)).toBe(1);
  });
});
