import { describe, expect, test } from "bun:test";

import { InstanceNotFoundError } from "cloud-controller-host/sdk";

import type { AzureSimulator } from "../../../../plugins/azure-cloud/simulator/simulator.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { countOf, instanceID, nodeOf, openWorld, type TestCloud, type World } from "../world.ts";

const compute = "/providers/Microsoft.Compute";
const network = "/providers/Microsoft.Network";
const vmID = (name: string): string =>
  `azure:///subscriptions/sub0/resourceGroups/rg0${compute}/virtualMachines/${name}`;

interface VmOptions {
  readonly zone?: string;
  readonly publicIP?: boolean;
  readonly computerName?: string;
  readonly scaleSet?: string;
  readonly availabilitySet?: string;
  readonly powerState?: string;
  readonly faultDomain?: number;
  readonly provisioningState?: string;
  /** Resource group of the network interface. */
  readonly nicGroup?: string;
  /** ID of an existing public address. */
  readonly publicIPId?: string;
}

/** A virtual machine with an interface and, on request, a public address. */
function addVm(simulator: AzureSimulator, name: string, options: VmOptions = {}): void {
  const { zone, publicIP, computerName, scaleSet, availabilitySet, powerState, faultDomain } = options;
  const { provisioningState, nicGroup = "rg0" } = options;
  const address = publicIP
    ? simulator.put(`${network}/publicIPAddresses/${name}-pip`, { properties: { ipAddress: "52.0.0.1" } })
    : undefined;
  const publicIPId = address?.id ?? options.publicIPId;
  const configuration = {
    name: "ipconfig0",
    properties: {
      primary: true,
      privateIPAddress: "10.240.0.9",
      ...(publicIPId === undefined ? {} : { publicIPAddress: { id: publicIPId } }),
    },
  };
  const other = { name: "second", properties: { privateIPAddress: "10.240.0.10" } };
  const nic = simulator.put(`/subscriptions/sub0/resourceGroups/${nicGroup}${network}/networkInterfaces/${name}-nic`, {
    properties: { ipConfigurations: [other, configuration] },
  });
  const idOf = (type: string, set: string): { readonly id: string } => ({
    id: `/subscriptions/sub0/resourceGroups/rg0${compute}/${type}/${set}`,
  });
  simulator.put(`${compute}/virtualMachines/${name}`, {
    ...(zone === undefined ? {} : { zones: [zone] }),
    properties: {
      ...(provisioningState === undefined ? {} : { provisioningState }),
      hardwareProfile: { vmSize: "Basic_A0" },
      osProfile: { computerName: computerName ?? name },
      networkProfile: { networkInterfaces: [{ id: nic.id }] },
      ...(scaleSet === undefined ? {} : { virtualMachineScaleSet: idOf("virtualMachineScaleSets", scaleSet) }),
      ...(availabilitySet === undefined ? {} : { availabilitySet: idOf("availabilitySets", availabilitySet) }),
      instanceView: {
        ...(faultDomain === undefined ? {} : { platformFaultDomain: faultDomain }),
        statuses: [{ code: "ProvisioningState/succeeded" }, { code: `PowerState/${powerState ?? "running"}` }],
      },
    },
  });
}

/** The power state changes in ARM; only a fresh read may depend on it at once. */
async function seesShutdown(world: World, cloud: TestCloud, name: string, options: VmOptions = {}): Promise<void> {
  const node = nodeOf(name, { providerID: vmID(name) });
  const isShutDown = (read: "cached" | "fresh"): Promise<boolean> => cloud.instances.instanceShutdown(node, { read });
  expect(await isShutDown("cached")).toBe(false);
  addVm(world.simulator, name, { ...options, powerState: "deallocated" });
  expect(await isShutDown("cached")).toBe(false);
  expect(await isShutDown("fresh")).toBe(true);
}

const standard = { ipv4: 24, ipv6: 64 };
const tagRows = [
  ["both tags", { kubernetesNodeCIDRMaskIPV4: "26", kubernetesNodeCIDRMaskIPV6: "80" }, { ipv4: 26, ipv6: 80 }],
  ["only the IPv4 tag", { kubernetesNodeCIDRMaskIPV4: "24" }, { ipv4: 24, ipv6: 0 }],
  [
    "an IPv4 tag that is not a number",
    { kubernetesNodeCIDRMaskIPV4: "abc", kubernetesNodeCIDRMaskIPV6: "64" },
    { ipv4: 0, ipv6: 64 },
  ],
] as const;

describe("standalone virtual machines", () => {
  test("a VM in a zone has upstream's metadata", async () => {
    await using world = await openWorld({ location: "westus2" });
    addVm(world.simulator, "vm", { zone: "1", publicIP: true });
    await using cloud = await world.create({ vmType: "standard" });
    expect(await cloud.instances.instanceMetadata(nodeOf("vm"))).toEqual({
      providerID: vmID("vm"),
      instanceType: "Basic_A0",
      nodeAddresses: [
        { type: "InternalIP", address: "10.240.0.9" },
        { type: "Hostname", address: "vm" },
        { type: "ExternalIP", address: "52.0.0.1" },
      ],
      zone: "westus2-1",
      region: "westus2",
    });
  });

  test("many VMs cost one list of each kind", async () => {
    await using world = await openWorld();
    const names = Array.from({ length: 100 }, (_, index) => `vm${index}`);
    for (const name of names) addVm(world.simulator, name, { publicIP: true });
    await using cloud = await world.create({ vmType: "standard" });
    world.simulator.clearLog();
    await Promise.all(names.map((name) => cloud.instances.instanceMetadata(nodeOf(name))));
    expect(world.simulator.requests().map((line) => line.slice(line.lastIndexOf("/") + 1))).toEqual([
      "virtualMachines",
      "networkInterfaces",
      "publicIPAddresses",
    ]);
  });

  test("a VM of which ARM leaves the hardware profile out has no metadata, and is not taken for a missing one", async () => {
    await using world = await openWorld();
    world.simulator.put(`${compute}/virtualMachines/vm`, { properties: {} });
    await using cloud = await world.create({ vmType: "standard" });
    const incomplete = { message: expect.stringMatching(/the hardware profile of .*vm is empty/) };
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("vm")))).toMatchObject(incomplete);
    expect(await errorOf(cloud.instances.instanceExists(nodeOf("vm"), { read: "fresh" }))).toMatchObject(incomplete);
  });

  test("outside zones the fault domain is 0, as upstream has it", async () => {
    await using world = await openWorld();
    addVm(world.simulator, "vm", { faultDomain: 2 });
    await using cloud = await world.create({ vmType: "standard" });
    expect((await cloud.instances.instanceMetadata(nodeOf("vm")))?.zone).toBe("0");
  });

  test("a deallocated VM is shut down", async () => {
    await using world = await openWorld();
    addVm(world.simulator, "up");
    addVm(world.simulator, "down", { powerState: "deallocated" });
    await using cloud = await world.create({ vmType: "standard" });
    const isShutDown = (name: string): Promise<boolean> =>
      cloud.instances.instanceShutdown(nodeOf(name, { providerID: vmID(name) }));
    expect(await Promise.all([isShutDown("up"), isShutDown("down"), isShutDown("none")])).toEqual([false, true, false]);
  });

  test("a fresh read sees a shutdown that the cached view does not have yet", async () => {
    await using world = await openWorld();
    addVm(world.simulator, "vm0");
    await using cloud = await world.create({ vmType: "standard" });
    await seesShutdown(world, cloud, "vm0");
  });

  test("finds the interface in its own resource group", async () => {
    await using world = await openWorld();
    world.simulator.addResourceGroup("rg-network");
    addVm(world.simulator, "vm0", { nicGroup: "rg-network" });
    await using cloud = await world.create({ vmType: "standard" });
    const metadata = await cloud.instances.instanceMetadata(nodeOf("vm0"));
    expect(metadata?.nodeAddresses[0]).toEqual({ type: "InternalIP", address: "10.240.0.9" });
    expect(countOf(world.simulator, "/rg-network/providers/Microsoft.Network/networkInterfaces")).toBe(1);
  });

  test("lists a public address in the subscription that its id names", async () => {
    await using world = await openWorld();
    addVm(world.simulator, "vm0", {
      publicIPId: `/subscriptions/sub1/resourceGroups/rg0${network}/publicIPAddresses/elsewhere`,
    });
    await using cloud = await world.create({ vmType: "standard", networkResourceSubscriptionID: "sub1" });
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("vm0")))).toMatchObject({
      code: "SubscriptionNotFound",
    });
    const lists = world.simulator.log.filter(({ path }) => path.endsWith("/publicIPAddresses"));
    expect(new Set(lists.map(({ path }) => path.split("/")[2]))).toEqual(new Set(["sub1"]));
  });

  test("a deleted VM does not exist, by provider ID and by name", async () => {
    await using world = await openWorld({ pageSize: 1 });
    for (const name of ["vm0", "vm1", "vm2"]) addVm(world.simulator, name);
    await using cloud = await world.create({ vmType: "standard" });
    const exists = (name: string, providerID = ""): Promise<boolean> =>
      cloud.instances.instanceExists(nodeOf(name, { providerID }), { read: "fresh" });
    expect(await exists("vm1", vmID("vm1"))).toBe(true);
    expect(await exists("vm1")).toBe(true);
    world.simulator.delete(`${compute}/virtualMachines/vm1`);
    expect(await exists("vm1", vmID("vm1"))).toBe(false);
    expect(await exists("vm1")).toBe(false);
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("vm1")))).toBeInstanceOf(InstanceNotFoundError);
  });

  test.each(["standard", "vmssflex"])("a VM that is being deleted does not exist, with vmType %s", async (vmType) => {
    await using world = await openWorld();
    addVm(world.simulator, "vm0", { provisioningState: "deleting" });
    addVm(world.simulator, "vm1", { provisioningState: "Updating" });
    await using cloud = await world.create({ vmType });
    const exists = (name: string): Promise<boolean> =>
      cloud.instances.instanceExists(nodeOf(name, { providerID: vmID(name) }), { read: "fresh" });
    expect(await Promise.all(["vm0", "vm1"].map(exists))).toEqual([false, true]);
  });

  test.each(["standard", "vmssflex"])(
    "an instance of a uniform scale set is an error, not absent, with vmType %s",
    async (vmType) => {
      await using world = await openWorld();
      await world.simulator.addInstances(1);
      await using cloud = await world.create({ vmType });
      const node = nodeOf("vmss0000000", { providerID: instanceID(0) });
      const message = expect.stringContaining("error splitting providerID");
      expect(await errorOf(cloud.instances.instanceExists(node))).toMatchObject({ message });
      expect(await errorOf(cloud.instances.instanceExists(node, { read: "fresh" }))).toMatchObject({ message });
      expect(await errorOf(cloud.instances.instanceShutdown(node))).toMatchObject({ message });
    },
  );

  test("interfaces are listed beside the VMs of a node with a provider ID", async () => {
    await using world = await openWorld({ pageSize: 1 });
    for (const name of ["vm0", "vm1", "vm2"]) addVm(world.simulator, name, { zone: "1" });
    await using cloud = await world.create();
    world.simulator.setLatency(5);
    world.simulator.clearLog();
    await cloud.instances.instanceMetadata(nodeOf("vm2", { providerID: vmID("vm2") }));
    const paths = world.simulator.log.map(({ path }) => path.slice(path.lastIndexOf("/") + 1));
    expect(paths.indexOf("networkInterfaces")).toBeLessThan(2);
    expect(paths).toHaveLength(6);
  });

  test("a node has its metadata before the later pages of VMs and interfaces have been read", async () => {
    await using world = await openWorld({ pageSize: 1 });
    const names = ["vm0", "vm1", "vm2"];
    for (const name of names) addVm(world.simulator, name, { zone: "1" });
    await using cloud = await world.create({ vmType: "standard" });
    world.simulator.setLatency(300);
    const lookups = names.map((name) => cloud.instances.instanceMetadata(nodeOf(name, { providerID: vmID(name) })));
    const lists = ["/virtualMachines", "/networkInterfaces"];
    const counts = (): readonly number[] => lists.map((path) => countOf(world.simulator, path));
    while (counts().includes(0)) await Bun.sleep(1);
    const holds = lists.map((path) => world.simulator.hold({ path }));
    expect((await lookups[0])?.providerID).toBe(vmID("vm0"));
    expect(counts()).toEqual([1, 1]);
    for (const hold of holds) hold.release();
    world.simulator.setLatency(0);
    expect((await Promise.all(lookups)).map((metadata) => metadata?.providerID)).toEqual(names.map(vmID));
    expect(counts()).toEqual([3, 3]);
  });

  describe("pod CIDR sizes from the tags of an availability set", () => {
    test.each(tagRows)("%s", async (_name, tags, masks) => {
      await using world = await openWorld();
      world.simulator.put(`${compute}/availabilitySets/as`, { tags });
      addVm(world.simulator, "vm", { availabilitySet: "as" });
      await using cloud = await world.create({ vmType: "standard" });
      expect(await cloud.nodeMasks.nodeMasks(nodeOf("vm", { providerID: vmID("vm") }))).toEqual(masks);
    });

    test("are the standard ones without a set, and an error where the VM or its set is not found", async () => {
      await using world = await openWorld();
      addVm(world.simulator, "alone");
      addVm(world.simulator, "astray", { availabilitySet: "missing" });
      await using cloud = await world.create({ vmType: "standard" });
      const masks = (name: string) => cloud.nodeMasks.nodeMasks(nodeOf(name, { providerID: vmID(name) }));
      expect(await masks("alone")).toEqual(standard);
      for (const name of ["absent", "astray"]) expect(await errorOf(masks(name))).toBeInstanceOf(InstanceNotFoundError);
    });

    test("are an error for a provider ID that does not name a VM", async () => {
      await using world = await openWorld();
      await using cloud = await world.create({ vmType: "standard" });
      const providerID = vmID("vm").replace("virtualMachines", "disks");
      expect(await errorOf(cloud.nodeMasks.nodeMasks(nodeOf("vm", { providerID })))).toMatchObject({
        message: expect.stringContaining("error splitting providerID"),
      });
    });
  });
});

describe("virtual machines of flexible scale sets", () => {
  test("are found by computer name, with zone and power state from one list per scale set", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "flex", orchestrationMode: "Flexible" });
    for (const index of [0, 1, 2])
      addVm(world.simulator, `flex_${index}a`, {
        scaleSet: "flex",
        computerName: `flexvm00000${index}`,
        faultDomain: index,
        powerState: index === 2 ? "stopped" : "running",
      });
    await using cloud = await world.create({ vmType: "vmssflex" });
    const nodes = [0, 1, 2].map((index) => nodeOf(`flexvm00000${index}`, { providerID: vmID(`flex_${index}a`) }));
    const found = await Promise.all(
      nodes.map((node) => cloud.instances.instanceMetadata(nodeOf(node.metadata?.name ?? ""))),
    );
    expect(found.map((metadata) => metadata?.zone)).toEqual(["0", "1", "2"]);
    expect(found[1]?.providerID).toBe(vmID("flex_1a"));
    const shutDown = await Promise.all(nodes.map((node) => cloud.instances.instanceShutdown(node)));
    expect(shutDown).toEqual([false, false, true]);
    expect(countOf(world.simulator, "/virtualMachines")).toBe(2);
  });

  test("a fresh read sees a shutdown that the list of views does not have yet", async () => {
    await using world = await openWorld();
    const options = { scaleSet: "flex" };
    world.simulator.put(`${compute}/virtualMachineScaleSets/flex`, { properties: { orchestrationMode: "Flexible" } });
    addVm(world.simulator, "vm0", options);
    await using cloud = await world.create({ vmType: "vmssflex" });
    await seesShutdown(world, cloud, "vm0", options);
  });

  test("fails for a VM with neither zone nor fault domain", async () => {
    await using world = await openWorld();
    addVm(world.simulator, "flex_0", { scaleSet: "flex" });
    await using cloud = await world.create({ vmType: "vmssflex" });
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("flex_0")))).toMatchObject({
      message: expect.stringContaining("failed to get zone info"),
    });
  });

  describe("pod CIDR sizes from the tags of a flexible scale set", () => {
    test.each(tagRows)("%s", async (_name, tags, masks) => {
      await using world = await openWorld();
      world.simulator.addScaleSet({ name: "flex", orchestrationMode: "Flexible", tags });
      addVm(world.simulator, "flex_0", { scaleSet: "flex" });
      await using cloud = await world.create({ vmType: "vmssflex" });
      expect(await cloud.nodeMasks.nodeMasks(nodeOf("flex_0", { providerID: vmID("flex_0") }))).toEqual(masks);
    });

    test("are an error where the scale set is not found", async () => {
      await using world = await openWorld();
      addVm(world.simulator, "flex_0", { scaleSet: "missing" });
      await using cloud = await world.create({ vmType: "vmssflex" });
      const masks = cloud.nodeMasks.nodeMasks(nodeOf("flex_0", { providerID: vmID("flex_0") }));
      expect(await errorOf(masks)).toBeInstanceOf(InstanceNotFoundError);
    });
  });
});

describe("clusters with several kinds of VMs", () => {
  test("finds each node among its own kind", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    addVm(world.simulator, "alone", { zone: "2" });
    addVm(world.simulator, "flex_0", { scaleSet: "flex", computerName: "flex000000", zone: "3" });
    await using cloud = await world.create();
    const zoneOf = async (name: string): Promise<string | undefined> =>
      (await cloud.instances.instanceMetadata(nodeOf(name)))?.zone;
    expect(await Promise.all(["vmss0000000", "alone", "flex000000"].map(zoneOf))).toEqual([
      "eastus-1",
      "eastus-2",
      "eastus-3",
    ]);
    const node = nodeOf("alone", { providerID: vmID("alone") });
    expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
    expect(await cloud.instances.instanceExists(nodeOf("nobody000000"), { read: "fresh" })).toBe(false);
  });

  test("looks for a node of a flexible scale set among virtual machines only", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "flex", orchestrationMode: "Flexible" });
    addVm(world.simulator, "flex_0", { scaleSet: "flex", computerName: "flex000000", zone: "3" });
    await using cloud = await world.create();
    expect((await cloud.instances.instanceMetadata(nodeOf("flex000000")))?.providerID).toBe(vmID("flex_0"));
    expect(countOf(world.simulator, "/flex/virtualMachines")).toBe(0);
  });

  test("never lists virtual machines where every node is a scale set instance", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create({ disableAvailabilitySetNodes: true });
    expect(await cloud.instances.instanceExists(nodeOf("nobody000000"))).toBe(false);
    expect(countOf(world.simulator, "/Microsoft.Compute/virtualMachines")).toBe(0);
  });
});
