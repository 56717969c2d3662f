import { expect, setDefaultTimeout, test } from "bun:test";

import {
  isNotFound,
  isUninitialized,
  kinds,
  type KubeEvent,
  labels,
  type Node,
  taints,
  taintsOf,
} from "cloud-controller-host/sdk";

import { serveCloud, type ServedCloud } from "../kit/cloud-server.ts";
import { startControllers } from "../kit/controllers-host.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { getNode, joinNode, loseMachine, setReady } from "../kit/kubelet.ts";
import { describeOnReal, writesAmong } from "../kit/platform.ts";

setDefaultTimeout(180_000);

describeOnReal("nodes under all controllers", (platform) => {
  const lab = new HostLab(platform);
  const node = (name: string): Promise<Node> => getNode(platform().admin, name);
  const eventsOf = async (name: string, reason: string): Promise<readonly KubeEvent[]> =>
    (await platform().admin.list(kinds.Event)).filter(
      (event) => event.reason === reason && event.involvedObject.name === name,
    );

  /** A cloud with nodes that have all that they are owed, and the host that saw to it. */
  async function cluster(names: readonly string[], flags: readonly string[] = []) {
    const cloud = lab.use(await serveCloud());
    for (const name of names) await joinNode(platform().admin, cloud.memory, name);
    const host = await startControllers(lab, platform(), cloud, { flags });
    for (const name of names) await settled(host, cloud, name);
    return { cloud, host };
  }

  const settled = (host: HostProcess, cloud: ServedCloud, name: string): Promise<Node> =>
    host.eventually(`${name} has all that it is owed`, async () => {
      const found = await node(name);
      const routed = found.status?.conditions?.some(
        ({ type, status, reason }) => type === "NetworkUnavailable" && status === "False" && reason === "RouteCreated",
      );
      const cidr = found.spec?.podCIDR;
      const routes = [...cloud.memory.routes.values()].filter(
        ({ targetNode, destinationCIDR }) => targetNode === name && destinationCIDR === cidr,
      );
      return !isUninitialized(found) && routed === true && routes.length === 1 && found;
    });

  test("nodes under all controllers that join are initialized, and get a Pod CIDR, a route and a NetworkUnavailable=False condition", async () => {
    const { cloud, host } = await cluster(["node-1", "node-2"]);
    await joinNode(platform().admin, cloud.memory, "node-3");
    await settled(host, cloud, "node-3");

    const found = await Promise.all(["node-1", "node-2", "node-3"].map(node));
    expect(found.map(({ spec }) => spec?.providerID)).toEqual([
      "test-cloud://node-1",
      "test-cloud://node-2",
      "test-cloud://node-3",
    ]);
    expect(new Set(found.map(({ spec }) => spec?.podCIDR)).size).toBe(3);
    expect(found[2]?.metadata?.labels).toMatchObject({
      [labels.region]: "north",
      [labels.regionBeta]: "north",
      [labels.zone]: "north-1",
      [labels.zoneBeta]: "north-1",
      [labels.instanceType]: "large",
      [labels.instanceTypeBeta]: "large",
    });
    expect(found[2]?.status?.addresses).toEqual([
      { type: "InternalIP", address: "10.240.0.3" },
      { type: "Hostname", address: "node-3" },
    ]);
    await host.eventually("its event is there", async () => (await eventsOf("node-3", "Synced")).length === 1);
  });

  test("nodes under all controllers that change get the cloud's addresses and their labels again", async () => {
    const { cloud, host } = await cluster(["node-1"]);
    const machine = cloud.memory.machines.get("node-1");
    cloud.memory.machines.set("node-1", {
      ...machine,
      nodeAddresses: [
        { type: "InternalIP", address: "10.240.9.9" },
        { type: "InternalIP", address: "fd00::9" },
        { type: "Hostname", address: "node-1" },
      ],
    });
    await platform().admin.patch(kinds.Node, { name: "node-1" }, "merge", {
      metadata: { labels: { [labels.zone]: "wrong", mine: "kept" } },
    });
    await host.eventually("label and addresses are back", async () => {
      const { metadata, status } = await node("node-1");
      return metadata?.labels?.[labels.zone] === "north-2" && status?.addresses?.length === 3;
    });
    const { metadata, status } = await node("node-1");
    expect(metadata?.labels?.["mine"]).toBe("kept");
    expect(status?.addresses?.map(({ address }) => address)).toEqual(["10.240.9.9", "fd00::9", "node-1"]);
  });

  test("nodes under all controllers that become NotReady while their instance runs are kept", async () => {
    const { cloud, host } = await cluster(["node-1", "node-2"]);
    await setReady(platform().admin, "node-1", "Unknown");
    const mark = await platform().mark();
    const requested = (): number => cloud.memory.callsOf("instanceShutdown").length;
    const before = requested();
    await host.eventually("the cloud has been asked again and again", () => requested() > before + 3);
    expect(writesAmong(await platform().requests(mark))).toEqual([]);
    const found = await node("node-1");
    expect(taintsOf(found)).toEqual([]);
    expect(cloud.memory.routes.size).toBe(2);
  });

  test("nodes under all controllers whose instance is shut down carry the taint until they are ready again", async () => {
    const { cloud, host } = await cluster(["node-1", "node-2"]);
    const machine = cloud.memory.machines.get("node-1");
    cloud.memory.machines.set("node-1", { ...machine, shutdown: true });
    await setReady(platform().admin, "node-1", "Unknown");
    await host.eventually("it is tainted", async () =>
      taintsOf(await node("node-1")).some(({ key, effect }) => key === taints.shutdown && effect === "NoSchedule"),
    );
    cloud.memory.machines.set("node-1", { ...machine });
    await setReady(platform().admin, "node-1", "True");
    await host.eventually("the taint is gone", async () => taintsOf(await node("node-1")).length === 0);
    expect((await node("node-2")).spec?.taints).toBeUndefined();
  });

  test("nodes under all controllers whose instance no longer exists are deleted with their route, and their Pod CIDR is released", async () => {
    const { cloud, host } = await cluster(["node-1", "node-2"], ["--cluster-cidr=10.244.0.0/23"]);
    await joinNode(platform().admin, cloud.memory, "node-3");
    await host.eventually("the CIDRs are exhausted", async () =>
      (await eventsOf("node-3", "CIDRNotAvailable")).some(({ type }) => type === "Normal"),
    );
    const freed = (await node("node-1")).spec?.podCIDR ?? "";
    await loseMachine(platform().admin, cloud.memory, "node-1");
    await host.eventually("the node is deleted", async () =>
      node("node-1").then(
        () => false,
        (error: unknown) => isNotFound(error),
      ),
    );
    const heir = await settled(host, cloud, "node-3");
    expect(heir.spec?.podCIDR).toBe(freed);
    expect([...cloud.memory.routes.values()].map(({ targetNode }) => targetNode).toSorted()).toEqual([
      "node-2",
      "node-3",
    ]);
    await host.eventually("the event is recorded", async () => (await eventsOf("node-1", "DeletingNode")).length === 1);
    expect(cloud.overlaps).toEqual([]);
  });
});
