import { describe, expect, test } from "bun:test";

import { kinds, type KubeClient, type Node } from "cloud-controller-host/sdk";
import { eventually, type MemoryCloud, memoryCloud } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../../host/config/flags/options.ts";
import { complete } from "../../../host/config/validate/complete.ts";
import plugin from "../../../plugins/azure-node-ipam/plugin.ts";
import route from "../../../plugins/route/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { aNode, type Flags, giveAs, given, podCIDRsOf, podCIDRWrites, runIpam, strategic } from "./nodes.ts";

const type = { cidrAllocatorType: "CloudAllocator" };
const v4: Flags = { ...type, clusterCidr: "10.240.0.0/16" };
const unrouted: Flags = { ...v4, configureCloudRoutes: false };
const both: Flags = { ...type, clusterCidr: "10.240.0.0/16,beef::/48" };
/** A /48 cannot be cut into anything smaller than a /64, neither here nor upstream. */
const narrow: Flags = { ...type, clusterCidr: "10.240.0.0/16,beef::/50" };

/** A node with a provider ID, which is what a node's masks are found by. */
const machine = (name: string, podCIDRs: readonly string[] = [], status: Node["status"] = {}): Node =>
  aNode(name, podCIDRs, { spec: { providerID: `memory://${name}` }, status });

function cloudWith(masks: Readonly<Record<string, readonly [number, number]>>): MemoryCloud {
  const memory = memoryCloud();
  for (const [name, [ipv4, ipv6]] of Object.entries(masks)) memory.masks.set(name, { ipv4, ipv6 });
  return memory;
}

test("a node is skipped until it has a provider ID", async () => {
  await using cluster = await TestCluster.start();
  const memory = cloudWith({ node0: [26, 64] });
  await cluster.admin.create(kinds.Node, aNode("node0"));
  const running = await runIpam(cluster, v4, { memory });
  await eventually("it has been synced", () => cluster.worked("node-ipam", 1));
  expect(memory.calls).toEqual([]);
  expect(cluster.writes()).toEqual([]);
  await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { spec: { providerID: "memory://node0" } });
  expect(await given(cluster, "node0")).toEqual(["10.240.0.0/26"]);
  await running.stop();
});

test("a CIDR of the cloud's size starts after the service range", async () => {
  await using cluster = await TestCluster.start();
  const flags = { ...type, clusterCidr: "10.10.0.0/24", serviceClusterIpRange: "10.10.0.0/25" };
  const memory = cloudWith({ node0: [26, 64] });
  const { controller } = await runIpam(cluster, flags, { memory });
  expect(controller.warnings?.()).toEqual([]);
  await cluster.admin.create(kinds.Node, machine("node0"));
  expect(await given(cluster, "node0")).toEqual(["10.10.0.128/26"]);
});

describe("the largest mask sizes", () => {
  test("updateMaxSubnetSizes should calculate the correct max sizes", async () => {
    await using cluster = await TestCluster.start();
    await runIpam(cluster, v4, { memory: cloudWith({ node0: [24, 0], node1: [26, 0], node2: [26, 0] }) });
    const blocks: string[] = [];
    for (const name of ["node0", "node1", "node2"]) {
      await cluster.admin.create(kinds.Node, machine(name));
      blocks.push(...(await given(cluster, name)));
    }
    expect(blocks).toEqual(["10.240.0.0/24", "10.240.1.0/26", "10.240.1.64/26"]);
  });

  test("updateMaxSubnetSizes should work with the dual stack cidrs", async () => {
    await using cluster = await TestCluster.start();
    const memory = cloudWith({ node0: [26, 64], node1: [24, 66], node2: [26, 64] });
    await runIpam(cluster, narrow, { memory });
    const blocks: (readonly string[])[] = [];
    for (const name of ["node0", "node1", "node2"]) {
      await cluster.admin.create(kinds.Node, machine(name));
      blocks.push(await given(cluster, name));
    }
    expect(blocks).toEqual([
      ["10.240.0.0/26", "beef::/64"],
      ["10.240.1.0/24", "beef:0:0:1::/66"],
      ["10.240.0.64/26", "beef:0:0:2::/64"],
    ]);
  });
});

test("sizes of the cloud are allocated also where the standard size is too small for a wide IPv6 cluster CIDR", async () => {
  await using cluster = await TestCluster.start();
  await runIpam(
    cluster,
    { ...type, clusterCidr: "beef::/40" },
    { memory: cloudWith({ node0: [0, 56], node1: [0, 44] }) },
  );
  for (const [name, expected] of [
    ["node0", "beef::/56"],
    ["node1", "beef:0:10::/44"],
  ] as const) {
    await cluster.admin.create(kinds.Node, machine(name));
    expect(await given(cluster, name)).toEqual([expected]);
  }
});

describe("the mask sizes of a node", () => {
  for (const [name, masks, expected] of [
    [
      "updateNodeSubnetMaskSizes should put the correct mask sizes on the map",
      [25, 65],
      ["10.240.0.0/25", "beef::/65"],
    ],
    ["TestGetNodeCIDRMasksByProviderID: only the IPv4 tag", [25, 0], ["10.240.0.0/25", "beef::/64"]],
    ["TestGetNodeCIDRMasksByProviderID: an IPv4 tag that is not a number", [0, 63], ["10.240.0.0/24", "beef::/63"]],
    ["TestGetNodeCIDRMasksByProviderIDVmssFlex: no tag at all", [0, 0], ["10.240.0.0/24", "beef::/64"]],
  ] as const)
    test(name, async () => {
      await using cluster = await TestCluster.start();
      await runIpam(cluster, narrow, { memory: cloudWith({ node0: masks }) });
      await cluster.admin.create(kinds.Node, machine("node0"));
      expect(await given(cluster, "node0")).toEqual([...expected]);
    });

  test("it should put the default mask sizes on the map if the providerID is invalid", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const error = new Error("invalid provider ID");
    memory.intercept("nodeMasks", () => Promise.reject(error));
    await runIpam(cluster, both, { memory });
    await cluster.admin.create(kinds.Node, machine("node0"));
    expect(await given(cluster, "node0")).toEqual(["10.240.0.0/24", "beef::/64"]);
    expect(memory.callsOf("nodeMasks")).toHaveLength(9);
    expect(cluster.log.join("\n")).toContain("Failed to read the node's subnet mask sizes from the cloud");
    expect(cluster.events("CIDRNotAvailable")).toEqual([]);
  });

  for (const [name, masks, message] of [
    [
      "updateNodeSubnetMaskSizes should report an error if the ipv4 mask is smaller than the cluster mask",
      [15, 64],
      "updateNodeSubnetMaskSizes: invalid ipv4 mask size 15 of node node0 because it is out of the range of the cluster CIDR with the mask size 16",
    ],
    [
      "updateNodeSubnetMaskSizes should report an error if the ipv6 mask is smaller than the cluster mask",
      [25, 45],
      "updateNodeSubnetMaskSizes: invalid ipv6 mask size 45 of node node0 because it is out of the range of the cluster CIDR with the mask size 48",
    ],
    [
      "a mask of more bits than an address has is reported",
      [33, 64],
      "invalid ipv4 mask size 33 of node node0 because an address has only 32 bits",
    ],
    [
      "a mask that would cut the cluster into too many blocks is reported",
      [25, 65],
      "invalid ipv6 mask size 65 of node node0 because it is more than 16 longer than the prefix of cluster cidr beef::/48",
    ],
  ] as const)
    test(`${name}, and the node is not stuck`, async () => {
      await using cluster = await TestCluster.start();
      const memory = cloudWith({ node0: masks, node1: [26, 64] });
      await runIpam(cluster, both, { memory });
      await cluster.admin.create(kinds.Node, machine("node0"));
      await eventually("the event is recorded", () => cluster.event("CIDRNotAvailable"));
      await eventually("the reason is logged", () => cluster.log.some((line) => line.includes(message)));
      await cluster.admin.create(kinds.Node, machine("node1"));
      expect(await given(cluster, "node1")).toEqual(["10.240.0.0/26", "beef::/64"]);
      expect(podCIDRWrites(cluster).map(([node]) => node)).toEqual(["node1"]);
      memory.masks.set("node0", { ipv4: 26, ipv6: 64 });
      expect(await given(cluster, "node0")).toEqual(["10.240.0.64/26", "beef:0:0:1::/64"]);
    });
});

describe("the cloud", () => {
  test("the cloud that fails is called again before a node gets a CIDR of the standard size", async () => {
    await using cluster = await TestCluster.start();
    const memory = cloudWith({ node0: [26, 64] });
    memory.fail("nodeMasks", new Error("throttled"), { times: 3 });
    await runIpam(cluster, v4, { memory });
    await cluster.admin.create(kinds.Node, machine("node0"));
    expect(await given(cluster, "node0")).toEqual(["10.240.0.0/26"]);
  });

  test("is called again for a node that was recreated while it was being called for the one before", async () => {
    await using cluster = await TestCluster.start();
    const memory = cloudWith({ node0: [26, 64], node1: [26, 64] });
    const before = memory.hold("nodeMasks");
    await runIpam(cluster, v4, { memory });
    await cluster.admin.create(kinds.Node, machine("node0"));
    await eventually("the cloud is called", () => before.waiting > 0);
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await cluster.admin.create(kinds.Node, machine("node0"));
    await cluster.admin.create(kinds.Node, machine("node1"));
    await eventually("the watch has come to the node after it", () => before.waiting > 1);
    before.release();
    await given(cluster, "node0");
    expect(memory.callsOf("nodeMasks").map(({ target }) => target)).toEqual(["node0", "node1", "node0"]);
  });

  test("is not called for nodes that have their CIDRs", async () => {
    await using cluster = await TestCluster.start();
    const memory = cloudWith({ node0: [26, 64], node1: [26, 64] });
    await cluster.admin.create(kinds.Node, machine("node0", ["10.240.0.0/26"]));
    await runIpam(cluster, v4, { memory });
    await cluster.admin.create(kinds.Node, machine("node1"));
    expect(await given(cluster, "node1")).toEqual(["10.240.0.64/26"]);
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { metadata: { labels: { a: "b" } } });
    await cluster.admin.create(kinds.Node, machine("node2"));
    await given(cluster, "node2");
    expect(memory.callsOf("nodeMasks").map(({ target }) => target)).toEqual(["node1", "node2"]);
  });

  test("is not awaited after a stop, and nothing is written then", async () => {
    await using cluster = await TestCluster.start();
    const memory = cloudWith({ node0: [26, 64] });
    const hold = memory.hold("nodeMasks");
    const running = await runIpam(cluster, v4, { memory });
    await cluster.admin.create(kinds.Node, machine("node0"));
    await eventually("the cloud is called", () => hold.waiting > 0);
    await running.stop();
    expect(cluster.writes()).toEqual([]);
    expect(cluster.events()).toEqual([]);
  });
});

describe("the condition NetworkUnavailable without cloud routes", () => {
  test("becomes False after a node got its CIDRs", async () => {
    await using cluster = await TestCluster.start();
    const conditions = [{ type: "NetworkUnavailable", status: "True", reason: "NoRouteCreated", message: "none" }];
    await cluster.admin.create(kinds.Node, machine("node0", [], { conditions }));
    await runIpam(cluster, unrouted);
    const write = await eventually("it is written", () => cluster.writes()[1]);
    expect(podCIDRsOf(cluster, "node0")).toEqual(["10.240.0.0/24"]);
    expect(write).toMatchObject({ method: "PATCH", path: "/api/v1/nodes/node0/status", contentType: strategic });
    expect(write.body).toEqual({
      metadata: { uid: cluster.api.get(kinds.Node, { name: "node0" })?.metadata?.uid },
      status: {
        conditions: [
          {
            type: "NetworkUnavailable",
            status: "False",
            reason: "RouteCreated",
            message: "NodeController create implicit route",
            lastHeartbeatTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
            lastTransitionTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
          },
        ],
      },
    });
  });

  test("is not written while the write of the CIDRs fails and is retried", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.faults.add({
      match: { verb: "patch", resource: "nodes", subresource: "" },
      effect: { status: 403 },
      times: 3,
    });
    await cluster.admin.create(kinds.Node, machine("node0"));
    await runIpam(cluster, unrouted);
    await eventually("it is written", () => cluster.writes()[4]?.status === 200);
    expect(cluster.writes().map(({ path, status }) => [path.endsWith("/status"), status])).toEqual([
      [false, 403],
      [false, 403],
      [false, 403],
      [false, 200],
      [true, 200],
    ]);
  });

  test("is written again when its write failed, and the CIDRs are not", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.faults.add({ match: { verb: "patch", subresource: "status" }, effect: { status: 500 } });
    await cluster.admin.create(kinds.Node, machine("node0"));
    await runIpam(cluster, unrouted);
    await eventually(
      "it is written again",
      () => cluster.writes().filter(({ path }) => path.endsWith("/status")).length === 2,
    );
    expect(podCIDRWrites(cluster)).toHaveLength(1);
  });

  test("is written also when the reply to the write of the CIDRs was lost", async () => {
    await using cluster = await TestCluster.start();
    const lost = { effect: "disconnect", afterwards: true, times: 3 } as const;
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes", subresource: "" }, ...lost });
    await cluster.admin.create(kinds.Node, machine("node0"));
    await runIpam(cluster, unrouted);
    await eventually("it is written", () => cluster.sent({ path: "/api/v1/nodes/node0/status", status: 200 })[0]);
    expect(podCIDRWrites(cluster)).toHaveLength(3);
  });

  test("is not written for CIDRs of another writer", async () => {
    await using cluster = await TestCluster.start();
    await cluster.admin.create(kinds.Node, machine("node0", ["10.240.0.0/24"]));
    await runIpam(cluster, unrouted);
    await cluster.admin.create(kinds.Node, machine("node1"));
    await eventually("the other node's is written", () =>
      cluster.writes().some(({ path }) => path.endsWith("/node1/status")),
    );
    expect(cluster.writes().some(({ path }) => path.includes("/node0"))).toBe(false);
  });

  test("is left alone where it is already False", async () => {
    await using cluster = await TestCluster.start();
    const conditions = [{ type: "NetworkUnavailable", status: "False", reason: "CalicoIsUp", message: "up" }];
    await cluster.admin.create(kinds.Node, machine("node0", [], { conditions }));
    await runIpam(cluster, unrouted);
    await given(cluster, "node0");
    await cluster.admin.create(kinds.Node, machine("node1"));
    await eventually("the other node's is written", () =>
      cluster.writes().some(({ path }) => path.endsWith("/node1/status")),
    );
    expect(cluster.writes().some(({ path }) => path.endsWith("/node0/status"))).toBe(false);
  });

  test("is written for CIDRs of a predecessor that was killed before it wrote it, and not for those of another writer", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.create(kinds.Node, machine("node0"));
    cluster.api.create(kinds.Node, machine("node1"));
    await giveAs(cluster, "cloud-controller-manager", "node0", "10.240.0.0/24");
    await giveAs(cluster, "another-program", "node1", "10.240.1.0/24");
    await runIpam(cluster, unrouted);
    await cluster.admin.create(kinds.Node, machine("node2"));
    await eventually("a new node's is written", () =>
      cluster.writes().some(({ path }) => path.endsWith("/node2/status")),
    );
    await eventually("node0's is written", () => cluster.sent({ path: "/api/v1/nodes/node0/status", status: 200 })[0]);
    expect(cluster.sent({ path: "/api/v1/nodes/node0/status" })).toHaveLength(1);
    expect(cluster.sent({ path: "/api/v1/nodes/node1/status" })).toEqual([]);
  });

  test("is left alone on a predecessor's node that has it, whatever its value", async () => {
    await using cluster = await TestCluster.start();
    const conditions = [{ type: "NetworkUnavailable", status: "True", reason: "CalicoIsDown", message: "down" }];
    cluster.api.create(kinds.Node, machine("node0", [], { conditions }));
    await giveAs(cluster, "cloud-controller-manager", "node0", "10.240.0.0/24");
    await runIpam(cluster, unrouted);
    await cluster.admin.create(kinds.Node, machine("node1"));
    await eventually("a new node's is written", () =>
      cluster.writes().some(({ path }) => path.endsWith("/node1/status")),
    );
    expect(cluster.sent({ path: "/api/v1/nodes/node0/status" })).toEqual([]);
  });

  test("is written once: a later value of another program stays", async () => {
    await using cluster = await TestCluster.start();
    await cluster.admin.create(kinds.Node, machine("node0"));
    await runIpam(cluster, unrouted);
    const ofNode0 = { path: "/api/v1/nodes/node0/status" };
    await eventually("it is written", () => cluster.sent({ ...ofNode0, status: 200 })[0]);
    const conditions = [{ type: "NetworkUnavailable", status: "True", reason: "CalicoIsDown", message: "down" }];
    const status = { status: { conditions } };
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "strategic", status, { subresource: "status" });
    await cluster.admin.create(kinds.Node, machine("node1"));
    await eventually("a new node's is written", () =>
      cluster.writes().some(({ path }) => path.endsWith("/node1/status")),
    );
    expect(cluster.sent(ofNode0)).toHaveLength(1);
  });

  test("is not written when another writer was faster, although the watch does not show that yet", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const hold = memory.hold("nodeMasks");
    cluster.api.create(kinds.Node, machine("node0"));
    await runIpam(cluster, unrouted, { memory });
    await eventually("the cloud is called", () => hold.waiting === 1);
    cluster.api.watches.pause();
    await giveAs(cluster, "kubectl-edit", "node0", "10.240.200.0/24");
    hold.release();
    await eventually("it is reported", () => cluster.event("OtherCIDRAllocator"));
    await eventually("the node has been synced", () => cluster.worked("node-ipam", 1));
    expect(cluster.sent({ path: "/api/v1/nodes/node0/status" })).toEqual([]);
  });

  /** Runs the controller with a client of its own, and creates a node once it waits for nodes. */
  async function runWith(cluster: TestCluster, clientOf: (client: KubeClient) => KubeClient) {
    const generation = cluster.generation(plugin);
    const { context, signal } = generation;
    const bound = plugin.bind({});
    if (!bound.ok) throw new Error(bound.problems.join());
    const config = complete({ ...defaultOptions, allocateNodeCidrs: true, ...unrouted });
    const client = clientOf(context.client);
    const controller = await bound.value(config, memoryCloud().cloud)({ ...context, client });
    if (!("run" in controller)) throw new Error(controller.skipped);
    await generation.synced();
    const ended = controller.run(signal);
    cluster.api.create(kinds.Node, machine("node0"));
    return { generation, ended, store: context.informers.of(kinds.Node).store };
  }

  test("is written also when a stop comes between the write of the CIDRs and its reply", async () => {
    await using cluster = await TestCluster.start();
    const answer = Promise.withResolvers<void>();
    const { generation, ended, store } = await runWith(cluster, (client) => ({
      ...client,
      async patch(...args) {
        const node = await client.patch(...args);
        await answer.promise;
        return node;
      },
    }));
    await eventually("the watch is quicker than the answer", () => store.get("node0")?.spec?.podCIDRs);
    generation.abort();
    answer.resolve();
    await ended;
    expect(cluster.writes().map(({ path }) => path)).toEqual(["/api/v1/nodes/node0", "/api/v1/nodes/node0/status"]);
  });

  test("is written once for a node that changes meanwhile, although the watch shows the condition late", async () => {
    await using cluster = await TestCluster.start();
    const gate = Promise.withResolvers<void>();
    let waiting = 0;
    const { generation, ended, store } = await runWith(cluster, (client) => ({
      ...client,
      async patch(...args) {
        waiting += 1;
        await gate.promise;
        return client.patch(...args);
      },
    }));
    await eventually("the CIDRs are about to be written", () => waiting === 1);
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { metadata: { labels: { team: "a" } } });
    await eventually("the watch shows the change", () => store.get("node0")?.metadata?.labels?.["team"]);
    cluster.api.watches.pause();
    gate.resolve();
    await eventually("the node has been synced again", () => cluster.worked("node-ipam", 2));
    expect(cluster.sent({ path: "/api/v1/nodes/node0/status" })).toHaveLength(1);
    generation.abort();
    await ended;
  });
});

describe("the condition NetworkUnavailable with cloud routes", () => {
  test("is not written by the allocator: the network is available only once the route exists", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const creation = memory.hold("createRoute");
    const conditions = [{ type: "NetworkUnavailable", status: "True", reason: "NoRouteCreated", message: "none" }];
    await cluster.admin.create(kinds.Node, machine("node0", [], { conditions }));
    const conditionOf = () =>
      cluster.api
        .get(kinds.Node, { name: "node0" })
        ?.status?.conditions?.find(({ type: t }) => t === "NetworkUnavailable");
    await using _ = await cluster.run(route, { cloud: memory.cloud, flags: { ...v4, routeReconciliationPeriod: 20 } });
    const { controller } = await runIpam(cluster, v4, { memory });
    await given(cluster, "node0");
    await eventually("the route is being created", () => creation.waiting === 1);
    await Bun.sleep(20);
    expect(conditionOf()).toMatchObject({ status: "True", reason: "NoRouteCreated" });
    creation.release();
    await eventually("the network is available", () => conditionOf()?.status === "False");
    expect(conditionOf()).toMatchObject({ reason: "RouteCreated", message: "RouteController created a route" });
    expect(controller.warnings?.()).toEqual([]);
  });

  test("is written by the allocator when the cloud has no routes", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud({ without: ["routes"] });
    await cluster.admin.create(kinds.Node, machine("node0"));
    await runIpam(cluster, v4, { memory });
    await eventually("it is written", () => cluster.sent({ path: "/api/v1/nodes/node0/status", status: 200 })[0]);
  });
});

test("a cloud that fails to return the sizes is called eight times before the standard sizes are used", async () => {
  await using cluster = await TestCluster.start();
  const memory = cloudWith({ node0: [26, 64] });
  memory.fail("nodeMasks", new Error("throttled"), { times: 8 });
  await runIpam(cluster, v4, { memory });
  await cluster.admin.create(kinds.Node, machine("node0"));
  expect(await given(cluster, "node0")).toEqual(["10.240.0.0/26"]);
  expect(memory.callsOf("nodeMasks")).toHaveLength(9);
});
