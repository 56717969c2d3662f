import { beforeEach, expect, test } from "bun:test";

import { isUninitialized, kinds, labels, type NodeAddress, taints } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import { defaultOptions } from "../../../host/config/flags/options.ts";
import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { describeOnRealApiServer } from "../../envtest/shared.ts";
import { realRunner } from "../../kit/real.ts";

const addresses: readonly NodeAddress[] = [
  { type: "InternalIP", address: "10.240.0.4" },
  { type: "InternalIP", address: "fd00::4" },
];
const hostname: NodeAddress = { type: "Hostname", address: "node0" };

describeOnRealApiServer("cloud-node-controller on a real API server", (cluster) => {
  beforeEach(() => cluster.cleanSlate());

  test("initializes a node with the permissions that it declares, keeps both addresses, and writes nothing more", async () => {
    await using runner = await realRunner(cluster, cloudNode);
    const memory = memoryCloud();
    memory.machines.set("node0", { nodeAddresses: addresses, zone: "z1", region: "r1", instanceType: "small" });
    await cluster.admin.create(kinds.Node, {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "node0", labels: { mine: "too" } },
      spec: { taints: [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }] },
      status: { addresses: [hostname] },
    });
    const clock = manualClock();
    const running = await runner.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    const event = await eventually("the event", async () => {
      const events = await cluster.admin.list(kinds.Event, { namespace: "default" });
      return events.find(({ reason }) => reason === "Synced");
    });
    expect(event.source?.component).toBe("cloud-node-controller");

    const node = await cluster.admin.get(kinds.Node, { name: "node0" });
    expect(isUninitialized(node)).toBe(false);
    expect(node.spec?.providerID).toBe("memory://node0");
    expect(node.metadata?.labels).toMatchObject({
      mine: "too",
      [labels.zone]: "z1",
      [labels.region]: "r1",
      [labels.instanceType]: "small",
    });
    expect(node.status?.addresses).toEqual([...addresses, hostname]);
    const { store } = running.generation.context.informers.of(kinds.Node);
    await eventually("the cache has the addresses", () => store.get("node0")?.status?.addresses?.length === 3);
    const requested = memory.callsOf("instanceMetadata").length;
    await eventually("three more address passes", async () => {
      await clock.advance(defaultOptions.nodeStatusUpdateFrequency);
      return memory.callsOf("instanceMetadata").length > requested + 2;
    });
    expect(runner.writes().map(({ method, status }) => [method, status])).toEqual([
      ["PATCH", 200],
      ["PATCH", 200],
    ]);
  });

  test("sets additional labels on a node without any, and keeps those that another writer sets meanwhile", async () => {
    await using runner = await realRunner(cluster, cloudNode);
    const memory = memoryCloud();
    const additionalLabels = { "example.com/rack": "r1", "example.com/row": "7" };
    for (const name of ["bare", "labeled"]) memory.machines.set(name, { nodeAddresses: addresses, additionalLabels });
    const taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };
    const node = (name: string, labelsOf?: Record<string, string>) =>
      cluster.admin.create(kinds.Node, {
        apiVersion: "v1",
        kind: "Node",
        metadata: { name, ...(labelsOf !== undefined && { labels: labelsOf }) },
        spec: { taints: [taint] },
      });
    await node("bare");
    await node("labeled", { mine: "too" });
    const hold = memory.hold("instanceMetadata");
    await runner.run(cloudNode, { cloud: memory.cloud, flags: { concurrentNodeSyncs: 2 } });
    await eventually("the cloud is asked about both", () => hold.waiting >= 2);
    await cluster.admin.patch(kinds.Node, { name: "labeled" }, "merge", {
      metadata: { labels: { "example.com/rack": "theirs" } },
    });
    hold.release();
    const labelsOf = async (name: string) => {
      const { metadata } = await cluster.admin.get(kinds.Node, { name });
      return metadata?.labels;
    };
    await eventually("both are initialized", async () =>
      (await cluster.admin.list(kinds.Node)).every((each) => !isUninitialized(each)),
    );
    expect(await labelsOf("bare")).toEqual(additionalLabels);
    expect(await labelsOf("labeled")).toEqual({ ...additionalLabels, mine: "too", "example.com/rack": "theirs" });
  });

  test("restores a manually changed label from its beta counterpart", async () => {
    await using runner = await realRunner(cluster, cloudNode);
    await cluster.admin.create(kinds.Node, {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "node0", labels: { [labels.zoneBeta]: "z1", [labels.zone]: "moon" } },
    });
    await runner.run(cloudNode, { cloud: memoryCloud().cloud });
    await eventually("the label is back", async () => {
      const node = await cluster.admin.get(kinds.Node, { name: "node0" });
      return node.metadata?.labels?.[labels.zone] === "z1";
    });
  });
});
