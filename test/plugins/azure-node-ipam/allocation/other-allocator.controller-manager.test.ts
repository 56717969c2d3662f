import { beforeEach, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { findControllerManager, leaseName } from "../../../../plugins/azure-node-ipam/allocation/other-allocator.ts";
import { writePodCidrs } from "../../../../plugins/azure-node-ipam/nodes/patch.ts";
import { describeOnRealApiServer } from "../../../envtest/shared.ts";
import { aNode } from "../nodes.ts";

const named = (name: string) => ({ metadata: { name } });
const never = new AbortController().signal;
const clock = { ...manualClock(), now: () => Date.now() };
/** Of an object that was made empty the API server remembers no owners; a kubelet's node has labels. */
const likeAKubelets = { metadata: { labels: { "kubernetes.io/os": "linux" } } };

describeOnRealApiServer("allocation at a real API server", (cluster) => {
  beforeEach(() => cluster.cleanSlate());

  const sign = async () =>
    findControllerManager({ client: cluster.admin, clock }, await cluster.admin.list(kinds.Node), never);

  test("detects an allocating kube-controller-manager by its lease and the field managers of a node's CIDRs, and keeps those CIDRs", async () => {
    await using manager = await cluster.startKubeControllerManager({
      controllers: ["node-ipam-controller"],
      flags: ["--leader-elect=true", "--allocate-node-cidrs=true", "--cluster-cidr=10.9.0.0/16"],
    });
    await cluster.admin.create(kinds.Node, aNode("node0", [], likeAKubelets));
    const given = await eventually("it gives CIDRs", async () => {
      if (manager.exitCode() !== undefined) throw new Error(await manager.lastWords());
      return (await cluster.admin.get(kinds.Node, { name: "node0" })).spec?.podCIDRs;
    });
    // The node is hardly younger than the lease, which the clocks of two machines could not tell apart.
    expect(await sign()).toBeUndefined();
    const spec = { acquireTime: new Date(Date.now() - 600_000).toISOString().replace("Z", "000Z") };
    await cluster.admin.patch(kinds.Lease, leaseName, "merge", { spec });
    expect((await sign())?.reason).toContain("kube-controller-manager allocates pod CIDRs too (node node0)");

    expect(await writePodCidrs(cluster.admin, named("node0"), ["10.9.7.0/24"], never)).toMatchObject({
      result: "refused",
    });
    expect(await writePodCidrs(cluster.admin, named("node0"), given, never)).toMatchObject({ result: "written" });
    expect(await writePodCidrs(cluster.admin, named("node1"), given, never)).toEqual({ result: "gone" });
  });

  test("assigns CIDRs of both families in one write, which can be repeated", async () => {
    const cidrs = ["10.9.9.0/24", "2001:db8::/64"];
    await cluster.admin.create(kinds.Node, aNode("node2", [], likeAKubelets));
    for (let count = 0; count < 2; count++)
      expect(await writePodCidrs(cluster.admin, named("node2"), cidrs, never)).toMatchObject({
        result: "written",
        node: { spec: { podCIDR: "10.9.9.0/24", podCIDRs: cidrs } },
      });
  });
});
