import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { controllerHarness, TestCluster } from "cloud-controller-host/sandbox";
import { findStatusCondition, isControlledBy, kinds } from "cloud-controller-host/sdk";
import { controllerConformance, type CreateWork, eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import plugin, { nodePools, poolLabel } from "./plugin.ts";

// Longer than the limit of `eventually`, whose error names what did not happen.
setDefaultTimeout(60_000);

const listOfBlue = { namespace: "default", name: "pool-blue" };

async function startWithPool(...nodes: readonly string[]): Promise<TestCluster> {
  const cluster = await TestCluster.start();
  await cluster.run(plugin, { cloud: memoryCloud().cloud });
  for (const name of nodes)
    await cluster.admin.create(kinds.Node, { metadata: { name, labels: { [poolLabel]: "blue" } } });
  await cluster.admin.create(nodePools, { metadata: { name: "blue" } });
  return cluster;
}

const blue = (cluster: TestCluster) => cluster.api.get(nodePools, { name: "blue" });
const nodesInList = (cluster: TestCluster) => cluster.api.get(kinds.ConfigMap, listOfBlue)?.data?.["nodes"];

test("lists the nodes of a pool in a ConfigMap that the pool controls, under its own field manager", async () => {
  await using cluster = await startWithPool("a", "b");
  await eventually("both are listed", () => nodesInList(cluster) === "a b");
  const list = cluster.api.get(kinds.ConfigMap, listOfBlue);
  expect(isControlledBy(list ?? {}, blue(cluster) ?? {})).toBe(true);
  expect(list?.metadata?.managedFields?.map(({ manager, operation }) => `${manager} ${operation}`)).toEqual([
    "node-pools Apply",
  ]);
});

test("sets the condition once, and its time changes with the status alone", async () => {
  await using cluster = await startWithPool("a");
  const ready = () => findStatusCondition(blue(cluster)?.status?.conditions, "Ready");
  const first = await eventually("it is ready", () => ready()?.status === "True" && ready());
  await cluster.admin.create(kinds.Node, { metadata: { name: "b", labels: { [poolLabel]: "blue" } } });
  await eventually("the second is counted", () => blue(cluster)?.status?.nodes === "a b");
  expect(ready()).toEqual(first);
});

test("removes the label from the nodes of a deleted pool before the pool is gone", async () => {
  await using cluster = await startWithPool("a");
  await eventually("the pool has its finalizer", () => blue(cluster)?.metadata?.finalizers?.length === 1);
  await eventually("the node is listed", () => nodesInList(cluster) === "a");
  await cluster.admin.delete(nodePools, { name: "blue" });
  await eventually("the pool is gone", () => blue(cluster) === undefined);
  expect(cluster.api.get(kinds.Node, { name: "a" })?.metadata?.labels?.[poolLabel]).toBeUndefined();
});

test("a heartbeat of a node causes no work, and the watch of nodes brings only their metadata", async () => {
  await using cluster = await startWithPool("a");
  await eventually("the pool is reported", () => blue(cluster)?.status?.nodes === "a");
  const before = cluster.writes().length;
  const status = { conditions: [{ type: "Ready", status: "True" }] };
  await cluster.admin.patch(kinds.Node, { name: "a" }, "merge", { status }, { subresource: "status" });
  await cluster.admin.create(nodePools, { metadata: { name: "empty" } });
  await eventually(
    "a later change is handled",
    () => cluster.api.get(nodePools, { name: "empty" })?.status?.nodes === "",
  );
  const writesToBlue = cluster
    .writes()
    .slice(before)
    .filter(({ path }) => path.endsWith("blue"));
  expect(writesToBlue).toEqual([]);
});

const work: CreateWork = async ({ admin, round }) => {
  await admin.create(kinds.Node, { metadata: { name: `n-${round}`, labels: { [poolLabel]: `p-${round}` } } });
  await admin.create(nodePools, { metadata: { name: `p-${round}` } });
};

describe("controller conformance", () => {
  for (const { name, run } of controllerConformance(plugin, controllerHarness(), { work })) test(name, run);
});
