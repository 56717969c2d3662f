import { describe, expect, test } from "bun:test";

import { InstanceNotFoundError, type Metrics, type Route } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import type { AzureSimulator } from "../../../../plugins/azure-cloud/simulator/simulator.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { fast } from "../load-balancer/cluster.ts";
import { countOf, instanceID, nodeOf, openWorld, type TestCloud, type World } from "../world.ts";

const tablePath = "/providers/Microsoft.Network/routeTables/rt0";
const settings = { routeTableName: "rt0" };

const routeTo = (index: number, name = `vmss000000${index}`): Route => ({
  name: "",
  targetNode: name,
  destinationCIDR: `10.244.${index}.0/24`,
});
const armRoute = (name: string, addressPrefix: string, nextHopIpAddress: string) => ({
  name,
  properties: { addressPrefix, nextHopType: "VirtualAppliance", nextHopIpAddress },
});

/** The routes in ARM as `name prefix nextHop`. */
const stored = async (world: World, name = "rt0", group = "rg0"): Promise<readonly string[]> => {
  const table = await (await world.clients()).network.routeTables.get(group, name);
  return (table.routes ?? []).map((route) => `${route.name} ${route.addressPrefix} ${route.nextHopIpAddress}`);
};
const putsOf = (simulator: AzureSimulator) =>
  simulator.log.filter(({ method, path }) => method === "PUT" && path.includes("/routeTables/"));
const getsOf = (simulator: AzureSimulator): number =>
  simulator.log.filter(({ method, path }) => method === "GET" && path.includes("/routeTables/")).length;

async function createAll(cloud: TestCloud, routes: readonly Route[]): Promise<void> {
  await Promise.all(routes.map((route) => cloud.routes.createRoute("kubernetes", "", route)));
}

describe("creating a route", () => {
  test("writes the routes of many nodes with one PUT, guarded by the etag, and keeps other owners' routes", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(3);
    world.simulator.put(tablePath, {
      location: "eastus",
      tags: { team: "net" },
      properties: { disableBgpRoutePropagation: true, routes: [armRoute("users", "192.168.0.0/16", "10.9.9.9")] },
    });
    await using cloud = await world.create(settings);
    await createAll(
      cloud,
      [0, 1, 2].map((index) => routeTo(index)),
    );
    expect(await stored(world)).toEqual([
      "users 192.168.0.0/16 10.9.9.9",
      "vmss0000000____102440024 10.244.0.0/24 10.240.0.4",
      "vmss0000001____102441024 10.244.1.0/24 10.240.0.5",
      "vmss0000002____102442024 10.244.2.0/24 10.240.0.6",
    ]);
    const puts = putsOf(world.simulator);
    expect(puts).toHaveLength(1);
    expect(puts[0]?.ifMatch).toMatch(/./u);
    const table = await (await world.clients()).network.routeTables.get("rg0", "rt0");
    expect(table).toMatchObject({ tags: { team: "net" }, disableBgpRoutePropagation: true });
  });

  test("does not write a route that exists already", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create(settings);
    await createAll(cloud, [routeTo(0)]);
    await createAll(cloud, [routeTo(0)]);
    expect(putsOf(world.simulator)).toHaveLength(1);
    await using restarted = await world.create(settings);
    await createAll(restarted, [routeTo(0)]);
    expect(putsOf(world.simulator)).toHaveLength(1);
  });

  test("creates a missing table with its routes in one PUT", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create({ routeTableName: "made-here" });
    await createAll(cloud, [routeTo(0), routeTo(1)]);
    expect(putsOf(world.simulator)).toHaveLength(1);
    expect(await stored(world, "made-here")).toHaveLength(2);
    expect((await (await world.clients()).network.routeTables.get("rg0", "made-here")).location).toBe("eastus");
    expect(world.logged.map(({ message }) => message)).toContain("Created route table");
  });

  test("reads the table again after another writer changed it, and keeps that change", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create(settings);
    await cloud.routes.listRoutes("kubernetes");
    world.simulator.put(tablePath, { properties: { routes: [armRoute("users", "192.168.0.0/16", "10.9.9.9")] } });
    await createAll(cloud, [routeTo(0)]);
    expect(putsOf(world.simulator).map(({ status }) => status < 300)).toEqual([false, true]);
    expect(putsOf(world.simulator)[0]?.status).toBe(412);
    expect(await stored(world)).toEqual([
      "users 192.168.0.0/16 10.9.9.9",
      "vmss0000000____102440024 10.244.0.0/24 10.240.0.4",
    ]);
  });

  test("reports a failed write to every caller, and succeeds the next time", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create(settings);
    world.simulator.failNext({ method: "PUT", path: "/routeTables/" }, { status: 403, code: "AuthorizationFailed" });
    const errors = await Promise.all(
      [0, 1].map((index) => errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(index)))),
    );
    for (const error of errors) expect(error).toMatchObject({ code: "AuthorizationFailed" });
    await createAll(cloud, [routeTo(0), routeTo(1)]);
    expect(await stored(world)).toHaveLength(2);
  });

  test("repeats a write whose operation ARM cancels after ten minutes, and fails no caller", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    const { simulator } = world;
    await simulator.addInstances(2);
    // Ten minutes take 60 ms.
    await using cloud = await world.create(settings, { clock: fast(10_000) });
    simulator.failNext({ method: "PUT", path: "/routeTables/" }, { status: 409, code: "Canceled", stage: "operation" });
    const operation = simulator.hold({ method: "GET", path: "/operations/" });
    const created = createAll(cloud, [routeTo(0), routeTo(1)]);
    await eventually("the operation is polled", () => operation.waiting() > 0);
    await Bun.sleep(60);
    operation.release();
    await created;
    expect(putsOf(simulator)).toHaveLength(2);
    expect(await stored(world)).toHaveLength(2);
  });

  test("reports a failed read of the table", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create(settings);
    world.simulator.failNext({ method: "GET", path: "/routeTables/" }, { status: 403, times: 1 });
    expect(await errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(0)))).toMatchObject({ status: 403 });
    expect(putsOf(world.simulator)).toEqual([]);
  });

  test("fails for a node without an instance, and does not delay the routes of others", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create(settings);
    const missing = errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(9, "stranger")));
    await createAll(cloud, [routeTo(0)]);
    expect(await missing).toBeInstanceOf(InstanceNotFoundError);
    expect(await stored(world)).toHaveLength(1);
  });

  test("takes the first private address of the CIDR's family", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "dual", dualStack: true });
    world.simulator.addScaleSetInstances("dual", 1);
    world.nodes.push(nodeOf("dual000000", { providerID: instanceID(0, "dual") }));
    await using cloud = await world.create(settings);
    const route = (destinationCIDR: string): Route => ({ name: "", targetNode: "dual000000", destinationCIDR });
    await createAll(cloud, [route("10.244.0.0/24"), route("fd00:10:244::/64")]);
    const [v4 = "", v6 = ""] = await stored(world);
    expect(v4).toMatch(/^dual000000____102440024 10\.244\.0\.0\/24 [\d.]+$/u);
    expect(v6).toMatch(/^dual000000____fd001024464 fd00:10:244::\/64 [0-9a-f:]+$/u);
    expect(putsOf(world.simulator)).toHaveLength(1);
  });

  test("finds the instance of a node that joined after the last list", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create(settings);
    await createAll(cloud, [routeTo(0)]);
    await world.simulator.addInstances(1);
    await createAll(cloud, [routeTo(1)]);
    expect(await stored(world)).toHaveLength(2);
  });

  test("does not replace a table that another writer created meanwhile", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create({ routeTableName: "young" });
    expect(await cloud.routes.listRoutes("kubernetes")).toEqual([]);
    const users = [armRoute("users", "192.168.0.0/16", "10.9.9.9")];
    world.simulator.put(tablePath.replace("rt0", "young"), { properties: { routes: users } });
    await createAll(cloud, [routeTo(0)]);
    expect(await stored(world, "young")).toEqual([
      "users 192.168.0.0/16 10.9.9.9",
      "vmss0000000____102440024 10.244.0.0/24 10.240.0.4",
    ]);
  });

  test("fails for an IPv6 CIDR of a node without an IPv6 address", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create(settings);
    const route = { name: "", targetNode: "vmss0000000", destinationCIDR: "fd00:10:244::/64" };
    expect(await errorOf(cloud.routes.createRoute("kubernetes", "", route))).toMatchObject({
      message: "node vmss0000000 has no private IP of the family of CIDR fd00:10:244::/64",
    });
  });

  test("names routeTableName and the flag when the config has no route table", async () => {
    await using world = await openWorld();
    await using cloud = await world.create({ routeTableName: undefined });
    const error = await errorOf(cloud.routes.listRoutes("kubernetes"));
    expect(String(error)).toContain("routeTableName is required");
    expect(String(error)).toContain("--configure-cloud-routes=false");
  });

  test("uses routeTableResourceGroup", async () => {
    await using world = await openWorld();
    world.simulator.addResourceGroup("net");
    await world.simulator.addInstances(1);
    await using cloud = await world.create({ ...settings, routeTableResourceGroup: "net" });
    await createAll(cloud, [routeTo(0)]);
    expect(await stored(world, "rt0", "net")).toHaveLength(1);
    expect(await stored(world)).toEqual([]);
  });

  test("waits a tenth of a second for further changes", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const clock = manualClock();
    await using cloud = await world.create(settings, { clock });
    const created = createAll(cloud, [routeTo(0)]);
    while (clock.sleepers === 0) await Bun.sleep(1);
    await clock.advance(99);
    await Bun.sleep(30);
    expect(getsOf(world.simulator)).toBe(0);
    await clock.advance(1);
    await created;
    expect(putsOf(world.simulator)).toHaveLength(1);
  });

  test("writes after one second although changes keep arriving", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const clock = manualClock();
    await using cloud = await world.create(settings, { clock });
    const remove = (): Promise<void> => cloud.routes.deleteRoute("kubernetes", routeTo(5));
    const pending = [createAll(cloud, [routeTo(0)])];
    while (clock.sleepers === 0) await Bun.sleep(1);
    for (let waitedMs = 0; waitedMs < 1_000; waitedMs += 50) {
      expect(getsOf(world.simulator)).toBe(0);
      pending.push(remove());
      await clock.advance(50);
    }
    while (putsOf(world.simulator).length === 0) await Bun.sleep(1);
    await clock.advance(1_000);
    await Promise.all(pending);
  });

  test("a caller that leaves while its change waits takes it along", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const clock = manualClock();
    await using cloud = await world.create(settings, { clock });
    const caller = new AbortController();
    const created = errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(0), { signal: caller.signal }));
    while (clock.sleepers === 0) await Bun.sleep(1);
    caller.abort();
    expect(await created).toMatchObject({ name: "AbortError" });
    await clock.advance(1_000);
    expect(putsOf(world.simulator)).toEqual([]);
  });
});

test.each([
  [
    "tried again after one minute, then after two",
    [
      [0, 0, 1],
      [55_000, 0, 0],
      [5_000, 0, 1],
      [60_000, 0, 0],
      [60_000, 0, 1],
    ],
  ],
  [
    "forgotten when nothing has asked for it for a quarter of an hour",
    [
      [0, 0, 1],
      [950_000, 1, 1],
      [0, 0, 1],
      [60_000, 0, 0],
      [60_000, 0, 1],
      [1_200_000, 1, 1],
      [0, 0, 1],
      [60_000, 0, 1],
    ],
  ],
] as const)("a route that ARM refuses is %s", async (_what, steps) => {
  await using world = await openWorld();
  await world.simulator.addInstances(2);
  const clock = manualClock();
  await using cloud = await world.create(settings, { clock });
  world.simulator.failNext({ method: "PUT", path: "/routeTables/" }, { status: 400, times: 9 });
  const writes = async (node: number): Promise<number> => {
    world.simulator.clearLog();
    const ended = errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(node)));
    while ((await Promise.race([ended.then(() => true), Bun.sleep(1)])) !== true) await clock.advance(50);
    expect(await ended).toBeInstanceOf(Error);
    return putsOf(world.simulator).length;
  };
  const counts: number[] = [];
  for (const [pauseMs, node] of steps) {
    await clock.advance(pauseMs);
    counts.push(await writes(node));
  }
  expect(counts).toEqual(steps.map(([, , count]) => count));
});

describe("the end of a generation", () => {
  const rejected = { method: "PUT", path: "/routeTables/" };
  const unread = { method: "GET", path: "/routeTables/" };

  test.each([
    ["a write of the route table", rejected],
    ["a read of the route table", unread],
    ["a read of interfaces", { path: "/networkInterfaces" }],
  ])("ends the pause before %s is sent again: no drain waits for it", async (_what, matcher) => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const clock = manualClock();
    const generation = new AbortController();
    await using cloud = await world.create(settings, { clock, context: { signal: generation.signal } });
    world.simulator.failNext(matcher, { status: 503, times: 9 });
    const created = errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(0)));
    await eventually("it is refused", async () => {
      if (world.simulator.log.some(({ status }) => status === 503)) return true;
      await clock.advance(100);
      return false;
    });
    await Bun.sleep(50);
    generation.abort(new Error("the generation ends"));
    expect(await Promise.race([created, Bun.sleep(5_000).then(() => "still waits")])).toBeInstanceOf(Error);
  });
});

describe("deleting a route", () => {
  test("deletes the route and the one without CIDR in its name with one PUT", async () => {
    await using world = await openWorld();
    const routes = ["node____123424", "node", "node2____1"].map((name) => armRoute(name, "1.2.3.4/24", "10.0.0.4"));
    world.simulator.put(tablePath, { properties: { routes } });
    await using cloud = await world.create(settings);
    const listed = await cloud.routes.listRoutes("kubernetes");
    const route = listed.find(({ name }) => name === "node____123424");
    if (route === undefined) throw new Error("the route is not listed");
    await cloud.routes.deleteRoute("kubernetes", route);
    expect(await stored(world)).toEqual(["node2____1 1.2.3.4/24 10.0.0.4"]);
    expect(putsOf(world.simulator)).toHaveLength(1);
    expect((await cloud.routes.listRoutes("kubernetes")).map(({ name }) => name)).toEqual(["node2____1"]);
  });

  test("does not write the table when the route is not in it", async () => {
    await using world = await openWorld();
    await using cloud = await world.create(settings);
    await cloud.routes.deleteRoute("kubernetes", routeTo(0));
    expect(putsOf(world.simulator)).toEqual([]);
  });
});

describe("listing routes", () => {
  test("names the node and the CIDR of each route", async () => {
    await using world = await openWorld();
    world.simulator.put(tablePath, {
      properties: { routes: [armRoute("a____1", "10.1.0.0/24", "1.1.1.1"), armRoute("b", "10.2.0.0/24", "1.1.1.2")] },
    });
    await using cloud = await world.create(settings);
    expect(await cloud.routes.listRoutes("kubernetes")).toEqual([
      { name: "a____1", targetNode: "a", destinationCIDR: "10.1.0.0/24" },
      { name: "b", targetNode: "b", destinationCIDR: "10.2.0.0/24" },
    ]);
  });

  test("is empty without a table, also with tags configured, and nothing is written", async () => {
    await using world = await openWorld();
    await using cloud = await world.create({ routeTableName: "none", tags: "a=b" });
    expect(await cloud.routes.listRoutes("kubernetes")).toEqual([]);
    expect(putsOf(world.simulator)).toEqual([]);
  });

  test("reports an error of ARM", async () => {
    await using world = await openWorld();
    await using cloud = await world.create(settings);
    world.simulator.failNext({ path: "/routeTables/" }, { status: 403, code: "AuthorizationFailed" });
    expect(await errorOf(cloud.routes.listRoutes("kubernetes"))).toMatchObject({ code: "AuthorizationFailed" });
  });

  test("reads the table once per routeTableCacheTTLInSeconds, and knows its own writes at once", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const clock = manualClock();
    await using cloud = await world.create({ ...settings, routeTableCacheTTLInSeconds: 120 }, { clock });
    await cloud.routes.listRoutes("kubernetes");
    const created = createAll(cloud, [routeTo(0)]);
    while (clock.sleepers === 0) await Bun.sleep(1);
    await clock.advance(100);
    await created;
    expect(await cloud.routes.listRoutes("kubernetes")).toHaveLength(1);
    expect(getsOf(world.simulator)).toBe(1);
    await clock.advance(121_000);
    await cloud.routes.listRoutes("kubernetes");
    expect(getsOf(world.simulator)).toBe(2);
  });
});

test("a route table that another writer created since the last read is not replaced, if ARM ignores If-None-Match", async () => {
  await using world = await openWorld({ ignoresIfNoneMatch: true });
  await world.simulator.addInstances(1);
  world.simulator.delete(tablePath);
  await using cloud = await world.create(settings);
  expect(await cloud.routes.listRoutes("kubernetes")).toEqual([]);
  const routes = [armRoute("users", "192.168.0.0/16", "10.9.9.9")];
  world.simulator.put(tablePath, { location: "eastus", properties: { routes } });
  await cloud.routes.createRoute("kubernetes", "", routeTo(0));
  expect(await stored(world)).toEqual([
    "users 192.168.0.0/16 10.9.9.9",
    "vmss0000000____102440024 10.244.0.0/24 10.240.0.4",
  ]);
});

describe("a route table whose last operation failed", () => {
  test("is written again as it is by the next list, later and later while that fails, and each failure is logged", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    await world.simulator.addInstances(1);
    let passedMs = 0;
    const clock = { ...fast(1), monotonic: () => performance.now() + passedMs };
    await using cloud = await world.create(settings, { clock });
    const failure = { status: 500, code: "InternalServerError", stage: "operation", times: 2 } as const;
    world.simulator.failNext({ method: "PUT", path: "/routeTables/" }, failure);
    await errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(0)));
    const failures = () => world.logged.filter(({ message }) => message.includes("whose last operation failed")).length;
    for (const [waitMs, puts, logged] of [
      [0, 2, 1],
      [30_000, 2, 2],
      [30_000, 3, 2],
      [60_000, 3, 2],
    ] as const) {
      passedMs += waitMs;
      expect(await cloud.routes.listRoutes("kubernetes")).toHaveLength(1);
      expect([putsOf(world.simulator).length, failures()]).toEqual([puts, logged]);
    }
    const table = await (await world.clients()).network.routeTables.get("rg0", "rt0");
    expect(table.provisioningState).toBe("Succeeded");
  });

  test("is left alone by a list that is canceled, which fails with the reason and logs no failure of the table", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    await world.simulator.addInstances(2);
    await using cloud = await world.create(settings, { clock: fast(50) });
    const failure = { status: 500, code: "InternalServerError", stage: "operation" } as const;
    world.simulator.failNext({ method: "PUT", path: "/routeTables/" }, failure);
    await errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(0)));
    const put = world.simulator.hold({ method: "PUT", path: "/routeTables/" });
    const created = cloud.routes.createRoute("kubernetes", "", routeTo(1));
    await eventually("the table is being written", () => put.waiting() > 0);
    const stop = new AbortController();
    const listed = errorOf(cloud.routes.listRoutes("kubernetes", { signal: stop.signal }));
    await Bun.sleep(50);
    const reason = new Error("stopping");
    stop.abort(reason);
    expect(await listed).toBe(reason);
    put.release();
    await created;
    expect(world.logged.filter(({ message }) => message.includes("whose last operation failed"))).toEqual([]);
  });

  test("is written again for a route that it already shows, before the route is reported as created", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    await world.simulator.addInstances(1);
    await using cloud = await world.create(settings, { clock: fast(50) });
    const failure = { status: 500, code: "InternalServerError", stage: "operation" } as const;
    world.simulator.failNext({ method: "PUT", path: "/routeTables/" }, failure);
    await errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(0)));
    expect(await stored(world)).toHaveLength(1);
    await cloud.routes.createRoute("kubernetes", "", routeTo(0));
    expect(putsOf(world.simulator)).toHaveLength(2);
    const table = await (await world.clients()).network.routeTables.get("rg0", "rt0");
    expect(table.provisioningState).toBe("Succeeded");
  });
});

describe("routes of unmanaged nodes", () => {
  const unmanaged = nodeOf("onprem", { labels: { "kubernetes.azure.com/managed": "false" } });
  const routes = ["10.244.8.0/24", "fd00:10:244:8::/64"].map((destinationCIDR) => ({
    name: "",
    targetNode: "onprem",
    destinationCIDR,
  }));

  test("are remembered, listed and dropped without a write", async () => {
    await using world = await openWorld();
    world.nodes.push(unmanaged);
    await using cloud = await world.create(settings);
    await createAll(cloud, routes);
    const listed = await cloud.routes.listRoutes("kubernetes");
    expect(listed).toEqual(routes.map((route) => ({ ...route, name: "onprem" })));
    for (const [index, route] of listed.entries()) {
      await cloud.routes.deleteRoute("kubernetes", route);
      expect(await cloud.routes.listRoutes("kubernetes")).toEqual(listed.slice(index + 1));
    }
    expect(putsOf(world.simulator)).toEqual([]);
  });

  test("are dropped without a write after the node was deleted", async () => {
    await using world = await openWorld();
    world.nodes.push(unmanaged);
    await using cloud = await world.create(settings);
    await createAll(cloud, routes);
    world.nodes.length = 0;
    for (const route of await cloud.routes.listRoutes("kubernetes"))
      await cloud.routes.deleteRoute("kubernetes", route);
    expect(await cloud.routes.listRoutes("kubernetes")).toEqual([]);
    expect(putsOf(world.simulator)).toEqual([]);
  });
});

test("a node that was unmanaged, or has the name of one that was, gets routes in the table", async () => {
  await using world = await openWorld();
  await world.simulator.addInstances(1);
  world.nodes.push(nodeOf("vmss0000000", { labels: { "kubernetes.azure.com/managed": "false" } }));
  await using cloud = await world.create(settings);
  await createAll(cloud, [routeTo(0)]);
  expect(await cloud.routes.listRoutes("kubernetes")).toHaveLength(1);
  world.nodes.splice(0, 1, nodeOf("vmss0000000", { providerID: instanceID(0) }));
  expect(await cloud.routes.listRoutes("kubernetes")).toEqual([]);
  await createAll(cloud, [routeTo(0)]);
  expect(await stored(world)).toEqual(["vmss0000000____102440024 10.244.0.0/24 10.240.0.4"]);
  for (const route of await cloud.routes.listRoutes("kubernetes")) await cloud.routes.deleteRoute("kubernetes", route);
  expect(await stored(world)).toEqual([]);
});

test("a route in the table stays when its node is labeled as unmanaged", async () => {
  await using world = await openWorld();
  world.simulator.put(tablePath, { properties: { routes: [armRoute("onprem____1", "10.1.0.0/24", "1.1.1.1")] } });
  world.nodes.push(nodeOf("onprem", { labels: { "kubernetes.azure.com/managed": "false" } }));
  await using cloud = await world.create(settings);
  for (const route of await cloud.routes.listRoutes("kubernetes")) await cloud.routes.deleteRoute("kubernetes", route);
  expect(await stored(world)).toHaveLength(1);
});

describe("tags of the route table", () => {
  const tagsOf = async (world: World): Promise<unknown> =>
    (await (await world.clients()).network.routeTables.get("rg0", "rt0")).tags;

  test("are added when the routes are listed, once", async () => {
    await using world = await openWorld();
    world.simulator.put(tablePath, { tags: { team: "net" }, properties: { routes: [] } });
    await using cloud = await world.create({ ...settings, tags: "a=b,c=d" });
    await cloud.routes.listRoutes("kubernetes");
    await cloud.routes.listRoutes("kubernetes");
    expect(await tagsOf(world)).toEqual({ team: "net", a: "b", c: "d" });
    expect(putsOf(world.simulator)).toHaveLength(1);
  });

  test("tags of the route table that another writer adds while ours are being written stay", async () => {
    await using world = await openWorld();
    world.simulator.put(tablePath, { tags: { team: "net" }, properties: { routes: [] } });
    await using cloud = await world.create({ ...settings, tags: "a=b" });
    const hold = world.simulator.hold({ method: "PUT", path: "/routeTables/" }, "request");
    const listed = cloud.routes.listRoutes("kubernetes");
    await eventually("the tags are being written", () => hold.waiting() > 0);
    world.simulator.put(tablePath, { tags: { team: "net", owner: "them" }, properties: { routes: [] } });
    hold.release();
    await listed;
    expect(putsOf(world.simulator).map(({ status }) => status < 300)).toEqual([false, true]);
    expect(await tagsOf(world)).toEqual({ team: "net", owner: "them", a: "b" });
  });

  test("tags of the route table that are neither wanted nor kept by systemTags are removed", async () => {
    await using world = await openWorld();
    world.simulator.put(tablePath, { tags: { team: "net", "keep-1": "x" }, properties: { routes: [] } });
    await using cloud = await world.create({ ...settings, tags: "a=b", systemTags: "keep" });
    await cloud.routes.listRoutes("kubernetes");
    expect(await tagsOf(world)).toEqual({ "keep-1": "x", a: "b" });
  });

  test("are left alone in another resource group", async () => {
    await using world = await openWorld();
    world.simulator.addResourceGroup("net");
    world.simulator.put("/subscriptions/sub0/resourceGroups/net/providers/Microsoft.Network/routeTables/rt0", {
      properties: { routes: [] },
    });
    await using cloud = await world.create({ ...settings, routeTableResourceGroup: "net", tags: "a=b" });
    await cloud.routes.listRoutes("kubernetes");
    expect(putsOf(world.simulator)).toEqual([]);
  });

  test("tags of the route table that cannot be written do not keep routes from being listed", async () => {
    await using world = await openWorld();
    world.simulator.put(tablePath, { properties: { routes: [armRoute("a____1", "10.1.0.0/24", "1.1.1.1")] } });
    await using cloud = await world.create({ ...settings, tags: "a=b" });
    world.simulator.failNext({ method: "PUT" }, { status: 403, code: "AuthorizationFailed" });
    expect(await cloud.routes.listRoutes("kubernetes")).toHaveLength(1);
    expect(world.logged).toContainEqual(
      expect.objectContaining({ level: "warn", message: "Failed to update the tags of the route table" }),
    );
  });
});

describe("next hops", () => {
  /** The node as its kubelet and the node controller have it. */
  const addressed = (address: string) => ({
    ...nodeOf("vmss0000000", { providerID: instanceID(0) }),
    spec: { providerID: instanceID(0), podCIDRs: ["10.244.0.0/24"] },
    status: { addresses: [{ type: "InternalIP", address }] },
  });
  const outdated = { properties: { routes: [armRoute("vmss0000000____102440024", "10.244.0.0/24", "10.9.9.9")] } };

  test("next hops that are not an address of their node are corrected when the routes are listed, once", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    world.simulator.put(tablePath, outdated);
    world.nodes.push(addressed("10.240.0.4"));
    await using cloud = await world.create(settings);
    expect(await cloud.routes.listRoutes("kubernetes")).toHaveLength(1);
    expect(await stored(world)).toEqual(["vmss0000000____102440024 10.244.0.0/24 10.240.0.4"]);
    await cloud.routes.listRoutes("kubernetes");
    expect(putsOf(world.simulator)).toHaveLength(1);
  });

  test("next hops that the VM still has stay, whatever address its node reports", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    world.nodes.push(addressed("10.240.0.4"));
    await using cloud = await world.create(settings);
    await createAll(cloud, [routeTo(0)]);
    world.nodes.splice(0, 1, addressed("10.240.0.99"));
    await cloud.routes.listRoutes("kubernetes");
    expect(putsOf(world.simulator)).toHaveLength(1);
  });

  test("next hops of CIDRs that their node does not have, and of nodes without an address, stay", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    world.simulator.put(tablePath, outdated);
    await using cloud = await world.create(settings);
    const node = addressed("10.240.0.4");
    for (const other of [
      { ...node, spec: { ...node.spec, podCIDRs: ["10.244.1.0/24"] } },
      { ...node, status: {} },
      { ...node, metadata: { ...node.metadata, labels: { "kubernetes.azure.com/managed": "false" } } },
    ]) {
      world.nodes.splice(0, 1, other);
      for (let pass = 0; pass < 2; pass++) expect(await cloud.routes.listRoutes("kubernetes")).toHaveLength(1);
    }
    expect(putsOf(world.simulator)).toEqual([]);
  });

  test("next hops that cannot be corrected do not keep routes from being listed", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    world.simulator.put(tablePath, outdated);
    world.nodes.push(addressed("10.240.0.4"));
    await using cloud = await world.create(settings);
    world.simulator.failNext({ method: "PUT" }, { status: 403, code: "AuthorizationFailed" });
    expect(await cloud.routes.listRoutes("kubernetes")).toHaveLength(1);
    expect(world.logged).toContainEqual(
      expect.objectContaining({ level: "warn", message: "Failed to correct the next hop of a route" }),
    );
  });
});

describe("a route table without room", () => {
  const fill = (world: World, count: number): void => {
    const routes = Array.from({ length: count }, (_, index) =>
      armRoute(`other-${index}`, `10.${index >> 8}.${index & 255}.0/24`, "10.9.9.9"),
    );
    world.simulator.put(tablePath, { properties: { routes } });
  };
  const shareOf = (used: number) => [
    "cloudprovider_azure_limit_used_ratio",
    used / 400,
    { limit: "routes", resource: "rt0" },
  ];
  const create = (cloud: TestCloud, index: number): Promise<unknown> =>
    errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(index)));

  test("gets the routes that fit; the others fail without a write, and are reported in one line", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(3);
    fill(world, 398);
    await using cloud = await world.create(settings);
    for (let pass = 0; pass < 3; pass++) {
      const errors = await Promise.all([0, 1, 2].map((index) => create(cloud, index)));
      expect(errors).toEqual([undefined, undefined, expect.objectContaining({ code: "RouteTableFull" })]);
    }
    expect(putsOf(world.simulator)).toHaveLength(1);
    expect(world.logged.filter(({ message }) => message.startsWith("Route table is full"))).toHaveLength(1);
    await cloud.routes.deleteRoute("kubernetes", routeTo(0));
    expect(await create(cloud, 2)).toBeUndefined();
  });

  test("a route table without room reports the share of its routes in use when it is read and when it is written", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    fill(world, 319);
    const shares: unknown[] = [];
    const metrics: Metrics = {
      counter: () => ({ inc: () => undefined }),
      gauge: ({ name }) => ({ set: (value, labels) => void shares.push([name, value, labels]) }),
      histogram: () => ({ observe: () => undefined }),
    };
    await using cloud = await world.create(settings, { context: { metrics } });
    await cloud.routes.listRoutes("kubernetes");
    expect(await create(cloud, 0)).toBeUndefined();
    expect(shares).toEqual([319, 320].map((used) => shareOf(used)));
  });

  test("a route whose name Azure would refuse as too long is not written, and the others are", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create(settings);
    const long = { ...routeTo(0), targetNode: "n".repeat(64), destinationCIDR: "fd12:2433:e132::/64" };
    expect(await errorOf(cloud.routes.createRoute("kubernetes", "", long))).toMatchObject({
      code: "LimitReached",
      message: expect.stringContaining("would have 82 characters, 80 at most; use shorter VM names"),
    });
    const longest = { ...long, targetNode: "n".repeat(62) };
    const noInstance = { message: expect.stringContaining("not found") };
    expect(await errorOf(cloud.routes.createRoute("kubernetes", "", longest))).toMatchObject(noInstance);
    expect(putsOf(world.simulator)).toEqual([]);
    expect(await create(cloud, 0)).toBeUndefined();
  });

  test("a route table without room with more routes than Azure allows elsewhere is written: its limit is ARM's to know", async () => {
    await using world = await openWorld({ limits: { routes: 500 } });
    await world.simulator.addInstances(1);
    fill(world, 401);
    await using cloud = await world.create(settings);
    expect(await create(cloud, 0)).toBeUndefined();
  });

  test("costs a write only now and then for a route that ARM has rejected, until another one is deleted", async () => {
    await using world = await openWorld({ limits: { routes: 1 } });
    await world.simulator.addInstances(2);
    const clock = fast(100);
    await using cloud = await world.create(settings, { clock });
    expect(await create(cloud, 0)).toBeUndefined();
    world.simulator.clearLog();
    for (let pass = 0; pass < 3; pass++)
      expect(await create(cloud, 1)).toMatchObject({ code: "RouteCountLimitReached" });
    expect(putsOf(world.simulator)).toHaveLength(1);
    await clock.sleep(60_000);
    for (let pass = 0; pass < 3; pass++)
      expect(await create(cloud, 1)).toMatchObject({ code: "RouteCountLimitReached" });
    expect(putsOf(world.simulator)).toHaveLength(2);
    await cloud.routes.deleteRoute("kubernetes", routeTo(0));
    expect(await create(cloud, 1)).toBeUndefined();
  });

  test("a route that ARM has rejected does not keep those of other nodes from being written with one PUT", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(3);
    world.simulator.put(tablePath, { properties: { routes: [armRoute("users", "10.244.1.0/24", "10.9.9.9")] } });
    await using cloud = await world.create(settings);
    expect(await create(cloud, 1)).toMatchObject({ code: "RouteConflict" });
    world.simulator.clearLog();
    expect(await Promise.all([0, 2].map((index) => create(cloud, index)))).toEqual([undefined, undefined]);
    expect(putsOf(world.simulator)).toHaveLength(1);
  });

  test("does not cost every excess route a write in every pass", async () => {
    await using world = await openWorld({ limits: { routes: 5 } });
    await world.simulator.addInstances(25);
    await using cloud = await world.create(settings);
    const names = world.simulator.instances("vmss0").map(({ computerName }) => computerName.toLowerCase());
    const puts: number[] = [];
    for (let pass = 0; pass < 4; pass++) {
      world.simulator.clearLog();
      await Promise.all(
        names.map((name, index) => errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(index, name)))),
      );
      puts.push(putsOf(world.simulator).length);
    }
    expect(await stored(world)).toHaveLength(5);
    expect(puts.at(-1)).toBe(0);
  });
});

test("a write of the route table that never ends fails after ten minutes, and the next one is sent", async () => {
  const real = globalThis.setTimeout;
  // Ten minutes are 300 ms.
  globalThis.setTimeout = Object.assign(
    (work: () => void, ms?: number) => real(work, (ms ?? 0) >= 500_000 ? 300 : ms),
    real,
  );
  try {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    await using cloud = await world.create(settings);
    const hold = world.simulator.hold({ method: "PUT", path: "/routeTables/" });
    expect(await errorOf(cloud.routes.createRoute("kubernetes", "", routeTo(0)))).toMatchObject({
      code: "OperationTimeout",
    });
    hold.release();
    await createAll(cloud, [routeTo(1)]);
  } finally {
    globalThis.setTimeout = real;
  }
});

test("route operations are timed and failures counted under upstream's names", async () => {
  await using world = await openWorld();
  await world.simulator.addInstances(1);
  await using cloud = await world.create(settings);
  await createAll(cloud, [routeTo(0)]);
  world.simulator.failNext({ method: "PUT" }, { status: 403 });
  await errorOf(cloud.routes.deleteRoute("kubernetes", routeTo(0)));
  const labels = (request: string): string =>
    `{request=${request},resource_group=rg0,subscription_id=sub0,source=vmss0000000}`;
  expect(world.measured.filter((line) => line.includes("_op_"))).toEqual([
    `cloudprovider_azure_op_duration_seconds${labels("routes_create_route")}`,
    `cloudprovider_azure_op_failure_count${labels("routes_delete_route")}`,
    `cloudprovider_azure_op_duration_seconds${labels("routes_delete_route")}`,
  ]);
  expect(countOf(world.simulator, "/routeTables/rt0")).toBeGreaterThan(0);
});
