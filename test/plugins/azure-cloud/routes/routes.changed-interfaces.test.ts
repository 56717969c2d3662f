import { expect, test } from "bun:test";

import type { Node, Route } from "cloud-controller-host/sdk";

import { jumpingClock } from "../../../kit/clocks.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { openGatewayTo } from "../arm/gateway.ts";
import { countOf, nodeOf, openWorld, type TestCloud, type World } from "../world.ts";

const compute = "/providers/Microsoft.Compute";
const network = "/providers/Microsoft.Network";
const settings = { routeTableName: "rt0", vmType: "standard" };
const providerID = `azure:///subscriptions/sub0/resourceGroups/rg0${compute}/virtualMachines/node0`;
const [ipv4, ipv6] = ["10.244.5.0/24", "fd00:10:244::/64"];

/** Gives the VM of node0 an interface with these addresses, the first of which is primary. */
function setAddresses({ simulator }: World, ...addresses: readonly string[]): void {
  const ipConfigurations = addresses.map((privateIPAddress, index) => ({
    name: `ipconfig${index}`,
    properties: {
      primary: index === 0,
      privateIPAddress,
      privateIPAddressVersion: privateIPAddress.includes(":") ? "IPv6" : "IPv4",
    },
  }));
  simulator.put(`${network}/networkInterfaces/nic0`, { properties: { ipConfigurations } });
}

function addVm(world: World, ...addresses: readonly string[]): void {
  setAddresses(world, ...addresses);
  world.simulator.put(`${compute}/virtualMachines/node0`, {
    properties: {
      hardwareProfile: { vmSize: "Basic_A0" },
      osProfile: { computerName: "node0" },
      networkProfile: {
        networkInterfaces: [{ id: `/subscriptions/sub0/resourceGroups/rg0${network}/networkInterfaces/nic0` }],
      },
    },
  });
}

const nodeAt = (...addresses: readonly string[]): Node => ({
  ...nodeOf("node0"),
  spec: { providerID, podCIDRs: [ipv4, ipv6] },
  status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
});

const create = (cloud: TestCloud, destinationCIDR: string, targetNode = "node0"): Promise<void> => {
  const route: Route = { name: "", targetNode, destinationCIDR };
  return cloud.routes.createRoute("kubernetes", "", route);
};

const hops = async (world: World): Promise<readonly (string | undefined)[]> => {
  const { routes = [] } = await (await world.clients()).network.routeTables.get("rg0", "rt0");
  return routes.map(({ nextHopIpAddress }) => nextHopIpAddress);
};

test("a route is created as soon as the interface of its node has an address of the family", async () => {
  await using world = await openWorld();
  addVm(world, "10.240.0.4");
  world.nodes.push(nodeAt("10.240.0.4"));
  await using cloud = await world.create(settings);
  await create(cloud, ipv4);
  expect(await errorOf(create(cloud, ipv6))).toMatchObject({ code: "PrivateIPNotFound" });
  setAddresses(world, "10.240.0.4", "fd00::4");
  await create(cloud, ipv6);
  expect(await hops(world)).toEqual(["10.240.0.4", "fd00::4"]);
});

test("a route to an instance of a scale set is created as soon as its interface has an address of the family", async () => {
  await using world = await openWorld();
  world.simulator.addScaleSet({ name: "dual", dualStack: true });
  world.simulator.addScaleSetInstances("dual", 1);
  await using gateway = await openGatewayTo(world);
  await using cloud = await world.create({ routeTableName: "rt0", ...gateway.changes });
  const withoutIPv6 = (body: unknown): unknown =>
    JSON.parse(JSON.stringify(body).replaceAll(/"privateIPAddress":"[^"]*:[^"]*",/gu, ""));
  gateway.rewrite(({ pathname }, _method, body) =>
    pathname.endsWith("/networkInterfaces") ? withoutIPv6(body) : undefined,
  );
  expect(await errorOf(create(cloud, ipv6, "dual000000"))).toMatchObject({ code: "PrivateIPNotFound" });
  gateway.rewrite(() => undefined);
  await create(cloud, ipv6, "dual000000");
  expect(await hops(world)).toEqual([expect.stringContaining(":")]);
});

test("a route leads to the present address of a node whose interface has got another one since the last list", async () => {
  await using world = await openWorld();
  addVm(world, "10.240.0.4", "fd00::4");
  world.nodes.push(nodeAt("10.240.0.4", "fd00::4"));
  await using cloud = await world.create(settings);
  await Promise.all([create(cloud, ipv4), create(cloud, ipv6)]);
  setAddresses(world, "10.240.0.77", "fd00::77");
  world.nodes.splice(0, 1, nodeAt("10.240.0.77", "fd00::77"));
  await cloud.routes.listRoutes("kubernetes");
  expect(await hops(world)).toEqual(["10.240.0.77", "fd00::77"]);
});

test("a route of a node that reports an address of its interface costs no new list of interfaces, however it is spelled", async () => {
  await using world = await openWorld();
  addVm(world, "10.240.0.4", "fd00:0:0:0::4", "10.240.0.5");
  await using cloud = await world.create(settings);
  await create(cloud, ipv4);
  world.simulator.clearLog();
  for (const addresses of [[], ["10.240.0.4", "fd00::4"], ["10.240.0.5"]]) {
    world.nodes.splice(0, 1, nodeAt(...addresses));
    await Promise.all([create(cloud, ipv4), create(cloud, ipv6)]);
    await cloud.routes.listRoutes("kubernetes");
  }
  expect(countOf(world.simulator, "/networkInterfaces")).toBe(0);
});

test("a node whose addresses are not those of its primary interface costs one new list of interfaces in ten minutes, not one per pass", async () => {
  await using world = await openWorld();
  addVm(world, "10.240.0.4");
  const clock = jumpingClock();
  await using cloud = await world.create({ ...settings, vmssFlexVMCacheTTLInSeconds: 86_400 }, { clock });
  await create(cloud, ipv4);
  for (const address of ["10.241.0.9", "10.241.0.10"]) {
    world.simulator.clearLog();
    world.nodes.splice(0, 1, nodeAt(address));
    for (let pass = 0; pass < 3; pass++) await cloud.routes.listRoutes("kubernetes");
    expect(countOf(world.simulator, "/networkInterfaces")).toBe(1);
  }
  expect(await hops(world)).toEqual(["10.240.0.4"]);
  clock.jump(590_000);
  world.simulator.clearLog();
  await cloud.routes.listRoutes("kubernetes");
  expect(countOf(world.simulator, "/networkInterfaces")).toBe(0);
  clock.jump(10_000);
  setAddresses(world, "10.241.0.10");
  await cloud.routes.listRoutes("kubernetes");
  expect(await hops(world)).toEqual(["10.241.0.10"]);
});
