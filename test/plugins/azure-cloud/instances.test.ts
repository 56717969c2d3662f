import { describe, expect, test } from "bun:test";

import { InstanceNotFoundError } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { countOf, errorOf, instanceID, nodeOf, openWorld } from "./world.ts";

const instanceList = "/vmss0/virtualMachines";
const interfaceList = "/vmss0/networkInterfaces";

describe("what is told of an instance (TestInstanceMetadata)", () => {
  test("two thousand nodes are initialised with no more than forty requests to Azure", async () => {
    await using world = await openWorld();
    const machines = await world.simulator.addInstances(2_000);
    await using cloud = await world.create();
    const found = await Promise.all(machines.map(({ nodeName }) => cloud.instances.instanceMetadata(nodeOf(nodeName))));
    expect(new Set(found.map((metadata) => metadata?.providerID)).size).toBe(2_000);
    expect(world.simulator.requests().length).toBeLessThanOrEqual(40);
    expect(found[37]).toEqual({
      providerID: instanceID(37),
      instanceType: "Standard_D2s_v3",
      nodeAddresses: [
        { type: "InternalIP", address: "10.240.0.41" },
        { type: "Hostname", address: "vmss0000011" },
      ],
      zone: "eastus-2",
      region: "eastus",
    });
    expect(countOf(world.simulator, instanceList)).toBe(17);
    expect(countOf(world.simulator, interfaceList)).toBe(17);
  });

  test("the public address comes last, and public addresses are listed once for all nodes", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSetInstances("vmss0", 3, { publicIP: "52.0.0.9" });
    await using cloud = await world.create();
    const names = ["vmss0000000", "vmss0000001", "vmss0000002"];
    const found = await Promise.all(names.map((name) => cloud.instances.instanceMetadata(nodeOf(name))));
    expect(found[1]?.nodeAddresses).toEqual([
      { type: "InternalIP", address: "10.240.0.5" },
      { type: "Hostname", address: "vmss0000001" },
      { type: "ExternalIP", address: "52.0.0.9" },
    ]);
    expect(countOf(world.simulator, "/vmss0/publicIPAddresses")).toBe(1);
  });

  test("public addresses are not asked for where no interface has one", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(0);
  });

  test("of a dual-stack machine only the primary, IPv4 address is told", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "dual", dualStack: true });
    world.simulator.addScaleSetInstances("dual", 1);
    await using cloud = await world.create();
    const metadata = await cloud.instances.instanceMetadata(nodeOf("dual000000"));
    expect(metadata?.nodeAddresses.map(({ type }) => type)).toEqual(["InternalIP", "Hostname"]);
  });

  test("a machine outside zones has its fault domain as its zone", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSetInstances("vmss0", 1, { zone: undefined, faultDomain: 3 });
    await using cloud = await world.create();
    expect((await cloud.instances.instanceMetadata(nodeOf("vmss0000000")))?.zone).toBe("3");
  });

  test("a machine with neither zone nor fault domain is an error, and is read again the next time", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSetInstances("vmss0", 1, { zone: undefined });
    await using cloud = await world.create({ listVmssVirtualMachinesWithoutInstanceView: true });
    const ask = (): Promise<unknown> => errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000")));
    expect(await ask()).toMatchObject({ message: expect.stringContaining("failed to get zone info") });
    await ask();
    expect(countOf(world.simulator, instanceList)).toBe(2);
    expect(world.simulator.log.some(({ query }) => query.includes("instanceView"))).toBe(false);
  });

  test("zone and region are in lower case", async () => {
    await using world = await openWorld({ location: "WestUS" });
    world.simulator.addScaleSetInstances("vmss0", 1, { zone: "2" });
    await using cloud = await world.create();
    const metadata = await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(metadata).toMatchObject({ zone: "westus-2", region: "westus" });
  });

  test("a zone that is not a number is an error", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSetInstances("vmss0", 1, { zone: "a" });
    await using cloud = await world.create();
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000")))).toMatchObject({
      message: expect.stringContaining('failed to parse zone "a"'),
    });
  });

  test("the resource group of a provider ID is in lower case, whatever ARM spells", async () => {
    await using world = await openWorld();
    world.simulator.addResourceGroup("Other-RG");
    world.simulator.addScaleSet({ name: "pool", resourceGroup: "Other-RG" });
    const id = world.simulator.addScaleSet({ name: "pool", resourceGroup: "Other-RG" }).id;
    world.simulator.addScaleSetInstances(id, 1);
    await using cloud = await world.create();
    const labels = { "kubernetes.azure.com/resource-group": "Other-RG" };
    const metadata = await cloud.instances.instanceMetadata(nodeOf("pool000000", { labels }));
    expect(metadata?.providerID).toBe(instanceID(0, "pool", "other-rg"));
  });

  test("a machine in a group that only another node names is found as well", async () => {
    await using world = await openWorld();
    world.simulator.addResourceGroup("elsewhere");
    world.simulator.addScaleSetInstances(
      world.simulator.addScaleSet({ name: "pool", resourceGroup: "elsewhere" }).id,
      1,
    );
    world.nodes.push(nodeOf("other", { labels: { "kubernetes.azure.com/resource-group": "elsewhere" } }));
    await using cloud = await world.create();
    const metadata = await cloud.instances.instanceMetadata(nodeOf("pool000000"));
    expect(metadata?.providerID).toBe(instanceID(0, "pool", "elsewhere"));
  });

  test("a node is found by the computer name, whatever the scale set is called and however it is spelt", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "vmss-linux", prefix: "aks-pool-123-vmss" });
    world.simulator.addScaleSetInstances("vmss-linux", 1);
    await using cloud = await world.create();
    const metadata = await cloud.instances.instanceMetadata(nodeOf("AKS-POOL-123-VMSS000000"));
    expect(metadata?.providerID).toBe(instanceID(0, "vmss-linux"));
  });

  test("an instance segment of the form <scale set>_<id> is understood", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    const node = nodeOf("vmss0000001", { providerID: instanceID("vmss0_1") });
    expect((await cloud.instances.instanceMetadata(node))?.nodeAddresses[0]?.address).toBe("10.240.0.5");
  });

  test("a node without a machine is an error and not empty", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    for (const name of ["vmss000000z", "tiny", "stranger000000"])
      expect(await errorOf(cloud.instances.instanceMetadata(nodeOf(name)))).toBeInstanceOf(InstanceNotFoundError);
  });
});

describe("nodes that are not Azure's", () => {
  const nothing = { providerID: "", instanceType: "", nodeAddresses: [], zone: "", region: "" };

  test("a node labelled as unmanaged exists, is never shut down, and nothing is said of it", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    world.simulator.clearLog();
    const node = nodeOf("onprem", { labels: { "kubernetes.azure.com/managed": "False" } });
    expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
    expect(await cloud.instances.instanceShutdown(node)).toBe(false);
    expect(await cloud.instances.instanceMetadata(node)).toEqual(nothing);
    expect(world.simulator.requests()).toEqual([]);
  });

  for (const providerID of [
    "aws:///eu-west-1/i-0",
    "vm1",
    "azure:///subscriptions/s/resourcegroups/rg0/providers/Microsoft.Compute/virtualMachines/x",
  ])
    test(`provider ID ${providerID} is somebody else's`, async () => {
      await using world = await openWorld();
      await using cloud = await world.create();
      world.simulator.clearLog();
      const node = nodeOf("n", { providerID });
      expect(await cloud.instances.instanceExists(node)).toBe(true);
      expect(await cloud.instances.instanceShutdown(node)).toBe(false);
      expect(await cloud.instances.instanceMetadata(node)).toEqual({ ...nothing, providerID });
      expect(world.simulator.requests()).toEqual([]);
    });

  test("a provider ID that names no machine is an error", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const providerID = "azure:///subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute/disks/d";
    const malformed = nodeOf("n", { providerID });
    for (const question of [
      cloud.instances.instanceExists(malformed),
      cloud.instances.instanceShutdown(malformed),
      cloud.nodeMasks.nodeMasks(malformed),
    ])
      expect(await errorOf(question)).toMatchObject({ message: expect.stringContaining("error splitting providerID") });
  });
});

describe("whether an instance exists (TestInstanceExistsByProviderID, TestCloud_InstanceExists)", () => {
  const gone = nodeOf("vmss0000001", { providerID: instanceID(1) });

  test("a machine that was just deleted is confirmed to be gone although the cache still has it elsewhere", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    await world.simulator.removeInstance("vmss0000001");
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    expect(await cloud.instances.instanceExists(gone, { read: "fresh" })).toBe(false);
  });

  test("a machine that the cached list lacks exists when Azure has it now", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000000"))).toBe(false);
    await world.simulator.addInstances(1);
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000000"))).toBe(true);
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000000", { providerID: instanceID(0) }))).toBe(true);
  });

  test("a machine that is being deleted does not exist, and that is confirmed afresh", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    world.simulator.changeInstance("vmss0000001", { provisioningState: "Deleting" });
    expect(await cloud.instances.instanceExists(gone)).toBe(false);
    world.simulator.changeInstance("vmss0000001", { provisioningState: "Succeeded" });
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
  });

  test("an error of Azure is never a no", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const failures = [
      { status: 403, code: "AuthorizationFailed" },
      { status: 404, code: "SubscriptionNotFound" },
      { status: 404, code: "Http404" },
      { status: 429 },
    ];
    for (const failure of failures) {
      world.simulator.failNext({ path: instanceList }, failure);
      world.simulator.failNext({ path: instanceList }, failure);
      const error = await errorOf(cloud.instances.instanceExists(gone, { read: "fresh" }));
      expect(error).toBeInstanceOf(Error);
      world.simulator.clearFailures();
    }
  });

  test("a machine in another subscription is an error, not a no", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const providerID = instanceID(1).replace("sub0", "sub9");
    expect(await errorOf(cloud.instances.instanceExists(nodeOf("n", { providerID })))).toMatchObject({
      code: "OtherSubscription",
    });
  });

  test("with its scale set or its resource group gone, a machine does not exist", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    world.simulator.delete("/providers/Microsoft.Compute/virtualMachineScaleSets/vmss0");
    expect(await cloud.instances.instanceExists(gone, { read: "fresh" })).toBe(false);
    world.simulator.removeResourceGroup("rg0");
    expect(await cloud.instances.instanceExists(gone, { read: "fresh" })).toBe(false);
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000001"), { read: "fresh" })).toBe(false);
  });

  test("absence from a list of several pages is confirmed by a read of the machine itself", async () => {
    await using world = await openWorld({ pageSize: 1 });
    await world.simulator.addInstances(3);
    await using cloud = await world.create();
    await cloud.instances.instanceExists(gone);
    world.simulator.hideFromLists("vmss0000001");
    const all = [gone, ...[0, 2].map((id) => nodeOf(`vmss000000${id}`, { providerID: instanceID(id) }))];
    const answers = all.map((node) => cloud.instances.instanceExists(node, { read: "fresh" }));
    expect(await Promise.all(answers)).toEqual([true, true, true]);
    expect(countOf(world.simulator, "/virtualMachines/1")).toBe(1);
  });

  test("a young node is taken to exist while the grace period lasts", async () => {
    await using world = await openWorld();
    await using cloud = await world.create({ nodeInstanceNotFoundGracePeriodInSeconds: 60 });
    const made = (agoMs: number): string => new Date(Date.now() - agoMs).toISOString();
    const exists = (creationTimestamp: string, providerID = ""): Promise<boolean> =>
      cloud.instances.instanceExists(nodeOf("vmss0000009", { creationTimestamp, providerID }));
    expect(await exists(made(5_000))).toBe(true);
    expect(await exists(made(5_000), instanceID(9))).toBe(true);
    expect(await exists(made(61_000))).toBe(false);
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000009"))).toBe(false);
    await using strict = await world.create();
    const node = nodeOf("vmss0000009", { creationTimestamp: made(1) });
    expect(await strict.instances.instanceExists(node)).toBe(false);
  });
});

describe("whether an instance is shut down (TestInstanceShutdownByProviderID)", () => {
  const rows = [
    ["running", "Succeeded", false],
    ["starting", "Succeeded", false],
    ["stopping", "Succeeded", false],
    ["unknown", "Succeeded", false],
    ["stopped", "Succeeded", true],
    ["deallocating", "Succeeded", true],
    ["deallocated", "Succeeded", true],
    ["stopped", "Creating", false],
  ] as const;
  for (const [powerState, provisioningState, shutDown] of rows)
    test(`${powerState} and ${provisioningState}: ${shutDown}`, async () => {
      await using world = await openWorld();
      world.simulator.addScaleSetInstances("vmss0", 1, { powerState, provisioningState });
      await using cloud = await world.create();
      const node = nodeOf("vmss0000000", { providerID: instanceID(0) });
      expect(await cloud.instances.instanceShutdown(node)).toBe(shutDown);
    });

  test("a machine that does not exist, or a node without a provider ID, is not shut down", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    expect(await cloud.instances.instanceShutdown(nodeOf("n", { providerID: instanceID(7) }))).toBe(false);
    expect(await cloud.instances.instanceShutdown(nodeOf("vmss0000000"))).toBe(false);
  });

  test("a fresh read sees what the cache does not know yet", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    const node = nodeOf("vmss0000000", { providerID: instanceID(0) });
    expect(await cloud.instances.instanceShutdown(node)).toBe(false);
    world.simulator.changeInstance("vmss0000000", { powerState: "deallocated" });
    expect(await cloud.instances.instanceShutdown(node)).toBe(false);
    expect(await cloud.instances.instanceShutdown(node, { read: "fresh" })).toBe(true);
  });
});

describe("shared reads", () => {
  test("many nodes that ask at once share one list, page by page", async () => {
    await using world = await openWorld({ pageSize: 10 });
    const machines = await world.simulator.addInstances(40);
    await using cloud = await world.create();
    await Promise.all(machines.map(({ nodeName }) => cloud.instances.instanceMetadata(nodeOf(nodeName))));
    expect(countOf(world.simulator, instanceList)).toBe(4);
    expect(countOf(world.simulator, interfaceList)).toBe(4);
  });

  test("fresh questions asked together share one fresh list", async () => {
    await using world = await openWorld();
    const machines = await world.simulator.addInstances(40);
    await using cloud = await world.create();
    const ask = (): Promise<readonly boolean[]> =>
      Promise.all(
        machines.map(({ nodeName }, index) =>
          cloud.instances.instanceExists(nodeOf(nodeName, { providerID: instanceID(index) }), { read: "fresh" }),
        ),
      );
    expect((await ask()).every(Boolean)).toBe(true);
    expect(countOf(world.simulator, instanceList)).toBe(1);
    await ask();
    expect(countOf(world.simulator, instanceList)).toBe(2);
  });

  test("one fresh question about a large scale set reads one machine and not all", async () => {
    await using world = await openWorld({ pageSize: 5 });
    await world.simulator.addInstances(40);
    await using cloud = await world.create();
    await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    world.simulator.clearLog();
    const node = nodeOf("vmss0000003", { providerID: instanceID(3) });
    expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
    expect(world.simulator.requests().map((line) => line.slice(line.lastIndexOf("/virtualMachines")))).toEqual([
      "/virtualMachines/3",
    ]);
  });

  test("what was read is believed until its time to live is over", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const clock = manualClock();
    await using cloud = await world.create({ vmssVirtualMachinesCacheTTLInSeconds: 600 }, { clock });
    const ask = (): Promise<unknown> => cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    await ask();
    await clock.advance(599_000);
    await ask();
    expect(countOf(world.simulator, instanceList)).toBe(1);
    await clock.advance(2_000);
    await ask();
    expect(countOf(world.simulator, instanceList)).toBe(2);
    expect(countOf(world.simulator, interfaceList)).toBe(2);
  });

  test("with disableAPICallCache every question asks Azure", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create({ disableAPICallCache: true });
    for (let times = 0; times < 3; times++) await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(countOf(world.simulator, instanceList)).toBe(3);
  });

  test("nodes that joined after the last list share one new list", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    const joined = await world.simulator.addInstances(50);
    world.simulator.clearLog();
    const found = await Promise.all(joined.map(({ nodeName }) => cloud.instances.instanceMetadata(nodeOf(nodeName))));
    expect(found.every((metadata) => metadata?.zone !== "")).toBe(true);
    expect(countOf(world.simulator, instanceList)).toBe(1);
    expect(countOf(world.simulator, interfaceList)).toBe(1);
  });

  test("a node without a machine does not have the list read again and again", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    for (let times = 0; times < 20; times++)
      await errorOf(cloud.instances.instanceMetadata(nodeOf("vmss000000q", { providerID: instanceID(26) })));
    expect(countOf(world.simulator, instanceList)).toBe(2);
  });

  test("a failed list is nobody's cache", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    world.simulator.failNext({ path: instanceList }, { status: 403 });
    const [first, second] = await Promise.all([
      errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000"))),
      errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000"))),
    ]);
    expect(first).toMatchObject({ status: 403 });
    expect(second).toMatchObject({ status: 403 });
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000000"))).toBe(true);
  });

  test("one caller's signal ends its own question and nobody else's", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    world.simulator.setLatency(20);
    const caller = new AbortController();
    const left = errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000"), { signal: caller.signal }));
    const stayed = cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    caller.abort();
    expect(await left).toMatchObject({ name: "AbortError" });
    expect((await stayed)?.providerID).toBe(instanceID(0));
  });
});

describe("sizes of pod CIDRs (TestGetNodeCIDRMasksByProviderID)", () => {
  const rows: readonly (readonly [string, Readonly<Record<string, string>> | undefined, number, number])[] = [
    ["both tags", { kubernetesNodeCIDRMaskIPV4: "24", kubernetesNodeCIDRMaskIPV6: "64" }, 24, 64],
    ["only the IPv4 tag", { kubernetesNodeCIDRMaskIPV4: "24" }, 24, 0],
    ["an IPv4 tag that is no number", { kubernetesNodeCIDRMaskIPV4: "abc", kubernetesNodeCIDRMaskIPV6: "64" }, 0, 64],
    ["no tags", undefined, 0, 0],
  ];
  for (const [name, tags, ipv4, ipv6] of rows)
    test(name, async () => {
      await using world = await openWorld();
      world.simulator.addScaleSet({ name: "pool", ...(tags === undefined ? {} : { tags }) });
      await using cloud = await world.create();
      const node = nodeOf("pool000000", { providerID: instanceID(0, "pool") });
      expect(await cloud.nodeMasks.nodeMasks(node)).toEqual({ ipv4, ipv6 });
      expect(await cloud.nodeMasks.nodeMasks(nodeOf("pool000000"))).toEqual({ ipv4, ipv6 });
    });

  test("a scale set that cannot be found has the standard sizes", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const node = nodeOf("n", { providerID: instanceID(0, "none") });
    expect(await cloud.nodeMasks.nodeMasks(node)).toEqual({ ipv4: 24, ipv6: 64 });
  });
});
