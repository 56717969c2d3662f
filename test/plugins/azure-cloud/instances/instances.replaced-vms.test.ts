import { expect, test } from "bun:test";

import type { Informer, InformerHandler, Informers, KindRef, KubeObject, Node } from "cloud-controller-host/sdk";

import { informersOf, nodeOf, openWorld, type World } from "../world.ts";

const compute = "/providers/Microsoft.Compute";
const network = "/providers/Microsoft.Network";

/** `publicIP`: an address of a public IP address resource that has the VM's name, too. */
function addVm(
  { simulator }: World,
  name: string,
  privateIPAddress: string,
  power = "running",
  publicIP?: string,
): void {
  const address =
    publicIP === undefined
      ? undefined
      : simulator.put(`${network}/publicIPAddresses/${name}-pip`, { properties: { ipAddress: publicIP } });
  const publicIPAddress = address && { publicIPAddress: { id: address.id } };
  const ipConfigurations = [{ name: "ipconfig0", properties: { primary: true, privateIPAddress, ...publicIPAddress } }];
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
    added(node: Node): void {
      for (const handler of handlers) handler.added(node);
    },
    deleted(node: Node): void {
      for (const handler of handlers) handler.deleted(node);
    },
    updated(before: Node, after: Node): void {
      for (const handler of handlers) handler.updated(before, after);
    },
  };
}

const withUID = (node: Node, uid: string): Node => ({ ...node, metadata: { ...node.metadata, uid } });

/**
 * The provider IDs of a node before and after another instance gets its name: the last parts, which are instance IDs.
 * `change` follows on that, and another look at the instances on `first`.
 */
async function replaceInstance(
  change: (changes: ReturnType<typeof nodeChanges>, node: Node) => void,
  first?: typeof change,
) {
  await using world = await openWorld();
  await world.simulator.addInstances(1);
  const changes = nodeChanges();
  await using cloud = await world.create({}, { context: { informers: changes.informers } });
  const node = withUID(nodeOf("vmss0000000"), "former");
  const before = await cloud.instances.instanceMetadata(node);
  first?.(changes, node);
  if (first !== undefined) await cloud.instances.instanceMetadata(withUID(node, "another"));
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

test("a node that is created under the name of one that was deleted before its instance was, which was read in between, gets the provider ID of the instance that has it now", async () => {
  const ids = await replaceInstance(
    (changes, node) => changes.added(withUID(node, "next")),
    (changes, node) => changes.deleted(node),
  );
  expect(ids).toEqual(["0", "1"]);
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

type ChangeOfNode = (changes: ReturnType<typeof nodeChanges>, former: Node, next: Node) => void;

/**
 * The addresses of a node before and after its VM is replaced under its name, on which `first` and `then` follow. With
 * `isReadMeanwhile`, what is forgotten with the former node is read again before that.
 */
async function replaceVm(isReadMeanwhile: boolean, first: ChangeOfNode, then: ChangeOfNode) {
  await using world = await openWorld();
  addVm(world, "node0", "10.240.0.9", "running", "52.0.0.1");
  const changes = nodeChanges();
  await using cloud = await world.create({ vmType: "standard" }, { context: { informers: changes.informers } });
  const [former, next] = [withUID(nodeOf("node0"), "former"), withUID(nodeOf("node0"), "next")];
  const addressesOf = async (node: Node): Promise<readonly string[]> =>
    ((await cloud.instances.instanceMetadata(node))?.nodeAddresses ?? [])
      .filter(({ type }) => type !== "Hostname")
      .map(({ address }) => address);
  const before = await addressesOf(former);
  first(changes, former, next);
  if (isReadMeanwhile) await addressesOf(withUID(nodeOf("node0"), "another"));
  world.simulator.delete(`${compute}/virtualMachines/node0`);
  world.simulator.delete(`${network}/networkInterfaces/node0-nic`);
  addVm(world, "node0", "10.240.0.77", "running", "52.0.0.2");
  then(changes, former, next);
  world.simulator.clearLog();
  return { addresses: [before, await addressesOf(next)], requests: world.simulator.requests().length };
}

test.each<[string, boolean, ChangeOfNode, ChangeOfNode]>([
  ["deleted", false, (changes, former) => changes.deleted(former), (changes, _, next) => changes.added(next)],
  [
    "deleted before its VM was, which was read in between,",
    true,
    (changes, former) => changes.deleted(former),
    (changes, _, next) => changes.added(next),
  ],
  ["deleted unseen", false, () => undefined, (changes, former, next) => changes.updated(former, next)],
])(
  "a node that is created under the name of one that was %s gets the addresses of the VM that has it now",
  async (_what, isReadMeanwhile, first, then) => {
    const { addresses } = await replaceVm(isReadMeanwhile, first, then);
    expect(addresses).toEqual([
      ["10.240.0.9", "52.0.0.1"],
      ["10.240.0.77", "52.0.0.2"],
    ]);
  },
);

test.each([
  [4_999, ["10.240.0.77", "52.0.0.2"]],
  [5_000, ["10.240.0.9", "52.0.0.1"]],
])(
  "a deleted node is remembered as one of the latest 5,000: after %d others, its successor has the addresses %j",
  async (others, after) => {
    const { addresses } = await replaceVm(
      false,
      (changes, former) => {
        for (const name of ["node0", ...Array.from({ length: others }, (_, index) => `other-${index}`)])
          changes.deleted({ ...former, metadata: { ...former.metadata, name } });
      },
      (changes, _, next) => changes.added(next),
    );
    expect(addresses[1]).toEqual(after);
  },
);

test("a node that is created under a name that no deleted one had costs no list of interfaces that are known", async () => {
  const { requests } = await replaceVm(
    false,
    () => undefined,
    (changes, _, next) => changes.added(next),
  );
  expect(requests).toBe(0);
});

test("the power state of a VM is not kept once a list of VMs lacks it", async () => {
  await using world = await openWorld();
  addVm(world, "node0", "10.240.0.9", "deallocated");
  addVm(world, "node1", "10.240.0.10", "running");
  const { virtualMachines } = await world.reads({ vmType: "standard" });
  const { vms } = virtualMachines.inGroup("rg0");
  const elsewhere = (power: string) =>
    world.simulator.put(`/subscriptions/sub0/resourceGroups/rg1${compute}/virtualMachines/node2`, {
      properties: { instanceView: { statuses: [{ code: `PowerState/${power}` }] } },
    });
  world.simulator.addResourceGroup("rg1");
  elsewhere("running");
  const read = async (name: string, group = "rg0"): Promise<unknown> => {
    const vm = (await virtualMachines.inGroup(group).vms.get("cached")).get(name);
    return vm && (await virtualMachines.view(vm, "cached"))?.powerState;
  };
  const all = async () => [await read("node0"), await read("node1"), await read("node2", "rg1")];
  expect(await all()).toEqual(["deallocated", "running", "running"]);
  world.simulator.delete(`${compute}/virtualMachines/node0`);
  await vms.get("fresh");
  addVm(world, "node0", "10.240.0.9", "running");
  addVm(world, "node1", "10.240.0.10", "deallocated");
  elsewhere("deallocated");
  await vms.get("fresh");
  // Those of the others are not read again before their time.
  expect(await all()).toEqual(["running", "running", "running"]);
});
