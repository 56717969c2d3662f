import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { TestCluster } from "../../kit/harness.ts";
import { aNode, giveAs, messagesOf, runIpam } from "./nodes.ts";

/** Room for one node. */
const one = { clusterCidr: "10.0.0.0/24" };

/** The controller with a node that has the one CIDR, and with `node0`, for which none is left. */
async function runWithoutRoom(cluster: TestCluster): Promise<ManualClock> {
  cluster.api.create(kinds.Node, aNode("first", ["10.0.0.0/24"]));
  cluster.api.create(kinds.Node, aNode("node0"));
  const clock = manualClock();
  await runIpam(cluster, one, { clock });
  await eventually("the ranges are exhausted", () => cluster.event("CIDRNotAvailable"));
  return clock;
}

test("a node without room is tried again at doubling pauses, not at each change of it", async () => {
  await using cluster = await TestCluster.start();
  const clock = await runWithoutRoom(cluster);
  for (const beat of ["1", "2", "3"])
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { metadata: { annotations: { beat } } });
  cluster.api.create(kinds.Node, aNode("node1"));
  await eventually("a later change was noticed", () => messagesOf(cluster, "CIDRNotAvailable", "node1").length > 0);

  const attempts = () => cluster.metric("workqueue_work_duration_seconds_count", { name: "node-ipam" });
  for (const [pauseMs, before] of [
    [1_000, 2],
    [2_000, 4],
    [4_000, 6],
  ] as const) {
    await clock.advance(pauseMs - 1);
    expect(await attempts()).toBe(before);
    await clock.advance(1);
    await eventually("both are tried again", async () => (await attempts()) === before + 2);
  }
});

test("a node without room that is recreated under its name is tried again after a second", async () => {
  await using cluster = await TestCluster.start();
  const clock = await runWithoutRoom(cluster);
  await clock.advance(1_000);
  await eventually("it is tried again", () => cluster.worked("node-ipam", 2));
  cluster.api.delete(kinds.Node, { name: "node0" });
  await eventually("its deletion is processed", () => cluster.worked("node-ipam", 3));
  cluster.api.create(kinds.Node, aNode("node0"));
  await eventually("its successor is tried", () => cluster.worked("node-ipam", 4));
  await clock.advance(1_000);
  await eventually("its successor is tried again", () => cluster.worked("node-ipam", 5));
});

test("CIDRs that another writer gives to a node without room are noticed before its next attempt", async () => {
  await using cluster = await TestCluster.start();
  await runWithoutRoom(cluster);
  await giveAs(cluster, "kubectl-edit", "node0", "10.0.0.0/24");
  await eventually("the event is recorded", () => messagesOf(cluster, "OtherCIDRAllocator", "node0").length > 0);
});

test("a block that becomes free wakes a node that waits for its next attempt, not the one whose attempt is under way", async () => {
  await using cluster = await TestCluster.start();
  const memory = memoryCloud();
  const machine = (name: string) => aNode(name, [], { spec: { providerID: `memory://${name}` } });
  cluster.api.create(kinds.Node, aNode("first", ["10.0.0.0/24"]));
  const clock = manualClock();
  await runIpam(cluster, { ...one, cidrAllocatorType: "CloudAllocator" }, { memory, clock });
  cluster.api.create(kinds.Node, machine("node0"));
  await eventually("it has no room", () => messagesOf(cluster, "CIDRNotAvailable", "node0").length > 0);
  await clock.advance(500);
  cluster.api.create(kinds.Node, machine("node1"));
  await eventually("it has no room either", () => messagesOf(cluster, "CIDRNotAvailable", "node1").length > 0);

  const hold = memory.hold("nodeMasks");
  await clock.advance(500);
  await eventually("the cloud is called for the first of them", () => hold.waiting === 1);
  cluster.api.delete(kinds.Node, { name: "first" });
  await eventually("the cloud is called for the other one", () => hold.waiting === 2);
  hold.release();
  const calls = memory.callsOf("nodeMasks").map(({ target }) => target);
  expect(calls).toEqual(["node0", "node1", "node0", "node1"]);
});
