import { describe, expect, test } from "bun:test";

import { isObject, type Node } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../kit/rejection.ts";
import { openGatewayTo } from "../arm/gateway.ts";
import { countOf, instanceID, nodeOf, openWorld, type TestCloud } from "../world.ts";

const instanceList = "/vmss0/virtualMachines";

describe("the existence of an instance", () => {
  const gone = nodeOf("vmss0000001", { providerID: instanceID(1) });

  test("a fresh read reports a deleted instance that the cache still has", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    await world.simulator.removeInstance("vmss0000001");
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    expect(await cloud.instances.instanceExists(gone, { read: "fresh" })).toBe(false);
  });

  test("finds an instance that the cached list lacks by a read of that instance, once for all later lookups", async () => {
    await using world = await openWorld({ pageSize: 1 });
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    await world.simulator.addInstances(1);
    const joined = nodeOf("vmss0000002", { providerID: instanceID(2) });
    world.simulator.clearLog();
    for (let times = 0; times < 3; times++) expect(await cloud.instances.instanceExists(joined)).toBe(true);
    expect(world.simulator.requests().map((line) => line.slice(line.lastIndexOf("/")))).toEqual(["/2"]);
  });

  test("is false for an instance that is being deleted", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    world.simulator.changeInstance("vmss0000001", { provisioningState: "Deleting" });
    expect(await cloud.instances.instanceExists(gone)).toBe(false);
    world.simulator.changeInstance("vmss0000001", { provisioningState: "Succeeded" });
    expect(await cloud.instances.instanceExists(gone, { read: "fresh" })).toBe(true);
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
  });

  test("is true for an instance whose replies lack its network profile, and no reader gets such a reply from a cache", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using gateway = await openGatewayTo(world);
    await using cloud = await world.create(gateway.changes);
    gateway.rewrite(({ pathname }, _method, body) =>
      pathname.endsWith(`${instanceList}/1`) && isObject(body) && isObject(body["properties"])
        ? { ...body, properties: { ...body["properties"], networkProfile: undefined } }
        : undefined,
    );
    const joined = nodeOf("vmss0000001", { providerID: instanceID(1) });
    expect(await cloud.instances.instanceMetadata(joined)).toMatchObject({ providerID: instanceID(1) });
    expect(await cloud.instances.instanceExists(joined, { read: "fresh" })).toBe(true);
    expect(await cloud.instances.instanceMetadata(joined)).toMatchObject({ providerID: instanceID(1) });
    world.simulator.changeInstance("vmss0000001", { provisioningState: "Deleting" });
    expect(await cloud.instances.instanceExists(joined, { read: "fresh" })).toBe(false);
  });

  test("rejects when ARM fails, and never reports that as absence", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const failures = [
      { status: 403, code: "AuthorizationFailed" },
      ...["SubscriptionNotFound", "InvalidSubscriptionId", "InvalidResourceType", "InvalidResourceNamespace"].map(
        (code) => ({ status: 404, code }),
      ),
      { status: 404, code: "NoRegisteredProviderFound" },
      { status: 404, code: "Http404" },
      { status: 429 },
    ];
    for (const failure of failures) {
      world.simulator.failNext({ path: instanceList }, { ...failure, times: 2 });
      const error = await errorOf(cloud.instances.instanceExists(gone, { read: "fresh" }));
      expect(error, failure.code ?? "429").toBeInstanceOf(Error);
      world.simulator.clearFailures();
    }
  });

  test("rejects for an instance of another subscription", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const providerID = instanceID(1).replace("sub0", "sub9");
    expect(await errorOf(cloud.instances.instanceExists(nodeOf("n", { providerID })))).toMatchObject({
      code: "OtherSubscription",
    });
  });

  test("rejects for a provider ID with the Kelvin sign, which ARM does not take for a K, and still finds the instances of the true name", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const { id } = world.simulator.addScaleSet({ name: "kpool" });
    await world.simulator.addScaleSetInstances(id, 2);
    world.simulator.failNext({ path: /\u212a|%E2%84%AA/u }, { status: 404, code: "ResourceNotFound", times: 100 });
    const node = (scaleSet: string, index: number) =>
      nodeOf(`kpool00000${index}`, { providerID: `azure://${id.replace("kpool", scaleSet)}/virtualMachines/${index}` });
    const error = await errorOf(cloud.instances.instanceExists(node("\u212apool", 0)));
    expect(await cloud.instances.instanceExists(node("kpool", 1), { read: "fresh" })).toBeTrue();
    expect(error).toMatchObject({ code: "InvalidProviderID" });
  });

  test("compares the subscription in a provider ID without regard to case", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    const providerID = instanceID(1).replace("sub0", "SUB0");
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000001", { providerID }), { read: "fresh" })).toBe(true);
  });

  test("a scale set that was recreated under its name has none of the old instances, also in the cache", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    world.simulator.delete("/providers/Microsoft.Compute/virtualMachineScaleSets/vmss0");
    expect(await cloud.instances.instanceExists(nodeOf("stranger000000"), { read: "fresh" })).toBe(false);
    world.simulator.addScaleSet({ name: "vmss0" });
    expect(await cloud.instances.instanceExists(gone)).toBe(false);
  });

  test("a new list of scale sets keeps the lists of those that still exist, and of those in other resource groups", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    world.simulator.addResourceGroup("elsewhere");
    const { id } = world.simulator.addScaleSet({ name: "pool", resourceGroup: "elsewhere" });
    world.simulator.addScaleSetInstances(id, 1);
    const distant = nodeOf("pool000000", { providerID: instanceID(0, "pool", "elsewhere") });
    await using cloud = await world.create();
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    expect(await cloud.instances.instanceExists(distant)).toBe(true);
    expect(await cloud.instances.instanceExists(nodeOf("stranger000000"), { read: "fresh" })).toBe(false);
    world.simulator.clearLog();
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    expect(await cloud.instances.instanceExists(distant)).toBe(true);
    expect(world.simulator.requests()).toEqual([]);
  });

  test("is false when the scale set or its resource group was deleted", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create();
    world.simulator.delete("/providers/Microsoft.Compute/virtualMachineScaleSets/vmss0");
    expect(await cloud.instances.instanceExists(gone, { read: "fresh" })).toBe(false);
    world.simulator.removeResourceGroup("rg0");
    expect(await cloud.instances.instanceExists(gone, { read: "fresh" })).toBe(false);
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000001"), { read: "fresh" })).toBe(false);
  });

  test("confirms absence from a list of several pages by a read of the instance itself", async () => {
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

  test("confirms absence from a list that was cut short after its first page", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(3);
    await using cloud = await world.create();
    world.simulator.hideFromLists("vmss0000001");
    expect(await cloud.instances.instanceExists(gone)).toBe(true);
    const all = [gone, ...[0, 2].map((id) => nodeOf(`vmss000000${id}`, { providerID: instanceID(id) }))];
    const answers = all.map((node) => cloud.instances.instanceExists(node, { read: "fresh" }));
    expect(await Promise.all(answers)).toEqual([true, true, true]);
  });

  test("is true for a young node without an instance during the grace period", async () => {
    await using world = await openWorld();
    await using cloud = await world.create({ nodeInstanceNotFoundGracePeriodInSeconds: 60 });
    const made = (agoMs: number): string => new Date(Date.now() - agoMs).toISOString();
    const exists = (creationTimestamp: string, providerID = ""): Promise<boolean> =>
      cloud.instances.instanceExists(nodeOf("vmss0000009", { creationTimestamp, providerID }));
    expect(await exists(made(5_000))).toBe(true);
    expect(await exists(made(5_000), instanceID(9))).toBe(true);
    // The second question is answered from the memory of the first.
    world.simulator.clearLog();
    expect(await exists(made(5_000), instanceID(9))).toBe(true);
    expect(countOf(world.simulator, "/virtualMachines/9")).toBe(0);
    expect(await exists(made(61_000))).toBe(false);
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000009"))).toBe(false);
    await using strict = await world.create();
    const node = nodeOf("vmss0000009", { creationTimestamp: made(1) });
    expect(await strict.instances.instanceExists(node)).toBe(false);
  });
});

test("two groups of instances that no list has do not make each other read again", async () => {
  await using world = await openWorld();
  await world.simulator.addInstances(8);
  await using cloud = await world.create();
  for (const id of [0, 1, 2, 3, 4, 5]) world.simulator.hideFromLists(`vmss000000${id}`);
  const group = (ids: readonly number[]): Promise<readonly boolean[]> =>
    Promise.all(
      ids.map((id) => cloud.instances.instanceExists(nodeOf(`vmss000000${id}`, { providerID: instanceID(id) }))),
    );
  expect(await group([0, 1, 2])).toEqual([true, true, true]);
  expect(await group([3, 4, 5])).toEqual([true, true, true]);
  world.simulator.clearLog();
  expect(await group([0, 1, 2, 3, 4, 5])).toEqual([true, true, true, true, true, true]);
  expect(world.simulator.requests()).toEqual([]);
});

describe("instanceExists() by name", () => {
  test("rejects when the scale sets cannot be listed, whatever ARM answers but that the group does not exist", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    const node = nodeOf("vmss0000000");
    for (const code of ["ResourceNotFound", "NotFound", "SubscriptionNotFound"]) {
      world.simulator.failNext({ path: /\/virtualMachineScaleSets$/u }, { status: 404, code, times: 9 });
      expect(await errorOf(cloud.instances.instanceExists(node, { read: "fresh" })), code).toMatchObject({ code });
      world.simulator.clearFailures();
    }
  });

  test("does not take the instance with the likely id for the node when its computer name is another", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    world.simulator.changeInstance("vmss0000000", { computerName: "vmss000000z" });
    await using cloud = await world.create();
    const exists = (name: string): Promise<boolean> => cloud.instances.instanceExists(nodeOf(name), { read: "fresh" });
    expect(await exists("vmss0000000")).toBe(false);
    expect(await exists("vmss000000z")).toBe(true);
  });

  test("is false only when the list of scale sets was read twice without a match", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    world.simulator.clearLog();
    expect(await cloud.instances.instanceExists(nodeOf("stranger000000"), { read: "fresh" })).toBe(false);
    expect(countOf(world.simulator, "/virtualMachineScaleSets")).toBe(2);
  });
});

describe("a missing instance is remembered", () => {
  const nodes = Array.from({ length: 100 }, (_, id) =>
    nodeOf(`vmss0000${id.toString(36).padStart(3, "0")}`, { providerID: instanceID(id) }),
  );
  const exist = (cloud: TestCloud, some: readonly Node[]): Promise<readonly boolean[]> =>
    Promise.all(some.map((node) => cloud.instances.instanceExists(node)));

  test("a missing instance is remembered so that twelve monitor passes with 20 of 100 missing cost 36 requests, all in the first pass", async () => {
    await using world = await openWorld({ pageSize: 10 });
    await world.simulator.addInstances(100);
    await using cloud = await world.create();
    for (const node of nodes.slice(0, 20)) await world.simulator.removeInstance(node.metadata?.name ?? "");
    world.simulator.clearLog();
    for (let pass = 0; pass < 12; pass++) {
      const found = await exist(cloud, nodes);
      expect(found.filter((exists) => !exists)).toHaveLength(20);
      // Cached list of 8 pages, a fresh one, and a read of each missing instance.
      expect(world.simulator.requests().length).toBe(8 + 8 + 20);
    }
  });

  test("a missing instance is remembered as long as upstream caches instances, and then read once more", async () => {
    await using world = await openWorld();
    const clock = manualClock();
    await using cloud = await world.create({ vmssVirtualMachinesCacheTTLInSeconds: 600 }, { clock });
    const [missing] = nodes;
    const ask = (): Promise<readonly boolean[]> => exist(cloud, missing === undefined ? [] : [missing]);
    const reads = (): number => countOf(world.simulator, `${instanceList}/0`);
    expect(await ask()).toEqual([false]);
    await clock.advance(599_000);
    expect(await ask()).toEqual([false]);
    expect(reads()).toBe(1);
    await clock.advance(2_000);
    expect(await ask()).toEqual([false]);
    expect(reads()).toBe(2);
  });

  test("a missing instance is remembered for the TTL of virtual machines, for a node that is one", async () => {
    await using world = await openWorld();
    const clock = manualClock();
    await using cloud = await world.create({ vmType: "standard", vmCacheTTLInSeconds: 60 }, { clock });
    const node = nodeOf("vm", {
      providerID: instanceID(0).replace(/virtualMachineScaleSets.*/u, "virtualMachines/vm"),
    });
    const reads = (): number => countOf(world.simulator, "/virtualMachines/vm");
    await exist(cloud, [node]);
    await clock.advance(59_000);
    await exist(cloud, [node]);
    expect(reads()).toBe(1);
    await clock.advance(2_000);
    await exist(cloud, [node]);
    expect(reads()).toBe(2);
  });

  test("a missing instance is remembered but a fresh read always calls ARM, and its result applies at once", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    const node = nodeOf("vmss0000001", { providerID: instanceID(1) });
    expect(await exist(cloud, [node])).toEqual([false]);
    await world.simulator.addInstances(1);
    expect(await exist(cloud, [node])).toEqual([false]);
    expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
    expect(await exist(cloud, [node])).toEqual([true]);
  });

  test("a missing instance is remembered until a fresh read has found it", async () => {
    await using world = await openWorld();
    const clock = manualClock();
    const ttls = { vmCacheTTLInSeconds: 600, nonVmssUniformNodesCacheTTLInSeconds: 10 };
    await using cloud = await world.create({ vmType: "standard", ...ttls }, { clock });
    const vm = "/providers/Microsoft.Compute/virtualMachines/vm";
    const node = nodeOf("vm", { providerID: `azure:///subscriptions/sub0/resourceGroups/rg0${vm}` });
    expect(await exist(cloud, [node])).toEqual([false]);
    world.simulator.put(vm, { properties: { hardwareProfile: { vmSize: "Basic_A0" } } });
    expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
    world.simulator.delete(vm);
    await clock.advance(11_000);
    world.simulator.clearLog();
    expect(await exist(cloud, [node])).toEqual([false]);
    expect(countOf(world.simulator, "/virtualMachines/vm")).toBe(1);
  });

  test("a missing instance is remembered and a newer list that has it again is believed", async () => {
    await using world = await openWorld();
    await using cloud = await world.create();
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000000"))).toBe(false);
    await world.simulator.addInstances(1);
    await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    expect(await cloud.instances.instanceExists(nodeOf("vmss0000000"))).toBe(true);
  });

  test("a missing instance is remembered for one node object: a node recreated under the name is looked up again", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create();
    const recreated = (uid: string): Node => {
      const node = nodeOf("vmss0000001", { providerID: instanceID(1) });
      return { ...node, metadata: { ...node.metadata, uid } };
    };
    expect(await exist(cloud, [recreated("first")])).toEqual([false]);
    await world.simulator.addInstances(1);
    expect(await exist(cloud, [recreated("first")])).toEqual([false]);
    expect(await exist(cloud, [recreated("second")])).toEqual([true]);
  });

  test("a missing instance is remembered not at all with disableAPICallCache", async () => {
    await using world = await openWorld();
    await using cloud = await world.create({ disableAPICallCache: true });
    for (let times = 0; times < 3; times++) expect(await exist(cloud, nodes.slice(0, 1))).toEqual([false]);
    expect(countOf(world.simulator, `${instanceList}/0`)).toBe(3);
  });
});
