import { expect, setDefaultTimeout, test } from "bun:test";

import { isUninitialized, kinds, labelOf, labels, type Node } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { createNode, joinNodes } from "../kit/azure.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { describeOnBoth } from "../kit/platform.ts";

setDefaultTimeout(120_000);

describeOnBoth("nodes", (platform) => {
  const lab = new HostLab(platform);

  test("nodes that are tainted are initialized from Azure: providerID, labels, addresses, and the taint is removed", async () => {
    const { admin } = platform();
    const names = await joinNodes(admin, await lab.azure(), 3);
    const host = await lab.start();
    for (const [index, name] of names.entries()) {
      const node = await host.eventually(`${name} is initialized`, async () => {
        const found: Node = await admin.get(kinds.Node, { name });
        return (found.status?.addresses?.length ?? 0) > 1 && found;
      });
      expect(isUninitialized(node)).toBe(false);
      expect(node.spec?.providerID).toMatch(
        new RegExp(
          `^azure:///subscriptions/[^/]+/resourceGroups/[a-z0-9-]+/providers/Microsoft.Compute/virtualMachineScaleSets/[^/]+/virtualMachines/${index}$`,
        ),
      );
      for (const label of [labels.zone, labels.zoneBeta]) expect(labelOf(node, label)).toMatch(/^[a-z0-9]+-\d$/);
      for (const label of [labels.region, labels.regionBeta]) expect(labelOf(node, label)).toMatch(/^[a-z0-9]+$/);
      for (const label of [labels.instanceType, labels.instanceTypeBeta])
        expect(labelOf(node, label)).toMatch(/^Standard_/);
      expect(node.status?.addresses?.map(({ type }) => type)).toEqual(["InternalIP", "Hostname"]);
    }
    await host.eventually("each node has its event", async () => {
      const events = await admin.list(kinds.Event);
      return names.every((name) =>
        events.some(
          ({ reason, message, involvedObject }) =>
            reason === "Synced" && message === "Node synced successfully" && involvedObject.name === name,
        ),
      );
    });
  });

  test("nodes that are not tainted are not changed", async () => {
    const { admin } = platform();
    const azure = await lab.azure();
    const [bystander = ""] = await joinNodes(admin, azure, 1, (node) => ({ ...node, spec: {} }));
    const before: Node = await admin.get(kinds.Node, { name: bystander });
    const host = await lab.start();
    const [waiting = ""] = await joinNodes(admin, azure, 1);
    await host.eventually("the tainted node beside it is initialized", async () => {
      const node: Node = await admin.get(kinds.Node, { name: waiting });
      return !isUninitialized(node);
    });
    const after: Node = await admin.get(kinds.Node, { name: bystander });
    expect(after.spec).toEqual(before.spec);
    expect(after.metadata?.labels).toEqual(before.metadata?.labels);
    // Its addresses are followed, as those of every initialized node are.
    expect(after.spec?.providerID).toBeUndefined();
  });

  test("nodes that Azure does not know stay tainted, and delay no other node", async () => {
    const { admin } = platform();
    await createNode(admin, freshNode("stranger00000z", new Date()));
    const [known = ""] = await joinNodes(admin, await lab.azure(), 1);
    const host = await lab.start();
    await host.eventually("the known node is initialized", async () => {
      const node: Node = await admin.get(kinds.Node, { name: known });
      return !isUninitialized(node);
    });
    const stranger: Node = await admin.get(kinds.Node, { name: "stranger00000z" });
    expect(isUninitialized(stranger)).toBe(true);
    expect(stranger.spec?.providerID).toBeUndefined();
    expect(host.lines("stranger00000z").join("\n")).toContain("not found");
  });
});
