import { describe, expect, test } from "bun:test";

import { isUninitialized, kinds, RetryAfterError, taints } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud, type MemoryMachine } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { initCounted } from "../counting-handlers.ts";

const machine = { nodeAddresses: [{ type: "InternalIP", address: "10.240.0.4" }] };
const newNode = (name: string) => ({
  metadata: { name },
  spec: { taints: [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }] },
});
const nodePath = "/api/v1/nodes/node0";
const initialized = (cluster: TestCluster, name: string) => (): boolean => {
  const node = cluster.api.get(kinds.Node, { name });
  return node !== undefined && !isUninitialized(node);
};

describe("a node is still initialized", () => {
  test("a node is still initialized when the cloud finds its instance only later", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    await cluster.admin.create(kinds.Node, newNode("node0"));
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is tried again", () => cluster.worked("Nodes", 3));
    const message = "failed to get instance metadata for node node0: instance not found";
    expect(controller.status?.()).toEqual([
      { title: "nodes that fail: 1", facts: [{ name: "node0", value: message }] },
    ]);
    memory.machines.set("node0", machine);
    await eventually("the node is initialized", initialized(cluster, "node0"));
    await eventually("its error is forgotten", () => controller.status?.().length === 0);
  });

  test("a node is still initialized when the API server rejects the first writes", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 500 }, times: 2 });
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is reported as synced", () => cluster.event("Synced"));
    expect(cluster.sent({ method: "PATCH", path: nodePath }).map(({ status }) => status)).toEqual([500, 500, 200]);
    expect(cluster.log.filter((line) => line.includes("error syncing 'node0'"))).toHaveLength(2);
  });

  /** Resolves once the node has been synced after a change of its labels. */
  async function updated({ admin, api }: TestCluster): Promise<void> {
    const labels = { "failure-domain.beta.kubernetes.io/region": "moved" };
    await admin.patch(kinds.Node, { name: "node0" }, "merge", { metadata: { labels } });
    await eventually("its labels are reconciled", () => {
      const node = api.get(kinds.Node, { name: "node0" });
      return node?.metadata?.labels?.["topology.kubernetes.io/region"] === "moved";
    });
  }

  const address = (cluster: TestCluster) => cluster.api.get(kinds.Node, { name: "node0" })?.status?.addresses;

  test("a node gets its addresses at once when the reply to its initialization is lost", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    const match = { verb: "patch", resource: "nodes" };
    cluster.api.faults.add({ match, effect: "disconnect", afterwards: true });
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is reported as synced", () => cluster.event("Synced"));
    expect(address(cluster)).toEqual(machine.nodeAddresses);
    // On a busy machine, the next attempt begins before the watch shows the node; then its patch finds no taint.
    expect(
      patches(cluster)
        .slice(1)
        .every((status) => status === 422),
    ).toBe(true);
    const asked = memory.callsOf("instanceMetadata").length;
    await updated(cluster);
    expect(memory.callsOf("instanceMetadata")).toHaveLength(asked);
  });

  test("a node gets its addresses when neither a reply nor the watch shows that it is initialized", async () => {
    const { cluster, hold } = await heldBeforeWrite();
    await using _ = cluster;
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: "disconnect", afterwards: true });
    hold.release();
    await eventually("the node is reported as synced", () => cluster.event("Synced"));
    expect(address(cluster)).toEqual(machine.nodeAddresses);
    expect(patches(cluster).slice(1)).toEqual([422]);
  });

  test("a node is still initialized when its addresses cannot be written", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    cluster.api.faults.add({ match: { verb: "patch", subresource: "status" }, effect: { status: 500 } });
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is reported as synced", () => cluster.event("Synced"));
    expect(initialized(cluster, "node0")()).toBe(true);
  });

  test("a node gets its addresses with the next attempts when they cannot be written at once", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    cluster.api.faults.add({ match: { verb: "patch", subresource: "status" }, effect: { status: 500 }, times: 3 });
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node has its addresses", () => address(cluster)?.length === machine.nodeAddresses.length);
    await eventually("nothing fails", () => controller.status?.().length === 0);
    const statuses = cluster.sent({ method: "PATCH", path: `${nodePath}/status` }).map(({ status }) => status);
    expect(statuses).toEqual([500, 500, 500, 200]);
    expect(cluster.sent({ method: "PATCH", path: nodePath })).toHaveLength(1);
    expect(cluster.log.filter((line) => line.includes("its addresses could not be written"))).toHaveLength(3);
    const asked = memory.callsOf("instanceMetadata").length;
    await updated(cluster);
    expect(memory.callsOf("instanceMetadata")).toHaveLength(asked);
  });

  /** A node that is initialized without its addresses, which are refused until the fault is removed. */
  async function withoutAddresses() {
    const cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    const refused = { match: { verb: "patch", subresource: "status" }, effect: { status: 500 }, times: 1_000 };
    const fault = cluster.api.faults.add(refused);
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node fails", () => controller.status?.().length === 1);
    const hasEnded = () => eventually("nothing fails", () => controller.status?.().length === 0);
    const hasAddresses = () =>
      eventually("the node has its addresses", () => address(cluster)?.length === machine.nodeAddresses.length);
    return { cluster, memory, fault, hasEnded, hasAddresses };
  }

  test("a node whose addresses cannot be written no longer fails once it is deleted, and its successor gets its own", async () => {
    const { cluster, fault, hasEnded, hasAddresses } = await withoutAddresses();
    await using _ = cluster;
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await hasEnded();
    fault.remove();
    await cluster.admin.create(kinds.Node, newNode("node0"));
    await hasAddresses();
  });

  test("a node that was recreated while no watch showed it gets its addresses although those of the former were refused", async () => {
    const { cluster, fault, hasEnded, hasAddresses } = await withoutAddresses();
    await using _ = cluster;
    cluster.api.watches.pause();
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await cluster.admin.create(kinds.Node, newNode("node0"));
    fault.remove();
    cluster.api.watches.drop("end");
    cluster.api.watches.resume();
    await hasAddresses();
    await hasEnded();
  });

  test("a node whose addresses cannot be written no longer fails once the cloud has none for it", async () => {
    const { cluster, memory, hasEnded } = await withoutAddresses();
    await using _ = cluster;
    memory.intercept("instanceMetadata", () => Promise.resolve(undefined));
    await hasEnded();
  });

  test("a node is still initialized while another node keeps failing", async () => {
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

/** A cluster in which node0's metadata has been read and nothing has been written; the watch shows no change. */
async function heldBeforeWrite(machineOf: MemoryMachine = machine) {
  const cluster = await TestCluster.start();
  const memory = memoryCloud();
  memory.machines.set("node0", machineOf);
  const hold = memory.hold("instanceMetadata");
  const { metadata, ...node } = newNode("node0");
  await cluster.admin.create(kinds.Node, { ...node, metadata: { ...metadata, labels: { mine: "yes" } } });
  await cluster.run(cloudNode, { cloud: memory.cloud });
  await eventually("the cloud is asked", () => hold.waiting > 0);
  cluster.api.watches.pause();
  return { cluster, memory, hold };
}

/** The same, once another writer has removed the taint, and the controller has looked at the node. */
async function initializedMeanwhile(): Promise<TestCluster> {
  const { cluster, hold } = await heldBeforeWrite();
  await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { spec: { taints: null } });
  hold.release();
  await eventually("the node has been looked at", () => cluster.worked("Nodes", 1));
  return cluster;
}

const patches = (cluster: TestCluster) => cluster.sent({ method: "PATCH", path: nodePath }).map(({ status }) => status);

describe("a concurrent write", () => {
  test("a concurrent write of labels and pod CIDRs does not conflict with the initialization", async () => {
    const { cluster, hold } = await heldBeforeWrite({ ...machine, zone: "z1" });
    await using _ = cluster;
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", {
      metadata: { labels: { theirs: "yes" } },
      spec: { podCIDR: "10.244.0.0/24", podCIDRs: ["10.244.0.0/24"] },
    });
    hold.release();
    await eventually("the node is initialized", () => cluster.event("Synced"));

    const node = cluster.api.get(kinds.Node, { name: "node0" });
    expect(node?.metadata?.labels).toMatchObject({ mine: "yes", theirs: "yes" });
    expect(node?.spec?.podCIDRs).toEqual(["10.244.0.0/24"]);
    expect(patches(cluster)).toEqual([200]);
    expect(cluster.sent({ method: "GET", path: nodePath })).toEqual([]);
  });

  test("a concurrent write of the taints is not lost: the node is read from the API server and patched again", async () => {
    const { cluster, hold } = await heldBeforeWrite();
    await using _ = cluster;
    const theirs = { key: "theirs", effect: "NoSchedule" };
    const cloudTaint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { spec: { taints: [theirs, cloudTaint] } });
    hold.release();
    await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(cluster.api.get(kinds.Node, { name: "node0" })?.spec?.taints).toEqual([theirs]);
    expect(patches(cluster)).toEqual([422, 200]);
    expect(cluster.sent({ method: "GET", path: nodePath })).toHaveLength(1);
  });

  test("a concurrent write of a label that the cloud would add keeps that label", async () => {
    const { cluster, hold } = await heldBeforeWrite({ ...machine, additionalLabels: { "example.com/rack": "r1" } });
    await using _ = cluster;
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", {
      metadata: { labels: { "example.com/rack": "theirs" } },
    });
    hold.release();
    await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(cluster.api.get(kinds.Node, { name: "node0" })?.metadata?.labels?.["example.com/rack"]).toBe("theirs");
    expect(patches(cluster)).toEqual([422, 200]);
  });

  test("a concurrent write that causes conflicts is waited out within one sync", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 409 }, times: 5 });
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is initialized", () => cluster.event("Synced"));
    expect(patches(cluster)).toEqual([409, 409, 409, 409, 409, 200]);
    expect(memory.callsOf("instanceMetadata").filter(({ target }) => target === "node0")).toHaveLength(1);
    expect(cluster.log.filter((line) => line.includes("error syncing"))).toEqual([]);
  });

  test("a concurrent write that removes the uninitialized taint leaves no patch of the node to send again and nothing to report", async () => {
    await using cluster = await initializedMeanwhile();
    expect(patches(cluster)).toEqual([422]);
    expect(cluster.events()).toEqual([]);
  });

  test("a concurrent write that removes the uninitialized taint leaves the addresses to be written at once", async () => {
    await using cluster = await initializedMeanwhile();
    const { status } = await cluster.admin.get(kinds.Node, { name: "node0" });
    expect(status?.addresses?.map(({ type }) => type)).toContain("InternalIP");
    expect(cluster.events()).toEqual([]);
    for (const delay of ["cloud_provider_taint_removal", "initial_node_sync"])
      expect((await cluster.metric(`node_controller_${delay}_delay_seconds_count`)) ?? 0).toBe(0);
  });

  test("a concurrent write that recreates the node: the new node gets its own metadata", async () => {
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
    const recreated = await cluster.admin.create(kinds.Node, newNode("node0"));
    hold.release();
    await eventually("the patch is rejected", () => cluster.sent({ method: "GET" }).length > 0);
    cluster.api.watches.resume();
    await eventually("the new node is initialized", initialized(cluster, "node0"));
    const node = cluster.api.get(kinds.Node, { name: "node0" });
    expect(node?.spec?.providerID).toBe(`memory://${recreated.metadata?.uid}`);
  });

  test("a concurrent write that deletes the node ends its initialization without an error", async () => {
    const { cluster, hold } = await heldBeforeWrite();
    await using _ = cluster;
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    hold.release();
    await eventually("the node has been looked at", () => cluster.worked("Nodes", 1));
    expect(cluster.log.filter((line) => line.includes("error syncing"))).toEqual([]);
    expect(cluster.events()).toEqual([]);
  });
});

describe("a failing node", () => {
  test("is not patched again when validation rejects the patch and the node is unchanged", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 422 }, times: 1 });
    await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("the node is initialized by the next sync", () => cluster.event("Synced"));
    expect(memory.callsOf("instanceMetadata").filter(({ target }) => target === "node0").length).toBeGreaterThan(1);
    expect(cluster.log.filter((line) => line.includes("error syncing 'node0'"))).toHaveLength(1);
  });

  test("is left to the next sync after twenty conflicts", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    await cluster.admin.create(kinds.Node, newNode("node0"));
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 409 }, times: 20 });
    const clock = { ...systemClock, sleep: () => Bun.sleep(0) };
    await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    await eventually("the node is initialized by the next sync", () => cluster.event("Synced"));
    expect(patches(cluster)).toHaveLength(21);
    expect(cluster.log.filter((line) => line.includes("error syncing 'node0'"))).toHaveLength(1);
  });

  test("waits for the delay that a throttled cloud returns", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.machines.set("node0", machine);
    memory.fail("instanceMetadata", new RetryAfterError(60_000, "throttled"), { times: 1 });
    await cluster.admin.create(kinds.Node, newNode("node0"));
    const clock = manualClock();
    await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: clock });
    await eventually("the cloud has answered", () => memory.callsOf("instanceMetadata").length === 1);
    await eventually("the failure is logged", () => cluster.log.some((line) => line.includes("error syncing")));
    for (let second = 0; second < 59; second++) await clock.advance(1000);
    expect(memory.callsOf("instanceMetadata")).toHaveLength(1);
    await clock.advance(2000);
    await eventually("the node is initialized", initialized(cluster, "node0"));
  });
});

describe("the controller", () => {
  test("shows the number of nodes that fail, and 50 of them, until they are gone", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const names = Array.from({ length: 51 }, (_, index) => `lost${index}`);
    for (const name of names) cluster.api.create(kinds.Node, newNode(name));
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("all fail", () => controller.status?.()[0]?.title === "nodes that fail: 51");
    expect(controller.status?.()[0]?.facts).toHaveLength(50);
    for (const name of names) cluster.api.delete(kinds.Node, { name });
    await eventually("they are forgotten", () => controller.status?.().length === 0);
  });

  test("warns of a node that has failed for longer than a minute, with the time and the error, until it succeeds", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.fail("instanceMetadata", new RetryAfterError(70_000, "no quota"), { times: 1, target: "node0" });
    memory.machines.set("node0", machine);
    cluster.api.create(kinds.Node, newNode("node0"));
    const clock = manualClock();
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: clock });
    await eventually("it fails", () => controller.status?.().length === 1);
    const since = new Date(clock.now()).toISOString();
    expect(controller.warnings?.()).toEqual([]);
    for (let second = 0; second < 61; second++) await clock.advance(1000);
    const error = "failed to get instance metadata for node node0: no quota";
    expect(controller.warnings?.()).toEqual([
      { kind: "NodesFail", text: "failing Nodes: 1" },
      { kind: "NodesFail", text: `Node node0 fails since ${since}: ${error}`, since, subject: "node0" },
    ]);
    for (let second = 0; second < 10; second++) await clock.advance(1000);
    await eventually("the node is initialized", initialized(cluster, "node0"));
    await eventually("the warning is gone", () => controller.warnings?.().length === 0);
  });

  test("records an event on a node that has not been initialized for a minute, and counts it until it is", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.fail("instanceMetadata", new RetryAfterError(61_000, "no quota"), { times: 2, target: "node0" });
    memory.machines.set("node0", machine);
    cluster.api.create(kinds.Node, newNode("node0"));
    const clock = manualClock();
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: clock });
    const counted = () => cluster.metric("cloud_node_controller_failing_nodes", {});
    await eventually("it fails", () => controller.status?.().length === 1);
    expect(cluster.event("FailedToInitializeNode")).toBeUndefined();
    expect(await counted()).toBe(0);
    for (let second = 0; second < 62; second++) await clock.advance(1000);
    const event = await eventually("the event is recorded", () => cluster.event("FailedToInitializeNode"));
    expect(event).toMatchObject({
      type: "Warning",
      message: "Error initializing node: failed to get instance metadata for node node0: no quota",
      involvedObject: { kind: "Node", name: "node0" },
    });
    expect(await counted()).toBe(1);
    for (let second = 0; second < 62; second++) await clock.advance(1000);
    await eventually("the node is initialized", initialized(cluster, "node0"));
    await eventually("the count is 0 again", async () => (await counted()) === 0);
  });

  test("records no event about the initialization of an initialized node whose labels cannot be written for a minute", async () => {
    await using cluster = await TestCluster.start();
    const labels = { "failure-domain.beta.kubernetes.io/region": "r1" };
    cluster.api.create(kinds.Node, { metadata: { name: "node0", labels } });
    cluster.api.create(kinds.Node, newNode("node1"));
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 500 }, times: 1_000 });
    const memory = memoryCloud();
    memory.machines.set("node1", machine);
    const clock = manualClock();
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: clock });
    await eventually("both fail", () => controller.status?.()[0]?.title === "nodes that fail: 2");
    for (let second = 0; second < 130; second++) await clock.advance(1000);
    await eventually("both are counted", async () => {
      return (await cluster.metric("cloud_node_controller_failing_nodes", {})) === 2;
    });
    await eventually("the event of the other node is recorded", () => cluster.event("FailedToInitializeNode"));
    expect(cluster.events("FailedToInitializeNode").map((event) => event.involvedObject?.name)).not.toContain("node0");
  });

  test("no longer warns of a failing node and counts it once it is deleted, however long the pause until its next attempt", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.fail("instanceMetadata", new RetryAfterError(61_000, "no quota"), { target: "node0" });
    cluster.api.create(kinds.Node, newNode("node0"));
    const clock = manualClock();
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: clock });
    const counted = () => cluster.metric("cloud_node_controller_failing_nodes", {});
    await eventually("it fails", () => controller.status?.().length === 1);
    for (let second = 0; second < 62; second++) await clock.advance(1000);
    await eventually("the node is counted", async () => (await counted()) === 1);
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await eventually("no node is counted", async () => (await counted()) === 0);
    expect([controller.warnings?.(), controller.status?.()]).toEqual([[], []]);
  });

  test("shows the first 300 characters of a node's error", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    memory.fail("instanceMetadata", new Error("x".repeat(1_000)));
    cluster.api.create(kinds.Node, newNode("node0"));
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud });
    const shown = (): string | undefined => controller.status?.()[0]?.facts?.[0]?.value;
    await eventually("it fails", () => shown() !== undefined);
    expect(shown()).toHaveLength(300);
  });

  test("is skipped when the cloud has no instances", async () => {
    await using cluster = await TestCluster.start();
    const { cloud } = memoryCloud({ name: "bare", without: ["instances"] });
    const reason = await cluster.run(cloudNode, { cloud }).catch((error: unknown) => String(error));
    expect(reason).toContain('cloud provider "bare" does not support instances');
  });

  test("is unhealthy without workers, names the flag, and still stops", async () => {
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

  test("removes its handler when it stops", async () => {
    await using cluster = await TestCluster.start();
    const { cloud } = memoryCloud();
    const { controller, handlers } = await initCounted(cluster, cloudNode, { cloud, clock: systemClock });
    expect(handlers()).toBe(1);
    await controller.run(AbortSignal.abort());
    expect(handlers()).toBe(0);
  });

  test("logs no error when a stop cancels a cloud call", async () => {
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

  test("finishes the write in flight when it stops, and starts no other", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    for (const name of ["node0", "node1", "node2"]) {
      memory.machines.set(name, machine);
      await cluster.admin.create(kinds.Node, newNode(name));
    }
    cluster.api.faults.latency(50);
    const running = await cluster.run(cloudNode, { cloud: memory.cloud });
    await eventually("a write has begun", () => cluster.sent({ method: "PATCH" }).length > 0);
    await running.stop();
    const written = cluster.writes().length;
    const started = cluster.sent({ method: "PATCH" }).filter(({ path }) => !path.endsWith("/status"));
    expect(started.map(({ status }) => status)).toEqual([200]);
    cluster.api.faults.latency(0);
    await cluster.admin.create(kinds.Node, newNode("node3"));
    await eventually("the watch tells of the new node", () => cluster.api.watches.size > 0);
    expect(cluster.writes()).toHaveLength(written);
  });
});
