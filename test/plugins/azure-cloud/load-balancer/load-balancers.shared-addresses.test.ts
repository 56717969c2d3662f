import { describe, expect, setDefaultTimeout, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../kit/rejection.ts";
import { addressesOf } from "../../../kit/services.ts";
import { azureState } from "./azure-state.ts";
import { type Cluster, type Generation, jumpingClock, openCluster, serviceOf } from "./cluster.ts";

setDefaultTimeout(120_000);

const theirs = "/providers/Microsoft.Network/publicIPAddresses/theirs";
const internal = { "azure-load-balancer-internal": "true" };

const pip = { "azure-pip-name": "theirs" };

const onPort = (name: string, port: number, annotations: Readonly<Record<string, string>> = {}): Service =>
  serviceOf(name, { annotations, spec: { ports: [{ name: "p", protocol: "TCP", port, nodePort: 30_000 + port }] } });

const addressOf = ({ services }: Cluster, name: string): string =>
  addressesOf(services.get(`default/${name}`))[0] ?? "";

/** Annotations by which Services share an address; those of the first one, and those of one that has seen its address. */
const ways = {
  "the public IP of the other one": { first: {}, next: (address: string) => ({ "azure-load-balancer-ipv4": address }) },
  "a public IP of the user": { first: { "azure-pip-name": "theirs" }, next: () => ({ "azure-pip-name": "theirs" }) },
  "the private address of the other one": {
    first: internal,
    next: (address: string) => ({ ...internal, "azure-load-balancer-ipv4": address }),
  },
};

describe("two Services that share an address", () => {
  for (const [what, { first, next }] of Object.entries(ways))
    test(`a Service that leaves ${what}, which is deleted, leaves nothing there`, async () => {
      await using cluster = await openCluster(1);
      const { simulator } = cluster.world;
      simulator.put(theirs, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
      const generation = await cluster.start();
      await cluster.ensure(generation, onPort("creator", 80, first));
      const shared = addressOf(cluster, "creator");
      await cluster.ensure(generation, onPort("guest", 443, next(shared)));
      expect(addressOf(cluster, "guest")).toBe(shared);
      await cluster.remove(generation, onPort("creator", 80, first));
      expect(azureState(simulator).frontends).toHaveLength(1);

      const own = onPort("guest", 443, first === internal ? internal : {});
      await cluster.ensure(generation, own);
      const { frontends, rules, publicIPs } = azureState(simulator);
      expect(frontends).toHaveLength(1);
      expect(rules).toEqual(frontends.map((name) => `${name}-TCP-443`));
      expect(publicIPs).toHaveLength(first === internal ? 1 : 2);
      await cluster.remove(generation, own);
      expect(azureState(simulator)).toMatchObject({ frontends: [], balancers: [], allowed: [], publicIPs: ["theirs"] });
    });
});

test("two Services that share an address and ask for different tags are done, and a restart writes nothing", async () => {
  await using cluster = await openCluster(1);
  const first = await cluster.start();
  const creator = onPort("creator", 80, { "azure-pip-tags": "a=1" });
  await cluster.ensure(first, creator);
  const guest = onPort("guest", 443, {
    "azure-pip-tags": "a=2,b=3",
    "azure-load-balancer-ipv4": addressOf(cluster, "creator"),
  });
  await cluster.ensure(first, guest);
  first.crash();
  cluster.world.simulator.clearLog();
  const next = await cluster.start();
  await Promise.all([creator, guest].map((service) => cluster.ensure(next, service)));
  expect(cluster.writes()).toEqual([]);
});

test("a Service does not get the port of an older one on its address whose security rules are being written", async () => {
  await using cluster = await openCluster(2);
  const { simulator } = cluster.world;
  simulator.put(theirs, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
  const generation = await cluster.start();
  const sharing = (name: string, port: number): Service => onPort(name, port, { "azure-pip-name": "theirs" });
  const nodes = cluster.nodes.splice(1, 1);
  await cluster.ensure(generation, sharing("a", 443));
  cluster.nodes.push(...nodes);
  const holds = ["/networkSecurityGroups/", "/publicIPAddresses/"].map((path) =>
    simulator.hold({ method: "PUT", path }),
  );
  // The load balancer waits for the public IP of one and the members of another.
  const planned = [sharing("a", 443), sharing("older", 80), serviceOf("z")];
  const ensured = planned.map((service) => cluster.ensure(generation, service));
  await eventually("the rules are in flight", () => holds.every((hold) => hold.waiting() === 1));
  simulator.clearLog();
  const work = errorOf(cluster.ensure(generation, sharing("younger", 80)));
  await Bun.sleep(500);
  expect(cluster.writes()).not.toContain("PUT loadBalancers/kubernetes");
  for (const hold of holds) hold.release();
  await Promise.all(ensured);
  expect(String(await work)).toContain("is taken by Service default/older");
  expect(azureState(simulator).rules.filter((rule) => rule.endsWith("-80"))).toHaveLength(2);
});

test.each([
  [
    "moves to an address of its own",
    (cluster: Cluster, next: Generation) => cluster.ensure(next, onPort("guest", 443)),
  ],
  ["is deleted", (cluster: Cluster, next: Generation) => cluster.remove(next, onPort("guest", 443, pip))],
])("a Service whose load balancer ARM rejects leaves no port open on a shared address when it %s", async (_, leave) => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  simulator.put(theirs, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
  const { clock, jump } = jumpingClock();
  const generation = await cluster.start({}, clock);
  await cluster.ensure(generation, onPort("creator", 80, pip));
  const open = (): readonly string[] => azureState(simulator).allowed.filter((one) => one.startsWith("20.9.9.7:"));
  expect(open()).toEqual(["20.9.9.7:80"]);
  const quota = { status: 400, code: "LoadBalancerRuleCountLimitReached" };
  simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, quota);
  expect(await errorOf(cluster.ensure(generation, onPort("guest", 443, pip)))).toBeDefined();
  await eventually("its port is open", () => open().join().includes("443") && simulator.underway() === 0);
  await Bun.sleep(200);
  // A deletion trusts no read that is less than a minute older than a write.
  jump(61_000);
  await leave(cluster, generation);
  expect(open()).toEqual(["20.9.9.7:80"]);
});

test.each([
  ["is deleted", (cluster: Cluster, next: Generation) => cluster.remove(next, onPort("guest", 443))],
  ["becomes internal", (cluster: Cluster, next: Generation) => cluster.ensure(next, onPort("guest", 443, internal))],
])("a Service without rules keeps its frontend when one that shares its address %s", async (_, leave) => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start();
  await cluster.ensure(generation, onPort("creator", 80, { port_80_no_lb_rule: "true" }));
  const { balancers, frontends, allowed } = azureState(simulator);
  const shared = { "azure-load-balancer-ipv4": addressOf(cluster, "creator") };
  await cluster.ensure(generation, onPort("guest", 443, shared));
  await leave(cluster, generation);
  const state = azureState(simulator);
  expect(state.balancers).toEqual(expect.arrayContaining([...balancers]));
  expect(state.frontends.filter((one) => one.startsWith("kubernetes/"))).toEqual([...frontends]);
  expect(state.allowed).toEqual(allowed);
});

const fixed = (address: string) => ({ ...internal, "azure-load-balancer-ipv4": address });

describe("two Services with the same port that exchange their addresses", () => {
  for (const [what, first, second] of [
    ["public IPs", { "azure-pip-name": "theirs" }, { "azure-pip-name": "others" }],
    ["private addresses", fixed("10.240.0.100"), fixed("10.240.0.101")],
  ] as const)
    for (const order of ["at once", "one after the other"])
      test(`have the ${what} of each other after a retry of each, if asked for ${order}`, async () => {
        await using cluster = await openCluster(1);
        const { simulator } = cluster.world;
        for (const [name, ipAddress] of Object.entries({ theirs: "20.9.9.7", others: "20.9.9.8" }))
          simulator.put(theirs.replace("theirs", name), { sku: { name: "Standard" }, properties: { ipAddress } });
        const generation = await cluster.start();
        const ensure = (...asked: readonly (readonly [string, Readonly<Record<string, string>>])[]) =>
          Promise.allSettled(asked.map(([name, wish]) => cluster.ensure(generation, onPort(name, 80, wish))));
        await ensure(["a", first], ["b", second]);
        const before = ["a", "b"].map((name) => addressOf(cluster, name));
        const { frontends, rules, allowed } = azureState(simulator);
        const attempt = async (): Promise<void> => {
          if (order === "at once") await ensure(["a", second], ["b", first]);
          else
            for (const one of [
              ["a", second],
              ["b", first],
            ] as const)
              await ensure(one);
        };
        await attempt();
        await attempt();
        expect(["b", "a"].map((name) => addressOf(cluster, name))).toEqual(before);
        expect(azureState(simulator)).toMatchObject({ frontends, rules, allowed });
        simulator.clearLog();
        await attempt();
        expect(cluster.writes()).toEqual([]);
      });
});

test("two Services that exchange their ports on a shared address, one after the other, have them at once", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  simulator.put(theirs, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
  const generation = await cluster.start();
  await Promise.all([
    cluster.ensure(generation, onPort("a", 80, pip)),
    cluster.ensure(generation, onPort("b", 81, pip)),
  ]);
  simulator.clearLog();
  expect(String(await errorOf(cluster.ensure(generation, onPort("a", 81, pip))))).toContain("is taken by Service");
  await cluster.ensure(generation, onPort("b", 80, pip));
  expect(cluster.writes()).toEqual(["PUT loadBalancers/kubernetes"]);
  await cluster.ensure(generation, onPort("a", 81, pip));
  expect(cluster.writes()).toHaveLength(1);
  expect(azureState(simulator).allowed).toEqual(["20.9.9.7:80", "20.9.9.7:81"]);
});
