import { describe, expect, test } from "bun:test";

import { InstanceNotFoundError } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../kit/rejection.ts";
import { openGatewayTo } from "../arm/gateway.ts";
import { countOf, instanceID, nodeOf, openWorld } from "../world.ts";

const instanceList = "/vmss0/virtualMachines";
const interfaceList = "/vmss0/networkInterfaces";

describe("the metadata of an instance", () => {
  test("initializes 2,000 nodes with at most 40 requests to Azure", async () => {
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

  test("lists the public address last, and reads the public addresses of all nodes with one list", async () => {
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

  test("does not list public addresses where no interface has one", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(0);
  });

  test("reports only the primary IPv4 address of a dual-stack instance", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "dual", dualStack: true });
    world.simulator.addScaleSetInstances("dual", 1);
    await using cloud = await world.create();
    const metadata = await cloud.instances.instanceMetadata(nodeOf("dual000000"));
    expect(metadata?.nodeAddresses.map(({ type }) => type)).toEqual(["InternalIP", "Hostname"]);
  });

  test("fails while a network interface is shown without its private address, and reads it again the next time", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using gateway = await openGatewayTo(world);
    await using cloud = await world.create(gateway.changes);
    const text = (body: unknown): unknown =>
      JSON.parse(JSON.stringify(body).replace('"privateIPAddress":"10.240.0.5",', ""));
    gateway.rewrite(({ pathname }, _method, body) =>
      pathname.endsWith("/networkInterfaces") ? text(body) : undefined,
    );
    const node = nodeOf("vmss0000001", { providerID: instanceID(1) });
    expect(await errorOf(cloud.instances.instanceMetadata(node))).toMatchObject({
      code: "IncompleteVM",
      message: expect.stringMatching(/\/networkInterfaces\/\S+ has no private address/u),
    });
    gateway.rewrite(() => undefined);
    expect((await cloud.instances.instanceMetadata(node))?.nodeAddresses?.[0]).toEqual({
      type: "InternalIP",
      address: "10.240.0.5",
    });
  });

  test("uses the fault domain as the zone of an instance outside zones", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSetInstances("vmss0", 1, { zone: undefined, faultDomain: 3 });
    await using cloud = await world.create();
    expect((await cloud.instances.instanceMetadata(nodeOf("vmss0000000")))?.zone).toBe("3");
  });

  test("fails for an instance with neither zone nor fault domain, and reads it again the next time", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSetInstances("vmss0", 1, { zone: undefined });
    await using cloud = await world.create({ listVmssVirtualMachinesWithoutInstanceView: true });
    const ask = (): Promise<unknown> => errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000")));
    expect(await ask()).toMatchObject({ message: expect.stringContaining("failed to get zone info") });
    await ask();
    expect(countOf(world.simulator, instanceList)).toBe(2);
    expect(world.simulator.log.some(({ query }) => query.includes("instanceView"))).toBe(false);
  });

  test("reports zone and region in lower case", async () => {
    await using world = await openWorld({ location: "WestUS" });
    world.simulator.addScaleSetInstances("vmss0", 1, { zone: "2" });
    await using cloud = await world.create();
    const metadata = await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(metadata).toMatchObject({ zone: "westus-2", region: "westus" });
  });

  test("fails for a zone that is not a number", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSetInstances("vmss0", 1, { zone: "a" });
    await using cloud = await world.create();
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000")))).toMatchObject({
      message: expect.stringContaining('failed to parse zone "a"'),
    });
  });

  test("lower-cases the resource group of a provider ID, however ARM spells it", async () => {
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

  test("is found in a resource group whose name has letters beyond ASCII, and a route leads there", async () => {
    await using world = await openWorld({ resourceGroup: "Größe-网络(1)" });
    await world.simulator.addInstances(1);
    await using cloud = await world.create({ routeTableName: "rt0" });
    const metadata = await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(metadata?.providerID).toBe(instanceID(0, "vmss0", "größe-网络(1)"));
    const node = nodeOf("vmss0000000", { providerID: metadata?.providerID ?? "" });
    expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
    const route = { name: "", targetNode: "vmss0000000", destinationCIDR: "10.244.0.0/24" };
    await cloud.routes.createRoute("kubernetes", "", route);
    expect(await cloud.routes.listRoutes("kubernetes")).toHaveLength(1);
  });

  test("finds an instance in a resource group that only another node is labeled with", async () => {
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

  test.each(["elsewhere", ""])(
    "finds an instance in the cluster's resource group although its node is labeled with %j",
    async (group) => {
      await using world = await openWorld();
      world.simulator.addResourceGroup("elsewhere");
      world.simulator.addScaleSetInstances("vmss0", 1);
      await using cloud = await world.create();
      const labels = { "kubernetes.azure.com/resource-group": group };
      const metadata = await cloud.instances.instanceMetadata(nodeOf("vmss0000000", { labels }));
      expect(metadata?.providerID).toBe(instanceID(0));
    },
  );

  test("finds a node by its computer name, whatever the name of the scale set and the case", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "vmss-linux", prefix: "aks-pool-123-vmss" });
    world.simulator.addScaleSetInstances("vmss-linux", 1);
    await using cloud = await world.create();
    const metadata = await cloud.instances.instanceMetadata(nodeOf("AKS-POOL-123-VMSS000000"));
    expect(metadata?.providerID).toBe(instanceID(0, "vmss-linux"));
  });

  test("takes the name of a scale set for the prefix of its computer names where it has none", async () => {
    await using world = await openWorld();
    world.simulator.put("/providers/Microsoft.Compute/virtualMachineScaleSets/bare", {});
    world.simulator.addScaleSetInstances("bare", 1);
    await using cloud = await world.create();
    expect(await cloud.instances.instanceExists(nodeOf("bare000000"), { read: "fresh" })).toBe(true);
  });

  test("accepts provider IDs whose instance segment is <scale set>_<id>", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    const node = nodeOf("vmss0000001", { providerID: instanceID("vmss0_1") });
    expect((await cloud.instances.instanceMetadata(node))?.nodeAddresses[0]?.address).toBe("10.240.0.5");
  });

  test("adds no labels of its own, as upstream", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    const metadata = await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(Object.keys(metadata ?? {}).toSorted()).toEqual([
      "instanceType",
      "nodeAddresses",
      "providerID",
      "region",
      "zone",
    ]);
  });

  test("fails with InstanceNotFound for a node without an instance", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    for (const name of ["vmss000000z", "tiny", "stranger000000"])
      expect(await errorOf(cloud.instances.instanceMetadata(nodeOf(name)))).toBeInstanceOf(InstanceNotFoundError);
  });
});

describe("nodes that are not VMs of Azure", () => {
  const nothing = { providerID: "", instanceType: "", nodeAddresses: [], zone: "", region: "" };

  test("a node labeled as unmanaged exists, is not shut down, and has empty metadata, without a request", async () => {
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
    test(`a node with provider ID ${providerID} exists, is not shut down, and keeps its ID`, async () => {
      await using world = await openWorld();
      await world.simulator.addInstances(1);
      await using cloud = await world.create();
      world.simulator.clearLog();
      const node = nodeOf("vmss0000000", { providerID });
      expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
      expect(await cloud.instances.instanceShutdown(node)).toBe(false);
      expect(world.simulator.requests()).toEqual([]);
      expect(await cloud.instances.instanceMetadata(node)).toMatchObject({ providerID, zone: "eastus-1" });
      const stranger = nodeOf("stranger", { providerID });
      expect(await errorOf(cloud.instances.instanceMetadata(stranger))).toBeInstanceOf(InstanceNotFoundError);
    });

  test("a provider ID of Azure that does not name a VM is an error", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const providerID = "azure:///subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute/disks/d";
    const malformed = nodeOf("n", { providerID });
    for (const call of [
      cloud.instances.instanceExists(malformed),
      cloud.instances.instanceShutdown(malformed),
      cloud.nodeMasks.nodeMasks(malformed),
    ])
      expect(await errorOf(call)).toMatchObject({ message: expect.stringContaining("error splitting providerID") });
  });
});

describe("the shutdown of an instance", () => {
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

  test("is false for an instance that does not exist, by provider ID and by name", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    expect(await cloud.instances.instanceShutdown(nodeOf("n", { providerID: instanceID(7) }))).toBe(false);
    expect(await cloud.instances.instanceShutdown(nodeOf("vmss0000000"))).toBe(false);
  });

  test("a fresh lookup of an instance that does not exist costs the read of that instance alone", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    world.simulator.clearLog();
    const node = nodeOf("vmss0000009", { providerID: instanceID(9) });
    expect(await cloud.instances.instanceShutdown(node, { read: "fresh" })).toBe(false);
    expect(world.simulator.log.map(({ path }) => path.slice(path.lastIndexOf("/")))).toEqual(["/9"]);
  });

  test("finds the instance of a node without a provider ID by the node's name", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    world.simulator.changeInstance("vmss0000001", { powerState: "deallocated" });
    await using cloud = await world.create();
    expect(await cloud.instances.instanceShutdown(nodeOf("vmss0000000"))).toBe(false);
    expect(await cloud.instances.instanceShutdown(nodeOf("vmss0000001"))).toBe(true);
    expect(await cloud.instances.instanceShutdown(nodeOf("vmss0000001"), { read: "fresh" })).toBe(true);
  });

  test("sees with a fresh read what the cache does not have yet", async () => {
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
  test("concurrent lookups of many nodes share one list, page by page", async () => {
    await using world = await openWorld({ pageSize: 10 });
    const machines = await world.simulator.addInstances(40);
    await using cloud = await world.create();
    await Promise.all(machines.map(({ nodeName }) => cloud.instances.instanceMetadata(nodeOf(nodeName))));
    expect(countOf(world.simulator, instanceList)).toBe(4);
    expect(countOf(world.simulator, interfaceList)).toBe(4);
  });

  test("concurrent fresh lookups share one fresh list", async () => {
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

  test("one fresh lookup in a large scale set reads one instance, not all pages", async () => {
    await using world = await openWorld({ pageSize: 5 });
    await world.simulator.addInstances(40);
    await using cloud = await world.create();
    // The last one of both lists: they have been read to their end.
    await cloud.instances.instanceMetadata(nodeOf("vmss0000013"));
    world.simulator.clearLog();
    const node = nodeOf("vmss0000003", { providerID: instanceID(3) });
    expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
    expect(world.simulator.requests().map((line) => line.slice(line.lastIndexOf("/virtualMachines")))).toEqual([
      "/virtualMachines/3",
    ]);
  });

  test("a list is used until its TTL ends", async () => {
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

  test("every lookup reads from Azure with disableAPICallCache", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create({ disableAPICallCache: true });
    for (let times = 0; times < 3; times++) await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(countOf(world.simulator, instanceList)).toBe(3);
  });

  test("the interfaces of a scale set are listed while its instances are still being paged", async () => {
    await using world = await openWorld({ pageSize: 10 });
    await world.simulator.addInstances(40);
    await using cloud = await world.create();
    world.simulator.setLatency(5);
    world.simulator.clearLog();
    await cloud.instances.instanceMetadata(nodeOf("vmss0000013"));
    const paths = world.simulator.log.map(({ path }) => path.slice(path.lastIndexOf("/") + 1));
    expect(paths.indexOf("networkInterfaces")).toBeLessThan(paths.indexOf("virtualMachines") + 2);
    expect(countOf(world.simulator, interfaceList)).toBe(4);
    expect(countOf(world.simulator, instanceList)).toBe(4);
  });

  test("a node has its metadata before the later pages of instances and interfaces have been read", async () => {
    await using world = await openWorld({ pageSize: 2 });
    const machines = await world.simulator.addInstances(5);
    await using cloud = await world.create();
    world.simulator.setLatency(300);
    const lookups = machines.map(({ nodeName }) => cloud.instances.instanceMetadata(nodeOf(nodeName)));
    while (countOf(world.simulator, instanceList) === 0 || countOf(world.simulator, interfaceList) === 0)
      await Bun.sleep(1);
    const holds = [instanceList, interfaceList].map((path) => world.simulator.hold({ path }));
    const [first, second] = await Promise.all(lookups.slice(0, 2));
    expect([first?.providerID, second?.providerID]).toEqual([instanceID(0), instanceID(1)]);
    expect([countOf(world.simulator, instanceList), countOf(world.simulator, interfaceList)]).toEqual([1, 1]);
    for (const hold of holds) hold.release();
    world.simulator.setLatency(0);
    expect((await Promise.all(lookups)).map((metadata) => metadata?.providerID)).toEqual(
      machines.map((_, index) => instanceID(index)),
    );
    expect([countOf(world.simulator, instanceList), countOf(world.simulator, interfaceList)]).toEqual([3, 3]);
  });

  test("interfaces are not listed for existence or power state", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    await cloud.instances.instanceExists(nodeOf("vmss0000000"));
    await cloud.instances.instanceShutdown(nodeOf("vmss0000000"));
    expect(countOf(world.simulator, interfaceList)).toBe(0);
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

  test("repeated metadata lookups of a node without an instance read the list once more", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    for (let times = 0; times < 20; times++)
      await errorOf(cloud.instances.instanceMetadata(nodeOf("vmss000000q", { providerID: instanceID(26) })));
    expect(countOf(world.simulator, instanceList)).toBe(2);
  });

  test("a node whose instance appears late is found ten seconds after a lookup that missed it", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const clock = manualClock();
    await using cloud = await world.create({}, { clock });
    await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    const late = nodeOf("vmss0000001", { providerID: instanceID(1) });
    const ask = async (): Promise<unknown> => {
      const answer = errorOf(cloud.instances.instanceMetadata(late));
      await clock.advance(1_000);
      await Bun.sleep(20);
      await clock.advance(1_000);
      return await answer;
    };
    await clock.advance(5_000);
    expect(await ask()).toBeInstanceOf(InstanceNotFoundError);
    await world.simulator.addInstances(1);
    await clock.advance(6_000);
    expect(await ask()).toBeInstanceOf(InstanceNotFoundError);
    await clock.advance(2_001);
    expect(await ask()).toBeUndefined();
  });

  test("a failed list is not cached", async () => {
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

  test("the signal of one caller ends its own lookup and no other", async () => {
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

describe("pod CIDR sizes", () => {
  const rows: readonly (readonly [string, Readonly<Record<string, string>> | undefined, number, number])[] = [
    ["both tags", { kubernetesNodeCIDRMaskIPV4: "24", kubernetesNodeCIDRMaskIPV6: "64" }, 24, 64],
    ["only the IPv4 tag", { kubernetesNodeCIDRMaskIPV4: "24" }, 24, 0],
    [
      "an IPv4 tag that is not a number",
      { kubernetesNodeCIDRMaskIPV4: "abc", kubernetesNodeCIDRMaskIPV6: "64" },
      0,
      64,
    ],
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

  test("are an error where the scale set of a provider ID is not found, for which the caller tries again", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const node = nodeOf("n", { providerID: instanceID(0, "none") });
    expect(await errorOf(cloud.nodeMasks.nodeMasks(node))).toBeInstanceOf(InstanceNotFoundError);
    expect(await cloud.nodeMasks.nodeMasks(nodeOf("n"))).toEqual({ ipv4: 24, ipv6: 64 });
  });
});
