import { describe, expect, test } from "bun:test";

import { keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { objectAt, objectsAt } from "../../../../plugins/azure-cloud/json.ts";
import type { Resource } from "../../../../plugins/azure-cloud/simulator/state/store.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { azureState, expectConverged } from "./azure-state.ts";
import { type Cluster, fast, openCluster, serviceOf } from "./cluster.ts";

const waitMs = 60_000;
const balancerPath = "/providers/Microsoft.Network/loadBalancers/kubernetes";
const internal = { "azure-load-balancer-internal": "true" };

const canceled = { status: 409, code: "Canceled", stage: "operation" } as const;

/** Tries again like the service controller; resolves once it has succeeded. */
const retried = (what: string, work: () => Promise<void>): Promise<unknown> =>
  eventually(what, async () => (await errorOf(work())) === undefined, waitMs);

const addressesOf = ({ services }: Cluster, service: Service): readonly string[] =>
  services.get(keyOf(service))?.status?.loadBalancer?.ingress?.flatMap(({ ip }) => ip ?? []) ?? [];

const statusesOf = ({ world }: Cluster): readonly number[] =>
  world.simulator.log.flatMap(({ method, status }) => (method === "PUT" ? [status] : []));

describe("the process that takes over with reads from before the other's last write", () => {
  for (const status of [412, 409])
    test(`gives its Service an address after a ${status}, and nothing of the other's is lost`, async () => {
      await using cluster = await openCluster(2);
      const [first, next] = [await cluster.start({}, fast(100)), await cluster.start({}, fast(100))];
      const own = serviceOf("own");
      await cluster.ensure(first, serviceOf("before"));
      await cluster.ensure(next, serviceOf("before"));
      await cluster.ensure(first, serviceOf("after"));
      first.crash();
      const { simulator } = cluster.world;
      simulator.clearLog();
      if (status === 409)
        simulator.failNext({ method: "PUT", path: balancerPath }, { status, code: "AnotherOperationInProgress" });
      await cluster.ensure(next, own);
      expect(statusesOf(cluster)).toContain(status);
      expect(addressesOf(cluster, own)).toHaveLength(1);
      expectConverged(cluster);
    });
});

describe("a list that lacks its last page", () => {
  for (const type of ["loadBalancers", "publicIPAddresses"])
    test(`a list of ${type} that lacks its last page takes nothing from any Service`, async () => {
      await using cluster = await openCluster(2, { pageSize: 2 });
      const first = await cluster.start();
      const services = ["a", "b", "c"].map((name) => serviceOf(name));
      for (const service of services) await cluster.ensure(first, service);
      const inside = serviceOf("inside", { annotations: internal });
      await cluster.ensure(first, inside);
      first.crash();
      const before = azureState(cluster.world.simulator);
      const isOf = (one: Resource): boolean => one.type.toLowerCase().endsWith(`/${type.toLowerCase()}`);
      cluster.world.simulator.changeLists((all) => {
        const kept = all.filter(isOf).slice(0, Math.ceil(all.filter(isOf).length / 2));
        return all.filter((one) => !isOf(one) || kept.includes(one));
      });
      const next = await cluster.start({}, fast(100));
      cluster.world.simulator.clearLog();
      for (const service of [...services, inside]) await cluster.ensure(next, service);
      // What the list lacks is read by its name: nothing is tried that ARM would have to refuse.
      expect(cluster.writes()).toEqual([]);
      expect(azureState(cluster.world.simulator)).toEqual(before);
    });
});

test("a load balancer that a person deletes between the plan and the write is created again with the Services of all", async () => {
  await using cluster = await openCluster(2);
  const generation = await cluster.start({}, fast(100));
  await cluster.ensure(generation, serviceOf("first"));
  const { simulator } = cluster.world;
  const hold = simulator.hold({ method: "PUT", path: balancerPath });
  const ensured = errorOf(cluster.ensure(generation, serviceOf("second")));
  await eventually("the load balancer is being written", () => hold.waiting() === 1);
  simulator.delete(balancerPath);
  hold.release();
  await ensured;
  for (const name of ["second", "first"]) await retried(name, () => cluster.ensure(generation, serviceOf(name)));
  expectConverged(cluster);
});

describe("an operation that ARM cancels after ten minutes", () => {
  test.each([
    ["a public IP", /publicIPAddresses\/kubernetes-a/u],
    ["a load balancer", /loadBalancers\/kubernetes$/u],
    ["the security group", /networkSecurityGroups\/nsg0$/u],
    ["an instance", /virtualMachines\/1$/u],
  ])(
    "an operation of %s that ARM cancels after ten minutes is repeated, and its Service does not fail",
    async (what, path) => {
      await using cluster = await openCluster(2, { operationPolls: 1 });
      const { simulator } = cluster.world;
      // Ten minutes take 60 ms.
      const generation = await cluster.start({}, fast(10_000));
      await cluster.ensure(generation, serviceOf("other", { annotations: internal }));
      simulator.failNext({ method: "PUT", path }, canceled);
      simulator.clearLog();
      const operation = simulator.hold({ method: "GET", path: "/operations/" });
      const ensured = cluster.ensure(generation, serviceOf("web"));
      await eventually(`${what} is being written`, () => operation.waiting() > 0);
      await Bun.sleep(60);
      operation.release();
      await ensured;
      expect(simulator.log.filter((one) => one.method === "PUT" && path.test(one.path))).not.toHaveLength(1);
      await eventually("what was canceled is written again", () => {
        expectConverged(cluster);
        return true;
      });
    },
  );
});

describe("two Services with one public IP by name", () => {
  const mine = "/providers/Microsoft.Network/publicIPAddresses/mine";
  const named = (name: string, port: number): Service =>
    serviceOf(name, {
      annotations: { "azure-pip-name": "mine" },
      spec: { ports: [{ name: "http", protocol: "TCP", port, nodePort: 30_000 + port }] },
    });

  test("two Services with one public IP by name share its frontend, and the one that stays keeps it", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    simulator.put(mine, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
    const generation = await cluster.start();
    const both = [named("a", 80), named("b", 81)];
    await Promise.all(both.map((service) => cluster.ensure(generation, service)));
    expect(both.flatMap((service) => addressesOf(cluster, service))).toEqual(["20.9.9.7", "20.9.9.7"]);
    expect(azureState(simulator).frontends).toHaveLength(1);
    await cluster.remove(generation, named("a", 80));
    const state = azureState(simulator);
    expect([state.frontends.length, state.rules.length, state.allowed]).toEqual([1, 1, ["20.9.9.7:81"]]);
    await cluster.remove(generation, named("b", 81));
    expect([azureState(simulator).balancers, azureState(simulator).allowed]).toEqual([[], []]);
    expect(simulator.get(mine)).toBeDefined();
  });

  test("two Services with one public IP by name and the same port: the older one has it, and the other fails until it is deleted", async () => {
    await using cluster = await openCluster(1);
    cluster.world.simulator.put(mine, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
    const generation = await cluster.start();
    const [first, late] = [named("a", 80), named("b", 80)];
    const errors = await Promise.all([first, late].map((service) => errorOf(cluster.ensure(generation, service))));
    expect(errors.map((error) => error === undefined)).toEqual([true, false]);
    await cluster.remove(generation, first);
    await cluster.ensure(generation, late);
    expect(azureState(cluster.world.simulator).rules).toHaveLength(1);
  });
});

test("a dual-stack Service whose second family is removed and added again has an address of each, and nothing is left of the first time", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
  const of = (...ipFamilies: string[]): Service => serviceOf("web", { spec: { ipFamilies } });
  await cluster.ensure(generation, of("IPv4", "IPv6"));
  const both = azureState(cluster.world.simulator);
  expect([addressesOf(cluster, of()).length, both.publicIPs.length, both.frontends.length]).toEqual([2, 2, 2]);
  await cluster.ensure(generation, of("IPv4"));
  const single = azureState(cluster.world.simulator);
  expect([addressesOf(cluster, of()).length, single.publicIPs.length, single.frontends.length]).toEqual([1, 1, 1]);
  await cluster.ensure(generation, of("IPv4", "IPv6"));
  const { allowed: _addresses, ...again } = azureState(cluster.world.simulator);
  const { allowed: _former, ...before } = both;
  expect(again).toEqual(before);
  expect(addressesOf(cluster, of())).toHaveLength(2);
  await cluster.remove(generation, of("IPv4", "IPv6"));
  expect(Object.values(azureState(cluster.world.simulator)).flat()).toEqual([]);
});

test("a security rule that a person has opened to every source is closed by the next process, in one write", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const path = "/providers/Microsoft.Network/networkSecurityGroups/nsg0";
  const rules = () => objectsAt(simulator.get(path)?.properties, "securityRules");
  const web = serviceOf("web", { spec: { loadBalancerSourceRanges: ["192.0.2.0/24", "198.51.100.0/24"] } });
  const first = await cluster.start();
  await cluster.ensure(first, web);
  first.crash();
  const before = rules().map((rule) => objectAt(rule, "properties"));
  const opened = rules().map((rule) => {
    const { sourceAddressPrefixes: _ranges, ...properties } = objectAt(rule, "properties") ?? {};
    return { ...rule, properties: { ...properties, sourceAddressPrefix: "*" } };
  });
  simulator.put(path, { properties: { ...simulator.get(path)?.properties, securityRules: opened } });
  simulator.clearLog();
  const next = await cluster.start();
  await cluster.ensure(next, web);
  expect(rules().map((rule) => objectAt(rule, "properties"))).toEqual(before);
  await cluster.ensure(next, web);
  expect(cluster.writes()).toEqual(["PUT networkSecurityGroups/nsg0"]);
});
