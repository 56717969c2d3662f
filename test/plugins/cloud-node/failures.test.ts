import { describe, expect, test } from "bun:test";

import { isUninitialized, kinds, taints } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { initCounted } from "../counting-handlers.ts";

const machine = { nodeAddresses: [{ type: "InternalIP", address: "10.240.0.4" }] };
const newNode = (name: string) => ({
  metadata: { name },
  spec: { taints: [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }] },
});
const initialized = (cluster: TestCluster, name: string) => (): boolean => {
  const node = cluster.api.get(kinds.Node, { name });
  return node !== undefined && !isUninitialized(node);
};

describe("a node is initialized all the same", () => {
  test("when the cloud knows its machine only later", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    await cluster.admin.create(kinds.Node, newNode("node0"));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is tried again", () => cluster.worked("Nodes", 3));
    memory.machines.set("node0", machine);
    await eventually("the node is initialized", initialized(cluster, "node0"));
  });

  test("when the API server refuses the write at first", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    cluster.api.faults.add({ match: { verb: "update" }, effect: { status: 500 }, times: 2 });
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is reported as synced", () => cluster.event("Synced"));
    expect(cluster.sent({ method: "PUT" }).map(({ status }) => status)).toEqual([500, 500, 200]);
  });

  test("when only its addresses cannot be written", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    cluster.api.faults.add({ match: { verb: "patch", subresource: "status" }, effect: { status: 500 } });
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is reported as synced", () => cluster.event("Synced"));
    expect(initialized(cluster, "node0")()).toBe(true);
  });

  test("while another node fails for good", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("lost"));
    await cluster.admin.create(kinds.Node, newNode("node0"));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the other node is initialized", initialized(cluster, "node0"));
    await eventually("the lost node is tried again", () => memory.calls.filter((call) => call.target === "lost")[2]);
  });
});

describe("a write made meanwhile", () => {
  test("is not lost: after a conflict the node is read from the API server", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", { ...machine, zone: "z1" });
    const hold = memory.hold("instanceMetadata");
    await cluster.admin.create(kinds.Node, newNode("node0"));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the cloud is asked", () => hold.waiting > 0);
    // The cache cannot learn of the other writer.
    cluster.api.watches.pause();
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { metadata: { labels: { theirs: "yes" } } });
    hold.release();
    await eventually("the node is initialized", () => cluster.event("Synced"));

    const node = cluster.api.get(kinds.Node, { name: "node0" });
    expect(node?.metadata?.labels).toMatchObject({ theirs: "yes", "topology.kubernetes.io/zone": "z1" });
    expect(cluster.sent({ method: "PUT" }).map(({ status }) => status)).toEqual([409, 200]);
    expect(cluster.sent({ method: "GET", path: "/api/v1/nodes/node0" })).toHaveLength(1);
  });

  test("that has initialized the node leaves nothing to do, and nothing to report", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    const hold = memory.hold("instanceMetadata");
    await cluster.admin.create(kinds.Node, newNode("node0"));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the cloud is asked", () => hold.waiting > 0);
    cluster.api.watches.pause();
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { spec: { taints: null } });
    hold.release();
    await eventually("the node has been looked at", () => cluster.worked("Nodes", 1));
    expect(cluster.sent({ method: "PUT" }).map(({ status }) => status)).toEqual([409]);
    expect(cluster.events()).toEqual([]);
  });

  test("that has made the node anew gives the new node its own metadata", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", { ...machine, providerID: "memory://old" });
    const hold = memory.hold("instanceMetadata");
    await cluster.admin.create(kinds.Node, newNode("node0"));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the cloud is asked", () => hold.waiting > 0);
    memory.intercept("instanceMetadata", async ({ args: [node], proceed }) => {
      const metadata = await proceed();
      return metadata && { ...metadata, providerID: `memory://${node.metadata?.uid}` };
    });
    cluster.api.watches.pause();
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    const anew = await cluster.admin.create(kinds.Node, newNode("node0"));
    hold.release();
    await eventually("the conflict is met", () => cluster.sent({ method: "GET" }).length > 0);
    cluster.api.watches.resume();
    await eventually("the new node is initialized", initialized(cluster, "node0"));
    const node = cluster.api.get(kinds.Node, { name: "node0" });
    expect(node?.spec?.providerID).toBe(`memory://${anew.metadata?.uid}`);
  });

  test("that has deleted the node ends its initialization quietly", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    const hold = memory.hold("instanceMetadata");
    await cluster.admin.create(kinds.Node, newNode("node0"));
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the cloud is asked", () => hold.waiting > 0);
    cluster.api.watches.pause();
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    hold.release();
    await eventually("the node has been looked at", () => cluster.worked("Nodes", 1));
    expect(cluster.log.filter((line) => line.includes("error syncing"))).toEqual([]);
    expect(cluster.events()).toEqual([]);
  });
});

describe("the controller", () => {
  test("is skipped when the cloud has no instances", async () => {
    await using cluster = await TestCluster.start();
    const { cloud } = memoryCloud({ name: "bare", without: ["instances"] });
    const reason = await cluster.run(cloudNode, { cloud }).catch((error: unknown) => String(error));
    expect(reason).toContain('cloud provider "bare" does not support instances');
  });

  test("is unhealthy without workers, names the flag, and still stops when asked", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    const idle = await cluster.run(cloudNode, { cloud: memory.cloud, flags: { concurrentNodeSyncs: 0 } });
    expect(() => idle.controller.check?.()).toThrow("--concurrent-node-syncs is 0");
    await eventually(
      "the node is in the queue",
      async () => await cluster.metric("workqueue_depth", { name: "Nodes" }),
    );
    await idle.stop();
    expect(memory.calls).toEqual([]);

    const busy = await cluster.run(cloudNode, { cloud: memory.cloud, flags: { concurrentNodeSyncs: 1 } });
    expect(() => busy.controller.check?.()).not.toThrow();
    await eventually("the node is initialized", initialized(cluster, "node0"));
  });

  test("hears of no node once it has stopped", async () => {
    await using cluster = await TestCluster.start();
    const { cloud } = memoryCloud();
    const { controller, handlers } = await initCounted(cluster, cloudNode, { cloud, clock: systemClock });
    expect(handlers()).toBe(1);
    await controller.run(AbortSignal.abort());
    expect(handlers()).toBe(0);
  });

  test("logs no error when a question to the cloud is cut off because it stops", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    await cluster.admin.create(kinds.Node, newNode("node0"));
    await cluster.admin.create(kinds.Node, { metadata: { name: "node1" } });
    const hold = memory.hold("instanceMetadata");
    const running = await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("sync and address loop both ask", () => hold.waiting === 2);
    await running.stop();
    expect(cluster.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  });

  test("finishes a write that has begun when it is told to stop, and begins no other", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    for (const name of ["node0", "node1", "node2"]) {
      memory.machines.set(name, machine);
      await cluster.admin.create(kinds.Node, newNode(name));
    }
    cluster.api.faults.latency(50);
    const running = await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("a write has begun", () => cluster.sent({ method: "PUT" }).length > 0);
    await running.stop();
    const written = cluster.writes().length;
    expect(cluster.sent({ method: "PUT" }).map(({ status }) => status)).toEqual([200]);
    cluster.api.faults.latency(0);
    await cluster.admin.create(kinds.Node, newNode("node3"));
    await eventually("the watch tells of the new node", () => cluster.api.watches.size > 0);
    expect(cluster.writes()).toHaveLength(written);
  });
});
