import { describe, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { TestCluster } from "../../../kit/harness.ts";
import { warningLines } from "../../../kit/warnings.ts";
import { aNode, clientOf, giveAs, given, podCIDRsOf, podCIDRWrites, runIpam } from "../nodes.ts";

const flags = { clusterCidr: "10.0.0.0/16" };
const kcm = "kube-controller-manager";

/** With a second's fraction in six digits, as leases have it. */
const at = (agoMs: number): string => new Date(Date.now() - agoMs).toISOString().replace("Z", "000Z");
const minute = 60_000;

async function holdLease(
  cluster: TestCluster,
  {
    acquiredAgo = 10 * minute,
    renewedAgo = 0,
    holderIdentity = "master-0_1",
  }: { acquiredAgo?: number; renewedAgo?: number; holderIdentity?: string } = {},
): Promise<void> {
  const spec = { holderIdentity, acquireTime: at(acquiredAgo), renewTime: at(renewedAgo) };
  const metadata = { name: kcm, namespace: "kube-system" };
  await clientOf(cluster, kcm).patch(kinds.Lease, metadata, "apply", {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata,
    spec,
  });
}

const suspended = (cluster: TestCluster) => cluster.metric("node_ipam_controller_allocation_suspended");

describe("beside kube-controller-manager", () => {
  test("allocates no CIDRs beside kube-controller-manager that does, reports that, and resumes once the other is reconfigured", async () => {
    await using cluster = await TestCluster.start();
    await holdLease(cluster);
    await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
    cluster.api.create(kinds.Node, aNode("node0"));
    const clock = { ...manualClock(), now: () => Date.now() };
    const { controller } = await runIpam(cluster, flags, { clock });
    const [reason] = await eventually("it is suspended", () => {
      const warnings = warningLines(controller);
      return warnings.length > 0 && warnings;
    });
    expect(reason).toContain(`Pod CIDR allocation is suspended: ${kcm} allocates pod CIDRs too (node theirs)`);
    expect(reason).toContain("--allocate-node-cidrs=false");
    expect(cluster.log.join("\n")).toContain("Pod CIDR allocation is suspended");
    const event = await eventually("the event", () => cluster.event("OtherCIDRAllocator"));
    expect(event).toMatchObject({ type: "Warning", involvedObject: { name: "theirs" }, message: reason });
    expect(await suspended(cluster)).toBe(1);
    expect("check" in controller).toBe(false);
    expect(podCIDRsOf(cluster, "node0")).toBeUndefined();

    // The same process holds the lease still: nothing has changed.
    const reads = () =>
      cluster.sent({ method: "GET", path: `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/${kcm}` });
    await clock.advance(minute);
    await eventually("it checks again", () => reads().length === 2 && reads()[1]?.status === 200);
    expect(podCIDRsOf(cluster, "node0")).toBeUndefined();

    await holdLease(cluster, { acquiredAgo: 0 });
    await eventually("it begins", async () => {
      await clock.advance(minute);
      return podCIDRsOf(cluster, "node0");
    });
    expect(podCIDRsOf(cluster, "node0")).toEqual(["10.0.1.0/24"]);
    expect(warningLines(controller)).toEqual([]);
  });

  for (const [name, prepare] of [
    ["that runs and allocates no CIDRs", (cluster: TestCluster) => holdLease(cluster)],
    [
      "that allocated CIDRs before its restart",
      async (cluster: TestCluster) => {
        await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
        await holdLease(cluster, { acquiredAgo: 0 });
      },
    ],
    [
      "whose lease has expired",
      async (cluster: TestCluster) => {
        await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
        await holdLease(cluster, { renewedAgo: 6 * minute });
      },
    ],
    [
      "that has released its lease",
      async (cluster: TestCluster) => {
        await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
        await holdLease(cluster, { holderIdentity: "" });
      },
    ],
    [
      "whose node is hardly younger than its lease",
      async (cluster: TestCluster) => {
        await holdLease(cluster, { acquiredAgo: 30_000 });
        await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
      },
    ],
    [
      "when another program set the CIDRs",
      async (cluster: TestCluster) => {
        await giveAs(cluster, "node-controller", "theirs", "10.0.0.0/24");
        await holdLease(cluster);
      },
    ],
    ["that does not exist", async () => undefined],
    [
      "whose lease it is forbidden to read",
      async (cluster: TestCluster) => {
        cluster.api.faults.add({ match: { verb: "get", resource: "leases" }, effect: { status: 403 }, times: 1_000 });
      },
    ],
  ] as const)
    test(`${name} it allocates`, async () => {
      await using cluster = await TestCluster.start();
      await prepare(cluster);
      cluster.api.create(kinds.Node, aNode("node0"));
      const { controller } = await runIpam(cluster, flags);
      await given(cluster, "node0");
      expect(warningLines(controller)).toEqual([]);
    });

  test("allocates no CIDRs beside kube-controller-manager until its lease can be read", async () => {
    await using cluster = await TestCluster.start();
    await holdLease(cluster);
    await giveAs(cluster, kcm, "theirs", "10.0.0.0/24");
    cluster.api.create(kinds.Node, aNode("node0"));
    const unreadable = cluster.api.faults.add({
      match: { verb: "get", resource: "leases", userAgent: "node-controller" },
      effect: { status: 500 },
      times: Number.POSITIVE_INFINITY,
    });
    const clock = { ...manualClock(), now: () => Date.now() };
    const { controller } = await runIpam(cluster, flags, { clock });
    await eventually("it is suspended", async () => (await suspended(cluster)) === 1);
    expect(controller.warnings?.()).toEqual([
      { kind: "AllocationSuspended", text: expect.stringContaining(`Failed to read the lease of ${kcm}`) },
    ]);
    unreadable.remove();
    await eventually("the other is found", async () => {
      await clock.advance(30_000);
      return warningLines(controller)[0]?.includes("allocates pod CIDRs too");
    });
    expect(podCIDRsOf(cluster, "node0")).toBeUndefined();
  });
});

const cloudFlags = { ...flags, cidrAllocatorType: "CloudAllocator" };
const withID = (name: string) => aNode(name, [], { spec: { providerID: `memory://${name}` } });

/** Runs the controller with nodes that wait: they have no provider ID. */
async function runWithWaiting(cluster: TestCluster, names: readonly string[], clock = manualClock()) {
  for (const name of names) await cluster.admin.create(kinds.Node, aNode(name));
  const { controller } = await runIpam(cluster, cloudFlags, { clock });
  await eventually("all have been synced", () => cluster.worked("node-ipam", names.length));
  return { controller, clock };
}

describe("another writer of the CIDRs of a node that waited for ours", () => {
  test("only that node is quarantined; event, log and /statusz name the writer, and other nodes get theirs", async () => {
    await using cluster = await TestCluster.start();
    const { controller } = await runWithWaiting(cluster, ["node0"]);
    await giveAs(cluster, "kubectl-edit", "node0", "10.0.7.0/24");
    const event = await eventually("the event", () => cluster.event("OtherCIDRAllocator"));
    expect(event).toMatchObject({ type: "Warning", involvedObject: { name: "node0" } });
    expect(event.message).toContain("10.0.7.0/24 was set by kubectl-edit");
    expect(warningLines(controller)).toEqual([expect.stringContaining("by another writer")]);
    expect(cluster.log.some((line) => line.includes("kubectl-edit"))).toBe(true);
    expect(await suspended(cluster)).toBe(0);
    await cluster.admin.create(kinds.Node, withID("node1"));
    expect(await given(cluster, "node1")).toEqual(["10.0.0.0/24"]);

    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await eventually("the warning ends with the node", () => warningLines(controller).length === 0);
  });

  test("a late write of our predecessor is not reported as another writer", async () => {
    await using cluster = await TestCluster.start();
    const { controller } = await runWithWaiting(cluster, ["node0", "node1", "node2"]);
    for (const [index, name] of ["node0", "node1", "node2"].entries())
      await giveAs(cluster, "cloud-controller-manager", name, `10.0.${index + 7}.0/24`);
    await eventually("all have been read", () =>
      ["node0", "node1", "node2"].every(
        (name) => cluster.sent({ method: "GET", path: `/api/v1/nodes/${name}` }).length,
      ),
    );
    await cluster.admin.create(kinds.Node, withID("node3"));
    expect(await given(cluster, "node3")).toEqual(["10.0.0.0/24"]);
    expect(warningLines(controller)).toEqual([]);
    expect(cluster.event("OtherCIDRAllocator")).toBeUndefined();
  });

  test("repeatedly, allocation is suspended, and resumes after ten quiet minutes", async () => {
    await using cluster = await TestCluster.start();
    const { controller, clock } = await runWithWaiting(cluster, ["node0", "node1", "node2"]);
    for (const [index, name] of ["node0", "node1", "node2"].entries())
      await giveAs(cluster, "other-ipam", name, `10.0.${index + 7}.0/24`);
    await eventually("it is suspended", async () => (await suspended(cluster)) === 1);
    expect(warningLines(controller)).toEqual([
      expect.stringContaining("Pod CIDR allocation is suspended: other-ipam allocates pod CIDRs too"),
    ]);
    const synced = (await cluster.metric("workqueue_work_duration_seconds_count", { name: "node-ipam" })) ?? 0;
    await cluster.admin.create(kinds.Node, withID("node3"));
    await eventually("the next node is synced", () => cluster.worked("node-ipam", synced + 1));
    expect(podCIDRWrites(cluster).filter(([name]) => name === "node3")).toEqual([]);

    for (let count = 0; count < 12; count++) await clock.advance(minute);
    expect(await given(cluster, "node3")).toEqual(["10.0.0.0/24"]);
    expect(warningLines(controller)).toEqual([]);
    expect(await suspended(cluster)).toBe(0);
  });

  test("repeatedly, allocation resumes when those nodes are deleted", async () => {
    await using cluster = await TestCluster.start();
    await runWithWaiting(cluster, ["node0", "node1", "node2"]);
    for (const [index, name] of ["node0", "node1", "node2"].entries())
      await giveAs(cluster, "other-ipam", name, `10.0.${index + 7}.0/24`);
    await eventually("it is suspended", async () => (await suspended(cluster)) === 1);
    await cluster.admin.create(kinds.Node, withID("node3"));
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    expect(await given(cluster, "node3")).toEqual(["10.0.0.0/24"]);
  });

  test("our write is rejected and its CIDR released when another writer was first and the watch does not show it yet", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const hold = memory.hold("nodeMasks");
    cluster.api.create(kinds.Node, withID("node0"));
    const { controller } = await runIpam(cluster, cloudFlags, { memory });
    await eventually("the cloud is called", () => hold.waiting === 1);
    cluster.api.watches.pause();
    await giveAs(cluster, "kubectl-edit", "node0", "10.0.200.0/24");
    hold.release();
    await eventually("the event", () => cluster.event("OtherCIDRAllocator"));
    expect(podCIDRWrites(cluster).map(([, , status]) => status)).toEqual([200, 422, 422, 422]);
    expect(warningLines(controller)).toEqual([expect.stringContaining("node node0")]);
    const usage = await cluster.metric("node_ipam_controller_cidrset_usage_cidrs", { clusterCIDR: "10.0.0.0/16" });
    expect(usage).toBe(1 / 256);
  });

  test("nothing is reported when another writer sets the CIDRs of a node at its creation", async () => {
    await using cluster = await TestCluster.start();
    const { controller } = await runIpam(cluster, flags);
    cluster.api.create(kinds.Node, aNode("node0", ["10.0.0.0/24"]));
    cluster.api.create(kinds.Node, aNode("node1"));
    expect(await given(cluster, "node1")).toEqual(["10.0.1.0/24"]);
    expect(warningLines(controller)).toEqual([]);
  });
});
