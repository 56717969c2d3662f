import { describe, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { TestCluster } from "../../../kit/harness.ts";
import { aNode, clientOf, giveAs, given, podCIDRsOf, podCIDRWrites, runIpam } from "../nodes.ts";

const flags = { clusterCidr: "10.0.0.0/16" };
const kcm = "kube-controller-manager";

/** With a second's fraction in six digits, as leases have it. */
const at = (agoMs: number): string => new Date(Date.now() - agoMs).toISOString().replace("Z", "000Z");
const minute = 60_000;

async function holdLease(
  cluster: TestCluster,
  { acquiredAgo = 10 * minute, renewedAgo = 0 }: { acquiredAgo?: number; renewedAgo?: number } = {},
): Promise<void> {
  const spec = { holderIdentity: "master-0_1", acquireTime: at(acquiredAgo), renewTime: at(renewedAgo) };
  const metadata = { name: kcm, namespace: "kube-system" };
  await clientOf(cluster, kcm).patch(kinds.Lease, metadata, "apply", {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata,
    spec,
  });
}

function reasonOf(check: (() => unknown) | undefined): string | undefined {
  try {
    check?.();
    return undefined;
  } catch (error) {
    return String(error);
  }
}

describe("beside kube-controller-manager", () => {
  test("that gives CIDRs to nodes it gives none, says so, and begins when the other has been told not to", async () => {
    await using cluster = await TestCluster.start();
    await holdLease(cluster);
    await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
    cluster.api.create(kinds.Node, aNode("node0"));
    const clock = { ...manualClock(), now: () => Date.now() };
    const { controller } = await runIpam(cluster, flags, { clock });
    const reason = await eventually("it stands aside", () => reasonOf(() => controller.check?.()));
    expect(reason).toContain(
      `no node is given pod CIDRs: ${kcm} gives CIDRs to nodes, the last that was seen is theirs`,
    );
    expect(reason).toContain("--allocate-node-cidrs=false");
    expect(cluster.log.join("\n")).toContain("no node is given pod CIDRs");
    expect(podCIDRsOf(cluster, "node0")).toBeUndefined();

    // The same process holds the lease still: nothing has changed.
    const asked = () =>
      cluster.sent({ method: "GET", path: `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/${kcm}` });
    await clock.advance(minute);
    await eventually("it looks again", () => asked().length === 2 && asked()[1]?.status === 200);
    expect(podCIDRsOf(cluster, "node0")).toBeUndefined();

    await holdLease(cluster, { acquiredAgo: 0 });
    await eventually("it begins", async () => {
      await clock.advance(minute);
      return podCIDRsOf(cluster, "node0");
    });
    expect(podCIDRsOf(cluster, "node0")).toEqual(["10.0.1.0/24"]);
    expect(reasonOf(() => controller.check?.())).toBeUndefined();
  });

  for (const [name, prepare] of [
    ["that is there and gives no CIDRs", (cluster: TestCluster) => holdLease(cluster)],
    [
      "that gave CIDRs before it was restarted",
      async (cluster: TestCluster) => {
        await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
        await holdLease(cluster, { acquiredAgo: 0 });
      },
    ],
    [
      "whose lease nobody renews any more",
      async (cluster: TestCluster) => {
        await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
        await holdLease(cluster, { renewedAgo: 6 * minute });
      },
    ],
    [
      "where others than it gave the CIDRs",
      async (cluster: TestCluster) => {
        await giveAs(cluster, "node-controller", "theirs", "10.0.0.0/24");
        await holdLease(cluster);
      },
    ],
    ["of which nothing is known", async () => undefined],
    [
      "whose lease may not be read",
      async (cluster: TestCluster) => {
        cluster.api.faults.add({ match: { verb: "get", resource: "leases" }, effect: { status: 403 } });
      },
    ],
  ] as const)
    test(`${name} it does its work`, async () => {
      await using cluster = await TestCluster.start();
      await prepare(cluster);
      cluster.api.create(kinds.Node, aNode("node0"));
      const { controller } = await runIpam(cluster, flags);
      await given(cluster, "node0");
      expect(reasonOf(() => controller.check?.())).toBeUndefined();
    });
});

describe("when a node that waited has CIDRs of somebody else", () => {
  test("no further node is given any, and the node, the log and the health check say why", async () => {
    await using cluster = await TestCluster.start();
    // A node without provider ID waits.
    const cloudFlags = { ...flags, cidrAllocatorType: "CloudAllocator" };
    const node0 = await cluster.admin.create(kinds.Node, aNode("node0"));
    const { controller } = await runIpam(cluster, cloudFlags);
    await eventually("it is looked at", () => cluster.worked("node-ipam", 1));
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", {
      spec: { podCIDR: "10.0.7.0/24", podCIDRs: ["10.0.7.0/24"] },
    });
    const event = await eventually("it is told", () => cluster.event("SecondCIDRAllocator"));
    expect(event).toMatchObject({ type: "Warning", involvedObject: { name: "node0", uid: node0.metadata?.uid } });
    expect(event.message).toContain("somebody else has given 10.0.7.0/24 to node node0");
    expect(reasonOf(() => controller.check?.())).toContain("somebody else has given 10.0.7.0/24 to node node0");

    const looked = (await cluster.metric("workqueue_work_duration_seconds_count", { name: "node-ipam" })) ?? 0;
    await cluster.admin.create(kinds.Node, aNode("node1", [], { spec: { providerID: "memory://node1" } }));
    await eventually("the next node is looked at", () => cluster.worked("node-ipam", looked + 1));
    expect(cluster.writes()).toEqual([]);
  });

  test("before the watch has told it, ours are refused and taken back", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const hold = memory.hold("nodeMasks");
    cluster.api.create(kinds.Node, aNode("node0", [], { spec: { providerID: "memory://node0" } }));
    const { controller } = await runIpam(cluster, { ...flags, cidrAllocatorType: "CloudAllocator" }, { memory });
    await eventually("the cloud is asked", () => hold.waiting === 1);
    cluster.api.watches.pause();
    await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", {
      spec: { podCIDR: "10.0.200.0/24", podCIDRs: ["10.0.200.0/24"] },
    });
    hold.release();
    await eventually("it is told", () => cluster.event("SecondCIDRAllocator"));
    expect(podCIDRWrites(cluster).map(([, , status]) => status)).toEqual([422, 422, 422]);
    expect(reasonOf(() => controller.check?.())).toContain("somebody else has given 10.0.200.0/24 to node node0");
    const usage = await cluster.metric("node_ipam_controller_cidrset_usage_cidrs", { clusterCIDR: "10.0.0.0/16" });
    expect(usage).toBe(1 / 256);
  });

  test("that it had when it came, all goes on", async () => {
    await using cluster = await TestCluster.start();
    const { controller } = await runIpam(cluster, flags);
    cluster.api.create(kinds.Node, aNode("node0", ["10.0.0.0/24"]));
    cluster.api.create(kinds.Node, aNode("node1"));
    expect(await given(cluster, "node1")).toEqual(["10.0.1.0/24"]);
    expect(reasonOf(() => controller.check?.())).toBeUndefined();
  });
});
