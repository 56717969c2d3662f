import { expect, test } from "bun:test";

import { kinds, type KubeObject, labels, taints } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";

const uninitialized = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };

/** A running controller with one initialized node; `add` creates a further one. */
async function start() {
  const cluster = await TestCluster.start();
  const memory = memoryCloud();
  const add = async (name: string, more: object = {}): Promise<KubeObject> => {
    memory.machines.set(name, { nodeAddresses: [{ type: "InternalIP", address: "10.240.0.4" }] });
    return cluster.admin.create(kinds.Node, { metadata: { name }, ...more });
  };
  await add("node0");
  await cluster.run(cloudNode, { cloud: memory.cloud });
  await eventually("the node is looked at", () => cluster.worked("Nodes", 1));
  /** Changes reach the controller in order: those before the creation of this node have done so. */
  const delivered = async (name: string, times: number): Promise<void> => {
    await add(name);
    await eventually("a later node is looked at", () => cluster.worked("Nodes", times));
  };
  return { cluster, add, delivered, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
}

test("a status report of an initialized node is not queued, and a change of its labels is", async () => {
  await using lab = await start();
  const { cluster } = lab;
  const at = "2026-11-20T18:31:44Z";
  const status = { conditions: [{ type: "Ready", status: "True", lastHeartbeatTime: at }] };
  await cluster.admin.patch(kinds.Node, { name: "node0" }, "strategic", { status }, { subresource: "status" });
  await lab.delivered("node1", 2);
  expect(await cluster.worked("Nodes", 3)).toBe(false);
  await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", {
    metadata: { labels: { [labels.regionBeta]: "westeurope" } },
  });
  const region = () => cluster.api.get(kinds.Node, { name: "node0" })?.metadata?.labels?.[labels.region];
  await eventually("the stable label follows", () => region() === "westeurope");
});

test("a node that gets the taint again is initialized again", async () => {
  await using lab = await start();
  const { cluster } = lab;
  await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { spec: { taints: [uninitialized] } });
  const taintsNow = () => cluster.api.get(kinds.Node, { name: "node0" })?.spec?.taints ?? [];
  await eventually("the taint is removed", () => taintsNow().length === 0);
});
