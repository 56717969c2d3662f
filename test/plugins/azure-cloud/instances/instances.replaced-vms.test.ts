import { expect, test } from "bun:test";

import type { Informer, InformerHandler, Informers, KindRef, KubeObject, Node } from "cloud-controller-host/sdk";

import { informersOf, nodeOf, openWorld, type World } from "../world.ts";

const compute = "/providers/Microsoft.Compute";
const network = "/providers/Microsoft.Network";

function addVm({ simulator }: World, name: string, privateIPAddress: string, power = "running"): void {
  const ipConfigurations = [{ name: "ipconfig0", properties: { primary: true, privateIPAddress } }];
  const nic = simulator.put(`${network}/networkInterfaces/${name}-nic`, { properties: { ipConfigurations } });
  simulator.put(`${compute}/virtualMachines/${name}`, {
    properties: {
      hardwareProfile: { vmSize: "Basic_A0" },
      osProfile: { computerName: name },
      networkProfile: { networkInterfaces: [{ id: nic.id }] },
      instanceView: { statuses: [{ code: `PowerState/${power}` }] },
    },
  });
}

const hop = async (world: World): Promise<string | undefined> =>
  (await (await world.clients()).network.routeTables.get("rg0", "rt0")).routes?.[0]?.nextHopIpAddress;

test("a VM that is replaced under its name gets its own address, and its route leads there", async () => {
  await using world = await openWorld();
  addVm(world, "node0", "10.240.0.9");
  await using cloud = await world.create({ routeTableName: "rt0", vmType: "standard" });
  const providerID = `azure:///subscriptions/sub0/resourceGroups/rg0${compute}/virtualMachines/node0`;
  await cloud.instances.instanceMetadata(nodeOf("node0"));
  world.simulator.delete(`${compute}/virtualMachines/node0`);
  world.simulator.delete(`${network}/networkInterfaces/node0-nic`);
  // Its node is deleted on this answer.
  expect(await cloud.instances.instanceExists(nodeOf("node0", { providerID }), { read: "fresh" })).toBe(false);
  addVm(world, "node0", "10.240.0.77");
  const nodeAddresses = (await cloud.instances.instanceMetadata(nodeOf("node0")))?.nodeAddresses;
  await cloud.routes.createRoute("kubernetes", "", { name: "", targetNode: "node0", destinationCIDR: "10.244.5.0/24" });
  expect([nodeAddresses?.[0]?.address, await hop(world)]).toEqual(["10.240.0.77", "10.240.0.77"]);
});

test("an instance of a scale set that is replaced under its id gets its own address, and its route leads there", async () => {
  await using world = await openWorld();
  await world.simulator.addInstances(1);
  await using cloud = await world.create({ routeTableName: "rt0" });
  await cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
  const id = `/subscriptions/sub0/resourceGroups/rg0${compute}/virtualMachineScaleSets/vmss0`;
  world.simulator.delete(id);
  const gone = nodeOf("vmss0000000", { providerID: `azure://${id}/virtualMachines/0` });
  expect(await cloud.instances.instanceExists(gone, { read: "fresh" })).toBe(false);
  world.simulator.addScaleSet({ name: "vmss0" });
  world.simulator.addScaleSetInstances("vmss0", 1, { privateIP: "10.240.0.99", computerName: "vmss0000000" });
  const nodeAddresses = (await cloud.instances.instanceMetadata(nodeOf("vmss0000000")))?.nodeAddresses;
  await cloud.routes.createRoute("kubernetes", "", {
    name: "",
    targetNode: "vmss0000000",
    destinationCIDR: "10.244.5.0/24",
  });
  expect([nodeAddresses?.[0]?.address, await hop(world)]).toEqual(["10.240.0.99", "10.240.0.99"]);
});

test("a VM that was being deleted when it was last looked at does not stand for the next one of its name", async () => {
  await using world = await openWorld();
  addVm(world, "node0", "10.240.0.9");
  await using cloud = await world.create({ vmType: "standard" });
  const path = `${compute}/virtualMachines/node0`;
  const providerID = `azure:///subscriptions/sub0/resourceGroups/rg0${path}`;
  await cloud.instances.instanceMetadata(nodeOf("node0"));
  const vm = world.simulator.resources().find(({ id }) => id.endsWith("virtualMachines/node0"));
  world.simulator.put(path, { ...vm, properties: { ...Object(vm).properties, provisioningState: "Deleting" } });
  expect(await cloud.instances.instanceExists(nodeOf("node0", { providerID }), { read: "fresh" })).toBe(false);
  world.simulator.delete(path);
  world.simulator.delete(`${network}/networkInterfaces/node0-nic`);
  addVm(world, "node0", "10.240.0.77");
  const nodeAddresses = (await cloud.instances.instanceMetadata(nodeOf("node0")))?.nodeAddresses;
  expect(nodeAddresses?.[0]?.address).toBe("10.240.0.77");
});

test("a VM that replaces a stopped one under its name is not taken for shut down", async () => {
  await using world = await openWorld();
  addVm(world, "node0", "10.240.0.9", "deallocated");
  await using cloud = await world.create({ vmType: "standard" });
  const node = nodeOf("node0", {
    providerID: `azure:///subscriptions/sub0/resourceGroups/rg0${compute}/virtualMachines/node0`,
  });
  expect(await cloud.instances.instanceShutdown(node)).toBe(true);
  world.simulator.delete(`${compute}/virtualMachines/node0`);
  expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(false);
  addVm(world, "node0", "10.240.0.9");
  expect(await cloud.instances.instanceShutdown(node)).toBe(false);
});

/** Informers without objects, and functions that deliver changes of nodes to the handlers of a cloud. */
function nodeChanges() {
  const handlers: Required<InformerHandler<Node>>[] = [];
  const informers: Informers = {
    of: <T extends KubeObject>(kind: KindRef<T>): Informer<T> => ({
      ...informersOf([]).of(kind),
      handle(handler) {
        const isOf = (object: KubeObject): object is T => object.kind === kind.kind;
        handlers.push({
          added: (node) => isOf(node) && handler.added?.(node),
          updated: (before, after) => isOf(before) && isOf(after) && handler.updated?.(before, after),
          deleted: (node) => isOf(node) && handler.deleted?.(node),
        });
        return { remove: () => undefined };
      },
    }),
  };
  return {
    informers,
    deleted(node: Node): void {
      for (const handler of handlers) handler.deleted(node);
    },
    updated(before: Node, after: Node): void {
      for (const handler of handlers) handler.updated(before, after);
    },
  };
}

const withUID = (node: Node, uid: string): Node => ({ ...node, metadata: { ...node.metadata, uid } });

/** The provider IDs of a node before and after another instance gets its name: the last parts, which are instance IDs. */
async function replaceInstance(change: (changes: ReturnType<typeof nodeChanges>, node: Node) => void) {
  await using world = await openWorld();
  await world.simulator.addInstances(1);
  const changes = nodeChanges();
  await using cloud = await world.create({}, { context: { informers: changes.informers } });
  const node = withUID(nodeOf("vmss0000000"), "former");
  const before = await cloud.instances.instanceMetadata(node);
  await world.simulator.removeInstance("vmss0000000");
  world.simulator.addScaleSetInstances("vmss0", 1, { computerName: "vmss0000000" });
  change(changes, node);
  const after = await cloud.instances.instanceMetadata(withUID(node, "next"));
  return [before, after].map((metadata) => metadata?.providerID.split("/").at(-1));
}

test("a node that is created under the name of a deleted one gets the provider ID of the instance that has it now", async () => {
  expect(await replaceInstance((changes, node) => changes.deleted(node))).toEqual(["0", "1"]);
});

test("a node that was deleted and created again while no watch showed it gets the provider ID of the instance that has its name now", async () => {
  expect(await replaceInstance((changes, node) => changes.updated(node, withUID(node, "next")))).toEqual(["0", "1"]);
});

test("an update of a node does not cause a new list of instances", async () => {
  expect(await replaceInstance((changes, node) => changes.updated(node, node))).toEqual(["0", "0"]);
});

test("a node that is created under the name of a deleted one gets the provider ID of the VM of a flexible scale set that has it now", async () => {
  await using world = await openWorld();
  const named = (vm: string): void => {
    addVm(world, vm, "10.240.0.9");
    const path = `${compute}/virtualMachines/${vm}`;
    const { properties } = Object(world.simulator.get(path));
    const virtualMachineScaleSet = {
      id: `/subscriptions/sub0/resourceGroups/rg0${compute}/virtualMachineScaleSets/flex`,
    };
    const osProfile = { computerName: "node0" };
    world.simulator.put(path, { zones: ["1"], properties: { ...properties, virtualMachineScaleSet, osProfile } });
  };
  named("blue");
  const changes = nodeChanges();
  await using cloud = await world.create({ vmType: "vmssflex" }, { context: { informers: changes.informers } });
  await cloud.instances.instanceMetadata(nodeOf("node0"));
  world.simulator.delete(`${compute}/virtualMachines/blue`);
  named("green");
  changes.deleted(nodeOf("node0"));
  const providerID = (await cloud.instances.instanceMetadata(nodeOf("node0")))?.providerID;
  expect(providerID).toEndWith("/virtualMachines/green");
});
