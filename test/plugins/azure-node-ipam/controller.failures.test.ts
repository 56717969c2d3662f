import { describe, expect, test } from "bun:test";

import { kinds, type KubeClient, type Node } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../../host/config/flags/options.ts";
import { complete } from "../../../host/config/validate/complete.ts";
import plugin from "../../../plugins/azure-node-ipam/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { warningLines } from "../../kit/warnings.ts";
import { aNode, answeredWrites, given, messagesOf, podCIDRsOf, podCIDRWrites, runIpam } from "./nodes.ts";

/** Room for one node, and for two. */
const one = { clusterCidr: "10.0.0.0/24" };
const two = { clusterCidr: "10.0.0.0/23" };
const writeOf = (name: string) => ({ verb: "patch", resource: "nodes", name, subresource: "" });
const blockIn = (spec: unknown): unknown =>
  typeof spec === "object" && spec !== null && "podCIDR" in spec ? spec.podCIDR : undefined;

/** Blocks that the controller has tried to write to that node, in order. */
const triedFor = (cluster: TestCluster, name: string): readonly unknown[] =>
  podCIDRWrites(cluster)
    .filter(([node]) => node === name)
    .map(([, spec]) => blockIn(spec));

describe("a write whose reply was lost", () => {
  test("keeps its CIDR, and a fresh read finds that it was written", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.faults.add({ match: writeOf("node0"), effect: "disconnect", afterwards: true, times: 3 });
    cluster.api.create(kinds.Node, aNode("node0"));
    // Only a read can tell: the watch is silent.
    cluster.api.watches.pause();
    await runIpam(cluster, two);
    await eventually("the node is read", () => cluster.sent({ method: "GET", path: "/api/v1/nodes/node0" })[0]?.status);
    expect(triedFor(cluster, "node0")).toEqual(["10.0.0.0/24", "10.0.0.0/24", "10.0.0.0/24"]);
    cluster.api.create(kinds.Node, aNode("node1"));
    cluster.api.watches.resume();
    expect(await given(cluster, "node1")).toEqual(["10.0.1.0/24"]);
    expect(podCIDRsOf(cluster, "node0")).toEqual(["10.0.0.0/24"]);
    expect(triedFor(cluster, "node0")).toHaveLength(3);
  });

  for (const [name, effect] of [
    ["the connection broke", "disconnect"],
    ["the server did not know", { status: 504, reason: "ServerTimeout" }],
    ["the server failed", { status: 500 }],
    ["the server timed the request out", { status: 408, reason: "Timeout" }],
  ] as const)
    test(`is repeated with the same CIDR when it was not written: ${name}`, async () => {
      await using cluster = await TestCluster.start();
      cluster.api.faults.add({ match: writeOf("node0"), effect, times: 6 });
      cluster.api.create(kinds.Node, aNode("node0"));
      await runIpam(cluster, two);
      expect(await given(cluster, "node0")).toEqual(["10.0.0.0/24"]);
      expect(triedFor(cluster, "node0")).toEqual(Array.from({ length: 7 }, () => "10.0.0.0/24"));
      await eventually("the event is recorded", () => messagesOf(cluster, "CIDRAssignmentFailed", "node0").length > 0);
    });

  test("frees its CIDR when the node was deleted", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.faults.add({ match: writeOf("node0"), effect: "disconnect", times: Number.POSITIVE_INFINITY });
    cluster.api.create(kinds.Node, aNode("node0"));
    await runIpam(cluster, one);
    await eventually("the event is recorded", () => messagesOf(cluster, "CIDRAssignmentFailed", "node0").length > 0);
    cluster.api.create(kinds.Node, aNode("node1"));
    await eventually("the ranges are exhausted", () => messagesOf(cluster, "CIDRNotAvailable", "node1").length > 0);
    cluster.api.delete(kinds.Node, { name: "node0" });
    expect(await given(cluster, "node1")).toEqual(["10.0.0.0/24"]);
  });
});

describe("a deleted node", () => {
  test("leaks no CIDR when it is deleted before the write", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const hold = memory.hold("nodeMasks");
    cluster.api.create(kinds.Node, aNode("node0", [], { spec: { providerID: "memory://node0" } }));
    await runIpam(cluster, { ...one, cidrAllocatorType: "CloudAllocator" }, { memory });
    await eventually("the cloud is called", () => hold.waiting === 1);
    cluster.api.watches.pause();
    cluster.api.delete(kinds.Node, { name: "node0" });
    hold.release();
    await eventually("the write returns 404", () => podCIDRWrites(cluster)[0]?.[2] === 404);
    cluster.api.watches.resume();
    cluster.api.create(kinds.Node, aNode("node1", [], { spec: { providerID: "memory://node1" } }));
    expect(await given(cluster, "node1")).toEqual(["10.0.0.0/24"]);
    expect(cluster.events()).toEqual([]);
  });

  test("gets no CIDR when it is deleted during the cloud call", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const hold = memory.hold("nodeMasks");
    cluster.api.create(kinds.Node, aNode("node0", [], { spec: { providerID: "memory://node0" } }));
    await runIpam(cluster, { ...one, cidrAllocatorType: "CloudAllocator" }, { memory });
    await eventually("the cloud is called", () => hold.waiting === 1);
    cluster.api.delete(kinds.Node, { name: "node0" });
    cluster.api.create(kinds.Node, aNode("node1", [], { spec: { providerID: "memory://node1" } }));
    await eventually("the cloud is called again", () => hold.waiting === 2);
    hold.release();
    expect(await given(cluster, "node1")).toEqual(["10.0.0.0/24"]);
    expect(podCIDRWrites(cluster).map(([name]) => name)).toEqual(["node1"]);
  });

  test("a deleted node that is recreated under its name gets a CIDR that no other node has", async () => {
    await using cluster = await TestCluster.start();
    await runIpam(cluster, two);
    cluster.api.create(kinds.Node, aNode("node0"));
    await given(cluster, "node0");
    cluster.api.watches.pause();
    cluster.api.delete(kinds.Node, { name: "node0" });
    cluster.api.create(kinds.Node, aNode("node0"));
    cluster.api.create(kinds.Node, aNode("node1"));
    cluster.api.watches.resume();
    const all = [await given(cluster, "node0"), await given(cluster, "node1")].flat();
    expect(all.toSorted()).toEqual(["10.0.0.0/24", "10.0.1.0/24"]);
  });

  test("outside the node filter keeps its CIDR until it is deleted", async () => {
    const nodeFilterRequirements = "ours=yes";
    await using cluster = await TestCluster.start({ flags: { nodeFilterRequirements } });
    const ours = (name: string): Node => aNode(name, [], { metadata: { labels: { ours: "yes" } } });
    const clock = manualClock();
    await runIpam(cluster, { ...one, nodeFilterRequirements }, { clock });
    cluster.api.create(kinds.Node, ours("node0"));
    await given(cluster, "node0");
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { metadata: { labels: { ours: "no" } } });
    await eventually("the node is read", () => cluster.sent({ method: "GET", path: "/api/v1/nodes/node0" })[0]?.status);
    cluster.api.create(kinds.Node, ours("node1"));
    await eventually("the ranges are exhausted", () => cluster.event("CIDRNotAvailable"));

    // No watch tells of this deletion.
    cluster.api.delete(kinds.Node, { name: "node0" });
    await eventually("it is missed", async () => {
      await clock.advance(60_000);
      return podCIDRsOf(cluster, "node1");
    });
    expect(podCIDRsOf(cluster, "node1")).toEqual(["10.0.0.0/24"]);
  });
});

/** The client, whose answers to reads of one object come only when the gate is open. */
const gated = (client: KubeClient, gate: Promise<void>): KubeClient => ({
  async get(kind, name, options) {
    try {
      return await client.get(kind, name, options);
    } finally {
      if (kind.kind === "Node") await gate;
    }
  },
  list: (kind, options) => client.list(kind, options),
  create: (kind, object, options) => client.create(kind, object, options),
  replace: (kind, object, options) => client.replace(kind, object, options),
  patch: (kind, name, type, body, options) => client.patch(kind, name, type, body, options),
  delete: (kind, name, options) => client.delete(kind, name, options),
  deleteCollection: (kind, options) => client.deleteCollection(kind, options),
  evict: (pod, options) => client.evict(pod, options),
});

test("a reply that was overtaken by the watch frees nothing", async () => {
  await using cluster = await TestCluster.start();
  cluster.api.create(kinds.Node, aNode("node0", ["10.0.0.0/24"]));
  const bound = plugin.bind({});
  if (!bound.ok) throw new Error(bound.problems.join());
  const generation = cluster.generation(plugin);
  const { context, signal, synced } = generation;
  const gate = Promise.withResolvers<void>();
  const config = complete({ ...defaultOptions, allocateNodeCidrs: true, ...one });
  const controller = await bound.value(
    config,
    memoryCloud().cloud,
  )({
    ...context,
    client: gated(context.client, gate.promise),
  });
  if (!("run" in controller)) throw new Error(controller.skipped);
  await synced();
  const ended = controller.run(signal);
  await eventually("it runs", () => cluster.sent({ path: "/api/v1/nodes" })[0]?.status);

  // The read says that the node is gone; before that arrives, the watch says that it is back with the same CIDR.
  cluster.api.delete(kinds.Node, { name: "node0" });
  await eventually("the node is read", () => cluster.sent({ path: "/api/v1/nodes/node0" })[0]?.status === 404);
  const { uid } = cluster.api.create(kinds.Node, aNode("node0", ["10.0.0.0/24"])).metadata ?? {};
  const { store } = context.informers.of(kinds.Node);
  await eventually("the watch event has arrived", () => store.get("node0")?.metadata?.uid === uid);
  cluster.api.create(kinds.Node, aNode("node1"));
  await eventually("the ranges are exhausted", () => messagesOf(cluster, "CIDRNotAvailable", "node1").length > 0);
  gate.resolve();
  cluster.api.create(kinds.Node, aNode("node2"));
  await eventually("there is still no room", () => messagesOf(cluster, "CIDRNotAvailable", "node2").length > 0);
  expect(podCIDRWrites(cluster)).toEqual([]);

  generation.abort();
  await ended;
});

test("a reply that was overtaken by the watch is not a failed assignment", async () => {
  await using cluster = await TestCluster.start();
  const bound = plugin.bind({});
  if (!bound.ok) throw new Error(bound.problems.join());
  const generation = cluster.generation(plugin);
  const { context, signal, synced } = generation;
  const { store } = context.informers.of(kinds.Node);
  const client: KubeClient = {
    ...gated(context.client, Promise.resolve()),
    async patch(kind, name, type, body, options) {
      await context.client.patch(kind, name, type, body, options);
      await eventually("the watch shows it", () => store.get(name.name)?.spec?.podCIDRs);
      throw new Error("the connection broke");
    },
  };
  const config = complete({ ...defaultOptions, allocateNodeCidrs: true, ...one });
  const controller = await bound.value(config, memoryCloud().cloud)({ ...context, client });
  if (!("run" in controller)) throw new Error(controller.skipped);
  await synced();
  const ended = controller.run(signal);
  cluster.api.create(kinds.Node, aNode("node0"));
  await eventually("the sync has ended", () => cluster.worked("node-ipam", 1));
  expect(podCIDRsOf(cluster, "node0")).toEqual(["10.0.0.0/24"]);
  expect(cluster.log.filter((line) => line.includes("CIDR assignment for node failed"))).toEqual([]);
  expect(cluster.events()).toEqual([]);
  generation.abort();
  await ended;
});

describe("nodes outside --node-filter-requirements", () => {
  test("are counted before the first allocation", async () => {
    const nodeFilterRequirements = "ours=yes";
    await using cluster = await TestCluster.start({ flags: { nodeFilterRequirements } });
    cluster.api.create(kinds.Node, aNode("theirs", ["10.0.0.0/24"]));
    cluster.api.create(kinds.Node, aNode("waits"));
    cluster.api.create(kinds.Node, aNode("node0", [], { metadata: { labels: { ours: "yes" } } }));
    await runIpam(cluster, { ...two, nodeFilterRequirements });
    expect(await given(cluster, "node0")).toEqual(["10.0.1.0/24"]);
    expect(podCIDRWrites(cluster).map(([name]) => name)).toEqual(["node0"]);
  });
});

describe("a restart", () => {
  test("earlier allocations are known even when the watch lags behind", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.faults.add({
      match: { verb: "patch", resource: "nodes" },
      effect: { status: 403 },
      times: Number.POSITIVE_INFINITY,
    });
    for (const name of ["node0", "node1"]) cluster.api.create(kinds.Node, aNode(name));
    const first = await runIpam(cluster, two);
    await eventually("both are refused", () => cluster.events("CIDRAssignmentFailed").length >= 2);
    await first.stop();
    cluster.api.watches.pause();
    // The last write of the one before, which its own process has not seen arrive.
    cluster.api.update(kinds.Node, { name: "node0" }, (node) => ({
      ...node,
      spec: { podCIDR: "10.0.0.0/24", podCIDRs: ["10.0.0.0/24"] },
    }));
    const before = podCIDRWrites(cluster).length;
    cluster.api.faults.clear();
    const { controller } = await runIpam(cluster, two);
    expect(await given(cluster, "node1")).toEqual(["10.0.1.0/24"]);
    expect((await answeredWrites(cluster)).slice(before).map(([name]) => name)).toEqual(["node1"]);
    cluster.api.watches.resume();
    cluster.api.create(kinds.Node, aNode("node2", ["10.0.9.0/24"]));
    await eventually("the watch event has arrived", () => cluster.event("PodCIDROutOfRange"));
    expect(warningLines(controller)).toEqual([]);
  });

  test("nothing is written without need", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.create(kinds.Node, aNode("node0"));
    const first = await runIpam(cluster, two);
    await given(cluster, "node0");
    await first.stop();
    const second = await runIpam(cluster, two);
    cluster.api.create(kinds.Node, aNode("node1"));
    await given(cluster, "node1");
    await second.stop();
    expect(podCIDRWrites(cluster).map(([name]) => name)).toEqual(["node0", "node1"]);
  });

  test("no CIDR is assigned while nodes cannot be listed, which /statusz and a metric report", async () => {
    await using cluster = await TestCluster.start();
    const clock = manualClock();
    cluster.api.create(kinds.Node, aNode("node0"));
    const list = cluster.api.faults.add({
      match: { verb: "watch", resource: "nodes", userAgent: "node-controller" },
      effect: { status: 500 },
      times: Number.POSITIVE_INFINITY,
    });
    const { controller } = await runIpam(cluster, two, { clock });
    const suspended = () => cluster.metric("node_ipam_controller_allocation_suspended");
    await eventually("it is suspended", async () => (await suspended()) === 1);
    expect(warningLines(controller)).toEqual([
      expect.stringContaining("Pod CIDR allocation is suspended: Failed to list all nodes"),
    ]);
    // A restart would not help: health checks stay green.
    expect("check" in controller).toBe(false);
    expect(podCIDRWrites(cluster)).toEqual([]);
    list.remove();
    await eventually("it resumes", async () => {
      await clock.advance(1_000);
      return podCIDRsOf(cluster, "node0");
    });
    expect(warningLines(controller)).toEqual([]);
    expect(await suspended()).toBe(0);
  });
});

describe("a rejected write", () => {
  test("is attempted three times at once, then with exponential backoff", async () => {
    await using cluster = await TestCluster.start();
    const clock = manualClock();
    cluster.api.faults.add({ match: writeOf("node0"), effect: { status: 403 }, times: Number.POSITIVE_INFINITY });
    cluster.api.create(kinds.Node, aNode("node0"));
    await runIpam(cluster, { clusterCidr: "10.0.0.0/16" }, { clock });
    let waited = 0;
    for (let round = 1; round <= 8; round++) {
      const retries = () => cluster.metric("workqueue_retries_total", { name: "node-ipam" });
      await eventually("it waits", async () => (await retries()) === round);
      expect(podCIDRWrites(cluster)).toHaveLength(3 * round);
      const pause = 5 * 2 ** (round - 1);
      await clock.advance(pause - 1);
      expect(podCIDRWrites(cluster)).toHaveLength(3 * round);
      await clock.advance(1);
      waited += pause;
    }
    expect(waited).toBe(1275);
  });

  test("does not delay other nodes", async () => {
    await using cluster = await TestCluster.start();
    const faults = { effect: { status: 403 }, times: Number.POSITIVE_INFINITY };
    for (const name of ["bad0", "bad1", "bad2"]) {
      cluster.api.faults.add({ match: writeOf(name), ...faults });
      cluster.api.create(kinds.Node, aNode(name));
    }
    await runIpam(cluster, { clusterCidr: "10.0.0.0/22" });
    for (const name of ["node0", "node1", "node2", "node3"]) cluster.api.create(kinds.Node, aNode(name));
    const all = await Promise.all(["node0", "node1", "node2"].map((name) => given(cluster, name)));
    expect(new Set(all.flat()).size).toBe(3);
  });

  test("is repeated with the same CIDR after a conflict", async () => {
    await using cluster = await TestCluster.start();
    cluster.api.faults.add({ match: writeOf("node0"), effect: { status: 409 }, times: 2 });
    cluster.api.create(kinds.Node, aNode("node0"));
    await runIpam(cluster, two);
    expect(await given(cluster, "node0")).toEqual(["10.0.0.0/24"]);
    expect((await answeredWrites(cluster)).map(([, , status]) => status)).toEqual([409, 409, 200]);
    expect(cluster.events()).toEqual([]);
  });
});

test("both families are free again when a dual-stack write is rejected", async () => {
  await using cluster = await TestCluster.start();
  cluster.api.faults.add({ match: writeOf("node0"), effect: { status: 422 }, times: 3 });
  cluster.api.create(kinds.Node, aNode("node0"));
  await runIpam(cluster, { clusterCidr: "10.0.0.0/23,2001:db8::/63" });
  expect(await given(cluster, "node0")).toEqual(["10.0.1.0/24", "2001:db8:0:1::/64"]);
  cluster.api.create(kinds.Node, aNode("node1"));
  expect(await given(cluster, "node1")).toEqual(["10.0.0.0/24", "2001:db8::/64"]);
});

test("a node whose condition cannot be written is in /statusz once that has lasted for a minute, until it is", async () => {
  await using cluster = await TestCluster.start();
  const clock = manualClock();
  cluster.api.faults.add({
    match: { verb: "patch", resource: "nodes", subresource: "status" },
    effect: { status: 403, message: "no" },
    times: Number.POSITIVE_INFINITY,
  });
  cluster.api.create(kinds.Node, aNode("node0", [], { spec: { providerID: "memory://node0" } }));
  const flags = { ...one, cidrAllocatorType: "CloudAllocator", configureCloudRoutes: false };
  const { controller } = await runIpam(cluster, flags, { clock });
  await given(cluster, "node0");
  expect(warningLines(controller)).toEqual([]);
  const [count, line] = await eventually("it is warned of", async () => {
    await clock.advance(1_000);
    return warningLines(controller).length > 0 && warningLines(controller);
  });
  expect([count, line?.replace(/since \S+:/u, "since then:")]).toEqual([
    "failing Nodes: 1",
    "Node node0 fails since then: no",
  ]);
  cluster.api.faults.clear();
  await eventually("it is warned of no more", async () => {
    await clock.advance(10_000);
    return warningLines(controller).length === 0;
  });
});

test("a node without room is in /statusz once that has lasted for a minute, until it is deleted", async () => {
  await using cluster = await TestCluster.start();
  const clock = manualClock();
  for (const name of ["node0", "node1"]) cluster.api.create(kinds.Node, aNode(name));
  const { controller } = await runIpam(cluster, one, { clock });
  const [, line = ""] = await eventually("it is warned of", async () => {
    await clock.advance(1_000);
    return warningLines(controller).length > 0 && warningLines(controller);
  });
  expect(line).toContain("there are no remaining CIDRs left to allocate in the accepted range");
  const [, name = ""] = /^Node (\S+) fails/u.exec(line) ?? [];
  cluster.api.delete(kinds.Node, { name });
  await eventually("it is warned of no more", async () => {
    await clock.advance(1_000);
    return warningLines(controller).length === 0;
  });
});
