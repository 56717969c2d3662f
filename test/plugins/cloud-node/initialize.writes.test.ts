import { describe, expect, test } from "bun:test";

import { kinds, labels, type Node, type NodeAddress, taints } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
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

describe("an initialization writes", () => {
  test("one patch of the node that conflicts with no other writer, then its addresses with the replace marker", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    const before = await cluster.admin.create(kinds.Node, newNode([hostname]));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is initialized", () => cluster.event("Synced"));

    const [node, patch, ...others] = cluster.writes();
    expect(others).toEqual([]);
    expect(node).toMatchObject({
      method: "PATCH",
      path: "/api/v1/nodes/node0",
      contentType: "application/json-patch+json",
    });
    const label = (key: string, value: string): object => ({
      op: "add",
      path: `/metadata/labels/${key.replaceAll("/", "~1")}`,
      value,
    });
    expect(node?.body).toEqual([
      { op: "test", path: "/metadata/uid", value: before.metadata?.uid },
      { op: "add", path: "/spec/providerID", value: "memory://node0" },
      label(labels.instanceTypeBeta, "Standard_D2s_v3"),
      label(labels.instanceType, "Standard_D2s_v3"),
      label(labels.zoneBeta, "eastus-1"),
      label(labels.zone, "eastus-1"),
      label(labels.regionBeta, "eastus"),
      label(labels.region, "eastus"),
      { op: "test", path: "/spec/taints/1/key", value: taints.uninitialized },
      { op: "remove", path: "/spec/taints/1" },
    ]);
    expect(patch).toMatchObject({ method: "PATCH", path: "/api/v1/nodes/node0/status", contentType: strategic });
    expect(patch?.body).toEqual({
      metadata: { uid: expect.any(String) },
      status: { addresses: [internal, hostname, { $patch: "replace" }] },
    });
  });

  test("no marker for the addresses of a node that has none", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode([]));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(cluster.writes()[1]?.body).toMatchObject({ status: { addresses: [internal] } });
  });

  test("no address patch when the addresses are already right", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode([internal, hostname]));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(cluster.writes().map(({ method }) => method)).toEqual(["PATCH"]);
  });

  test("the events of a burst of nodes after the last of them has been started", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    for (const name of ["node0", "node1", "node2"]) {
      memory.machines.set(name, machine);
      await cluster.admin.create(kinds.Node, { ...newNode([]), metadata: { name } });
    }
    const second = Promise.withResolvers<void>();
    memory.intercept("instanceMetadata", async ({ target, proceed }) => {
      if (target === "node1") await second.promise;
      return await proceed();
    });
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("node1 is being initialized", () =>
      memory.callsOf("instanceMetadata").some(({ target }) => target === "node1"),
    );
    await eventually(
      "node0 is initialized",
      () => cluster.sent({ path: "/api/v1/nodes/node0/status", status: 200 })[0],
    );
    await Bun.sleep(20);
    expect(cluster.events()).toEqual([]);
    second.resolve();
    await eventually("all have their event", () => cluster.events("Synced").length === 3);
  });

  test("an event on the node and one observation of each delay, in seconds", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    const node = await cluster.admin.create(kinds.Node, newNode([]));
    const clock = manualClock(Date.parse(node.metadata?.creationTimestamp ?? "") + 30_000);
    await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    const event = await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(event).toMatchObject({
      type: "Normal",
      message: "Node synced successfully",
      source: { component: "cloud-node-controller" },
      involvedObject: { apiVersion: "v1", kind: "Node", name: "node0", uid: node.metadata?.uid },
    });
    for (const name of ["cloud_provider_taint_removal_delay", "initial_node_sync_delay"])
      for (const [field, value] of [
        ["count", 1],
        ["sum", 30],
      ] as const)
        expect(await cluster.metric(`node_controller_${name}_seconds_${field}`)).toBe(value);
  });

  test("no negative delay where the clock of the API server is ahead", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    const node = await cluster.admin.create(kinds.Node, newNode([]));
    const clock = manualClock(Date.parse(node.metadata?.creationTimestamp ?? "") - 30_000);
    await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(await cluster.metric("node_controller_initial_node_sync_delay_seconds_sum")).toBe(0);
  });

  test("the events of initialized nodes although it is stopped before the others are, which is not a failure of these", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    for (const name of ["node0", "node1", "node2"]) {
      memory.machines.set(name, machine);
      await cluster.admin.create(kinds.Node, { ...newNode([]), metadata: { name } });
    }
    memory.intercept("instanceMetadata", async ({ target, args: [, options], proceed }) => {
      if (target === "node1")
        await new Promise((_, reject) => {
          options?.signal?.addEventListener("abort", () => reject(new Error("interrupted")));
        });
      return await proceed();
    });
    const running = await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("node1 is being initialized", () =>
      memory.callsOf("instanceMetadata").some(({ target }) => target === "node1"),
    );
    await eventually(
      "node0 is initialized",
      () => cluster.sent({ path: "/api/v1/nodes/node0/status", status: 200 })[0],
    );
    await running.stop();
    await eventually("node0 has its event", () => cluster.event("Synced")?.involvedObject.name === "node0");
    expect(running.controller.status?.()).toEqual([]);
  });
});
