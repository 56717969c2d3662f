import { describe, expect, test } from "bun:test";

import { InstanceNotFoundError } from "cloud-controller-host/sdk";

import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import { countOf, errorOf, nodeOf, openWorld } from "./world.ts";

const compute = "/providers/Microsoft.Compute";
const network = "/providers/Microsoft.Network";
const machineID = (name: string): string =>
  `azure:///subscriptions/sub0/resourceGroups/rg0${compute}/virtualMachines/${name}`;

interface MachineOptions {
  readonly zone?: string;
  readonly publicIP?: boolean;
  readonly computerName?: string;
  readonly scaleSet?: string;
  readonly availabilitySet?: string;
  readonly powerState?: string;
  readonly faultDomain?: number;
}

/** A virtual machine with an interface and, on request, a public address. */
function addMachine(simulator: AzureSimulator, name: string, options: MachineOptions = {}): void {
  const { zone, publicIP, computerName, scaleSet, availabilitySet, powerState, faultDomain } = options;
  const address = publicIP
    ? simulator.put(`${network}/publicIPAddresses/${name}-pip`, { properties: { ipAddress: "52.0.0.1" } })
    : undefined;
  const configuration = {
    name: "ipconfig0",
    properties: {
      primary: true,
      privateIPAddress: "10.240.0.9",
      ...(address === undefined ? {} : { publicIPAddress: { id: address.id } }),
    },
  };
  const other = { name: "second", properties: { privateIPAddress: "10.240.0.10" } };
  const nic = simulator.put(`${network}/networkInterfaces/${name}-nic`, {
    properties: { ipConfigurations: [other, configuration] },
  });
  const idOf = (type: string, set: string): { readonly id: string } => ({
    id: `/subscriptions/sub0/resourceGroups/rg0${compute}/${type}/${set}`,
  });
  simulator.put(`${compute}/virtualMachines/${name}`, {
    ...(zone === undefined ? {} : { zones: [zone] }),
    properties: {
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

const standard = { ipv4: 24, ipv6: 64 };
const tagRows = [
  ["both tags", { kubernetesNodeCIDRMaskIPV4: "26", kubernetesNodeCIDRMaskIPV6: "80" }, { ipv4: 26, ipv6: 80 }],
  ["only the IPv4 tag", { kubernetesNodeCIDRMaskIPV4: "24" }, { ipv4: 24, ipv6: 0 }],
  [
    "an IPv4 tag that is no number",
    { kubernetesNodeCIDRMaskIPV4: "abc", kubernetesNodeCIDRMaskIPV6: "64" },
    { ipv4: 0, ipv6: 64 },
  ],
] as const;

describe("single machines", () => {
  test("a machine in a zone has upstream's metadata", async () => {
    await using world = await openWorld({ location: "westus2" });
    addMachine(world.simulator, "vm", { zone: "1", publicIP: true });
    await using cloud = await world.create({ vmType: "standard" });
    expect(await cloud.instances.instanceMetadata(nodeOf("vm"))).toEqual({
      providerID: machineID("vm"),
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

  test("many machines cost one list of each kind", async () => {
    await using world = await openWorld();
    const names = Array.from({ length: 100 }, (_, index) => `vm${index}`);
    for (const name of names) addMachine(world.simulator, name, { publicIP: true });
    await using cloud = await world.create({ vmType: "standard" });
    world.simulator.clearLog();
    await Promise.all(names.map((name) => cloud.instances.instanceMetadata(nodeOf(name))));
    expect(world.simulator.requests().map((line) => line.slice(line.lastIndexOf("/") + 1))).toEqual([
      "virtualMachines",
      "networkInterfaces",
      "publicIPAddresses",
    ]);
  });

  test("outside zones the fault domain is 0, as upstream has it", async () => {
    await using world = await openWorld();
    addMachine(world.simulator, "vm", { faultDomain: 2 });
    await using cloud = await world.create({ vmType: "standard" });
    expect((await cloud.instances.instanceMetadata(nodeOf("vm")))?.zone).toBe("0");
  });

  test("a machine that is shut down is seen as that", async () => {
    await using world = await openWorld();
    addMachine(world.simulator, "up");
    addMachine(world.simulator, "down", { powerState: "deallocated" });
    await using cloud = await world.create({ vmType: "standard" });
    const isShutDown = (name: string): Promise<boolean> =>
      cloud.instances.instanceShutdown(nodeOf(name, { providerID: machineID(name) }));
    expect(await Promise.all([isShutDown("up"), isShutDown("down"), isShutDown("none")])).toEqual([false, true, false]);
  });

  test("a machine that is gone does not exist, by its provider ID and by its name", async () => {
    await using world = await openWorld({ pageSize: 1 });
    for (const name of ["vm0", "vm1", "vm2"]) addMachine(world.simulator, name);
    await using cloud = await world.create({ vmType: "standard" });
    const exists = (name: string, providerID = ""): Promise<boolean> =>
      cloud.instances.instanceExists(nodeOf(name, { providerID }), { read: "fresh" });
    expect(await exists("vm1", machineID("vm1"))).toBe(true);
    expect(await exists("vm1")).toBe(true);
    world.simulator.delete(`${compute}/virtualMachines/vm1`);
    expect(await exists("vm1", machineID("vm1"))).toBe(false);
    expect(await exists("vm1")).toBe(false);
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("vm1")))).toBeInstanceOf(InstanceNotFoundError);
  });

  describe("pod CIDR sizes come from the availability set's tags (TestGetNodeCIDRMasksByProviderIDAvailabilitySet)", () => {
    test.each(tagRows)("%s", async (_name, tags, masks) => {
      await using world = await openWorld();
      world.simulator.put(`${compute}/availabilitySets/as`, { tags });
      addMachine(world.simulator, "vm", { availabilitySet: "as" });
      await using cloud = await world.create({ vmType: "standard" });
      expect(await cloud.nodeMasks.nodeMasks(nodeOf("vm", { providerID: machineID("vm") }))).toEqual(masks);
    });

    test("and are the standard ones where there is no such set, or nothing is known of the machine", async () => {
      await using world = await openWorld();
      addMachine(world.simulator, "alone");
      await using cloud = await world.create({ vmType: "standard" });
      for (const name of ["alone", "nobody"])
        expect(await cloud.nodeMasks.nodeMasks(nodeOf(name, { providerID: machineID(name) }))).toEqual(standard);
    });

    test("but for a provider ID that names no machine they are an error", async () => {
      await using world = await openWorld();
      await using cloud = await world.create({ vmType: "standard" });
      const providerID = machineID("vm").replace("virtualMachines", "disks");
      expect(await errorOf(cloud.nodeMasks.nodeMasks(nodeOf("vm", { providerID })))).toMatchObject({
        message: expect.stringContaining("error splitting providerID"),
      });
    });
  });
});

describe("machines of flexible scale sets", () => {
  test("are found by computer name, and zone and power come from one list a scale set", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "flex", orchestrationMode: "Flexible" });
    for (const index of [0, 1, 2])
      addMachine(world.simulator, `flex_${index}a`, {
        scaleSet: "flex",
        computerName: `flexvm00000${index}`,
        faultDomain: index,
        powerState: index === 2 ? "stopped" : "running",
      });
    await using cloud = await world.create({ vmType: "vmssflex" });
    const nodes = [0, 1, 2].map((index) => nodeOf(`flexvm00000${index}`, { providerID: machineID(`flex_${index}a`) }));
    const found = await Promise.all(
      nodes.map((node) => cloud.instances.instanceMetadata(nodeOf(node.metadata?.name ?? ""))),
    );
    expect(found.map((metadata) => metadata?.zone)).toEqual(["0", "1", "2"]);
    expect(found[1]?.providerID).toBe(machineID("flex_1a"));
    const shutDown = await Promise.all(nodes.map((node) => cloud.instances.instanceShutdown(node)));
    expect(shutDown).toEqual([false, false, true]);
    expect(countOf(world.simulator, "/virtualMachines")).toBe(2);
  });

  test("a machine with neither zone nor fault domain is an error", async () => {
    await using world = await openWorld();
    addMachine(world.simulator, "flex_0", { scaleSet: "flex" });
    await using cloud = await world.create({ vmType: "vmssflex" });
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("flex_0")))).toMatchObject({
      message: expect.stringContaining("failed to get zone info"),
    });
  });

  describe("pod CIDR sizes come from the flexible scale set's tags (TestGetNodeCIDRMasksByProviderIDVmssFlex)", () => {
    test.each(tagRows)("%s", async (_name, tags, masks) => {
      await using world = await openWorld();
      world.simulator.addScaleSet({ name: "flex", orchestrationMode: "Flexible", tags });
      addMachine(world.simulator, "flex_0", { scaleSet: "flex" });
      await using cloud = await world.create({ vmType: "vmssflex" });
      expect(await cloud.nodeMasks.nodeMasks(nodeOf("flex_0", { providerID: machineID("flex_0") }))).toEqual(masks);
    });
  });
});

describe("clusters of several kinds of machines", () => {
  test("each node is found as what it is", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    addMachine(world.simulator, "alone", { zone: "2" });
    addMachine(world.simulator, "flex_0", { scaleSet: "flex", computerName: "flex000000", zone: "3" });
    await using cloud = await world.create();
    const zoneOf = async (name: string): Promise<string | undefined> =>
      (await cloud.instances.instanceMetadata(nodeOf(name)))?.zone;
    expect(await Promise.all(["vmss0000000", "alone", "flex000000"].map(zoneOf))).toEqual([
      "eastus-1",
      "eastus-2",
      "eastus-3",
    ]);
    const node = nodeOf("alone", { providerID: machineID("alone") });
    expect(await cloud.instances.instanceExists(node, { read: "fresh" })).toBe(true);
    expect(await cloud.instances.instanceExists(nodeOf("nobody000000"), { read: "fresh" })).toBe(false);
  });

  test("where every node is a scale-set instance, virtual machines are never listed", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create({ disableAvailabilitySetNodes: true });
    expect(await cloud.instances.instanceExists(nodeOf("nobody000000"))).toBe(false);
    expect(countOf(world.simulator, "/Microsoft.Compute/virtualMachines")).toBe(0);
  });
});
