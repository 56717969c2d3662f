import { describe, expect, test } from "bun:test";

import { keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../../kit/rejection.ts";
import { azureState, expectConverged } from "../azure-state.ts";
import { type Cluster, fast, jumpingClock, openCluster, serviceOf } from "../cluster.ts";

const internal = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-load-balancer-internal": "true" } });
const securityGroup = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/networkSecurityGroups/nsg0";
const externalBalancer = /\/loadBalancers\/kubernetes$/u;
const publicIPOf = ({ metadata }: Service): string =>
  `publicIPAddresses/kubernetes-a${metadata?.uid?.replaceAll("-", "").slice(0, 31)}`;
const many = (count: number, name: string): readonly Service[] =>
  Array.from({ length: count }, (_, index) => serviceOf(`${name}-${index}`));
const writesTo = (cluster: Cluster, part: string): readonly string[] =>
  cluster.writes().filter((write) => write.includes(part));

test("a Service that changes while it is being read is not done before its change is carried out", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({ disableAPICallCache: true });
  await cluster.ensure(generation, serviceOf("web"));
  simulator.clearLog();
  const hold = simulator.hold({ method: "GET", path: /\/loadBalancers$/u });
  const unchanged = cluster.ensure(generation, serviceOf("web"));
  await eventually("it is being read", () => hold.waiting() === 1);
  const ports = [{ protocol: "TCP", port: 81, nodePort: 31_081 }];
  const changed = cluster.ensure(generation, serviceOf("web", { spec: { ports } }));
  await Bun.sleep(50);
  hold.release();
  await Promise.all([unchanged, changed]);
  expect(writesTo(cluster, "PUT loadBalancers/")).toHaveLength(1);
  expectConverged(cluster);
});

test("a Service whose deletion is requested while it is being read is not done before it is deleted", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({ disableAPICallCache: true });
  const web = serviceOf("web");
  await cluster.ensure(generation, web);
  const hold = simulator.hold({ method: "GET", path: /\/loadBalancers$/u });
  const unchanged = errorOf(generation.balancers.ensureLoadBalancer("kubernetes", web, cluster.nodes));
  await eventually("it is being read", () => hold.waiting() === 1);
  const deleted = generation.balancers.ensureLoadBalancerDeleted("kubernetes", web);
  hold.release();
  await Promise.all([unchanged, deleted]);
  expect(azureState(simulator).frontends).toEqual([]);
});

test("nothing that a Service wants no more when it has been read is written", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({ disableAPICallCache: true });
  const ports = (port: number) => ({ spec: { ports: [{ protocol: "TCP", port, nodePort: 31_000 + port }] } });
  await cluster.ensure(generation, serviceOf("web", ports(80)));
  simulator.clearLog();
  const hold = simulator.hold({ method: "GET", path: /\/loadBalancers$/u });
  const work = cluster.ensure(generation, serviceOf("web", ports(81)));
  await eventually("it is being read", () => hold.waiting() === 1);
  cluster.services.set("default/web", { ...cluster.services.get("default/web"), ...serviceOf("web", ports(80)) });
  hold.release();
  await work;
  expect(cluster.writes()).toEqual([]);
});

test("a Service whose public IP has no address yet fails until Azure shows it", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const mine = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/publicIPAddresses/mine";
  simulator.put(mine, { sku: { name: "Standard" }, properties: { ipAddress: "" } });
  const generation = await cluster.start({ disableAPICallCache: true });
  const web = serviceOf("web", { annotations: { "azure-pip-name": "mine" } });
  expect(await errorOf(cluster.ensure(generation, web))).toMatchObject({ code: "NotSettled" });
  expect(cluster.services.get(keyOf(web))?.status).toBeUndefined();
});

test("a load balancer that another writer sets back each time is written six times for a Service, which then fails", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
  const write = { method: "PUT", path: /\/loadBalancers\/kubernetes$/u };
  const generation = await cluster.start({ disableAPICallCache: true }, jumpingClock().clock);
  await cluster.ensure(generation, serviceOf("web"));
  const former = simulator.get(id);
  if (former === undefined) throw new Error("missing: load balancer");
  simulator.clearLog();
  let hold = simulator.hold(write, "response");
  const other = errorOf(cluster.ensure(generation, serviceOf("other")));
  const settled = other.then(() => "settled");
  while ((await Promise.race([settled, Bun.sleep(5)])) === undefined) {
    if (hold.waiting() === 0) continue;
    simulator.put(id, former);
    hold.release();
    // The reply would wait for the next hold as well.
    await Bun.sleep(0);
    hold = simulator.hold(write, "response");
  }
  hold.release();
  expect(await other).toMatchObject({ code: "NotSettled" });
  await cluster.ensure(generation, serviceOf("web"));
  expect(cluster.writes().filter((one) => one === "PUT loadBalancers/kubernetes")).toHaveLength(6);
});

test("a new pool gets members where pools of other writers are left alone", async () => {
  await using cluster = await openCluster(2);
  const generation = await cluster.start({ preConfiguredBackendPoolLoadBalancerTypes: "all" });
  await cluster.ensure(generation, serviceOf("web"));
  expect(writesTo(cluster, "virtualMachines/")).toHaveLength(2);
});

describe("a Service whose write takes minutes", () => {
  test("a Service whose write takes minutes and which is narrowed meanwhile is not opened to its former sources", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start({}, fast(100));
    const ranged = (range: string): Service => serviceOf("web", { spec: { loadBalancerSourceRanges: [range] } });
    const hold = simulator.hold({ method: "PUT", path: "/publicIPAddresses/" });
    const work = errorOf(cluster.ensure(generation, ranged("203.0.113.0/24")));
    await eventually("the write is in flight", () => hold.waiting() === 1);
    cluster.services.set("default/web", ranged("192.0.2.1/32"));
    hold.release();
    expect(await work).toBeUndefined();
    const bodies = simulator.log.filter(({ method, path }) => method === "PUT" && path.includes("SecurityGroups/"));
    expect(bodies).toHaveLength(1);
    expect(JSON.stringify(bodies)).not.toContain("203.0.113.0/24");
    expect(JSON.stringify(bodies)).toContain("192.0.2.1/32");
  });

  test.each<[string, Service]>([
    ["is deleted", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } }],
    ["is replaced by another one of its name", { metadata: { uid: "99999999-9999-4999-8999-999999999999" } }],
    ["gets another class", { metadata: {}, spec: { loadBalancerClass: "example.com/other" } }],
  ])(
    "a Service whose write takes minutes and which %s meanwhile gets nothing more, and fails",
    async (_title, change) => {
      await using cluster = await openCluster(1);
      const { simulator } = cluster.world;
      const generation = await cluster.start({}, fast(100));
      const web = serviceOf("web");
      const hold = simulator.hold({ method: "PUT", path: "/publicIPAddresses/" });
      const work = errorOf(cluster.ensure(generation, web));
      await eventually("the write is in flight", () => hold.waiting() === 1);
      cluster.services.set(keyOf(web), {
        ...web,
        metadata: { ...web.metadata, ...change.metadata },
        spec: { ...web.spec, ...change.spec },
      });
      hold.release();
      expect(String(await work)).toContain(
        "default/web is being deleted, was replaced, has changed its type to or from LoadBalancer, or has",
      );
      expect(cluster.writes()).toEqual([`PUT ${publicIPOf(web)}`]);
      await cluster.remove(generation, web);
      expect(azureState(simulator).publicIPs).toEqual([]);
    },
  );

  test("leaves everything that does not need its resource to others, while 20 more wait for that", async () => {
    await using cluster = await openCluster(2);
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    await cluster.ensure(generation, internal("inside"));
    const hold = simulator.hold({ method: "PUT", path: externalBalancer });
    const ensured = [cluster.ensure(generation, serviceOf("slow"))];
    await eventually("the write is in flight", () => hold.waiting() === 1);
    ensured.push(...many(20, "waiting").map((one) => cluster.ensure(generation, one)));
    const begun = performance.now();
    await Promise.all(many(10, "in").map(({ metadata }) => cluster.ensure(generation, internal(metadata?.name ?? ""))));
    await cluster.remove(generation, internal("inside"));
    expect(performance.now() - begun).toBeLessThan(5_000);
    expect(hold.waiting()).toBe(1);
    // Their public IPs do not wait for the load balancer.
    await eventually("they have public IPs", () => writesTo(cluster, "publicIPAddresses").length === 21);
    hold.release();
    await Promise.all(ensured);
    expect(writesTo(cluster, "loadBalancers/kubernetes").filter((one) => one.endsWith("kubernetes"))).toHaveLength(2);
    expectConverged(cluster);
  }, 120_000);
});

describe("the security rules of a Service stay while its load balancer is being written and other rules change, if", () => {
  const inside = { "azure-load-balancer-internal": "true" };
  const spec = { loadBalancerSourceRanges: ["203.0.113.0/24"] };
  const group = "/subscriptions/sub0/resourceGroups";
  const cases: Readonly<Record<string, Service>> = {
    "its public IP is its own": serviceOf("web"),
    "a user has created its public IP": serviceOf("web", { annotations: { "azure-pip-name": "mine" } }),
    "its public IP is in another resource group": serviceOf("web", {
      annotations: { "azure-pip-name": "mine", "azure-load-balancer-resource-group": "rg1" },
    }),
    "its private address is given": serviceOf("web", {
      annotations: { ...inside, "azure-load-balancer-ipv4": "10.240.0.99" },
      spec,
    }),
  };
  for (const [title, web] of Object.entries(cases))
    test(title, async () => {
      await using cluster = await openCluster(1);
      const { simulator } = cluster.world;
      simulator.addResourceGroup("rg1");
      for (const name of ["rg0", "rg1"])
        simulator.put(`${group}/${name}/providers/Microsoft.Network/publicIPAddresses/mine`, {
          sku: { name: "Standard" },
          properties: {},
        });
      const generation = await cluster.start();
      const address = (): string => cluster.services.get(keyOf(web))?.status?.loadBalancer?.ingress?.[0]?.ip ?? "none";
      const isInside = title.includes("private");
      const name = isInside ? "kubernetes-internal" : "kubernetes";
      const balancer = simulator.hold({ method: "PUT", path: new RegExp(`/loadBalancers/${name}$`, "u") });
      const ensured = cluster.ensure(generation, web);
      await eventually("its rules are written", () => writesTo(cluster, "networkSecurityGroups").length === 1);
      const rules = simulator.hold({ method: "PUT", path: "/networkSecurityGroups/" });
      const second = cluster.ensure(generation, serviceOf("other", { spec, annotations: isInside ? {} : inside }));
      await eventually("the rules of another one are being written", () => rules.waiting() === 1);
      balancer.release();
      await ensured;
      rules.release();
      await second;
      const { allowed } = azureState(simulator);
      expect(allowed.map((one) => one.split(":")[0])).toContain(address());
      expect(writesTo(cluster, "networkSecurityGroups")).toHaveLength(2);
    });
});

test("a Service is not done while a write of it is in flight, although Azure lists its effect already", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({ disableAPICallCache: true });
  await cluster.ensure(generation, serviceOf("web"));
  const hold = simulator.hold({ method: "PUT", path: "/publicIPAddresses/" }, "response");
  let isDone = false;
  const tagged = cluster.ensure(generation, serviceOf("web", { annotations: { "azure-pip-tags": "team=a" } }));
  void tagged.then(() => (isDone = true));
  await eventually("the public IP is in flight", () => hold.waiting() === 1);
  await cluster.ensure(generation, internal("other"));
  expect(isDone).toBe(false);
  hold.release();
  await tagged;
});

test("a Service that ARM has rejected is tried again apart from the others", async () => {
  await using cluster = await openCluster(1, { limits: { frontends: 2 } });
  const { simulator } = cluster.world;
  const generation = await cluster.start();
  for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
  expect(await errorOf(cluster.ensure(generation, serviceOf("bad")))).toBeDefined();
  simulator.clearLog();
  const other = serviceOf("a", { spec: { ports: [{ protocol: "TCP", port: 81, nodePort: 31_081 }] } });
  const work = errorOf(cluster.ensure(generation, serviceOf("bad")));
  await cluster.ensure(generation, other);
  expect(await work).toBeDefined();
  const puts = simulator.log.filter(({ method, path }) => method === "PUT" && externalBalancer.test(path));
  expect(puts.map(({ status }) => status)).toEqual([200, 400]);
});

test("a Service that ARM has rejected does not wait for others whose reads have failed", async () => {
  await using cluster = await openCluster(1, { limits: { frontends: 2 } });
  const { simulator } = cluster.world;
  const generation = await cluster.start({ disableAPICallCache: true });
  for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
  expect(await errorOf(cluster.ensure(generation, serviceOf("bad")))).toBeDefined();
  simulator.failNext({ method: "GET", path: /\/loadBalancers$/u }, { status: 403, code: "AuthorizationFailed" });
  const work = errorOf(cluster.ensure(generation, serviceOf("bad")));
  expect(String(await errorOf(cluster.ensure(generation, serviceOf("a"))))).toContain("AuthorizationFailed");
  expect(await work).toBeDefined();
});

describe("a Service that ARM has rejected lets others go first, while they", () => {
  const moved = (name: string): Service =>
    serviceOf(name, { spec: { ports: [{ protocol: "TCP", port: 81, nodePort: 31_081 }] } });
  const statuses = ({ world }: Cluster): readonly number[] =>
    world.simulator.log.flatMap(({ method, path, status }) =>
      method === "PUT" && externalBalancer.test(path) ? [status] : [],
    );
  const rejectedOnce = async () => {
    const cluster = await openCluster(1, { limits: { frontends: 2 } });
    const generation = await cluster.start();
    for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
    expect(await errorOf(cluster.ensure(generation, serviceOf("bad")))).toBeDefined();
    cluster.world.simulator.clearLog();
    return { cluster, generation };
  };

  test("wait for the load balancer that is in flight", async () => {
    const { cluster, generation } = await rejectedOnce();
    await using _ = cluster;
    const hold = cluster.world.simulator.hold({ method: "PUT", path: externalBalancer });
    const first = cluster.ensure(generation, moved("a"));
    await eventually("the load balancer is in flight", () => hold.waiting() === 1);
    const work = errorOf(cluster.ensure(generation, serviceOf("bad")));
    await Bun.sleep(200);
    const second = cluster.ensure(generation, moved("b"));
    await Bun.sleep(200);
    hold.release();
    await Promise.all([first, second]);
    expect(await work).toBeDefined();
    expect(statuses(cluster)).toEqual([200, 200, 400]);
  });

  test("wait for public IPs before they share it", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start({}, fast(0.1));
    const matcher = { method: "PUT", path: externalBalancer };
    simulator.failNext(matcher, { status: 400, code: "InvalidRequestFormat" });
    const bad = serviceOf("bad");
    expect(await errorOf(cluster.ensure(generation, bad))).toBeDefined();
    simulator.clearLog();
    const [one = bad, other = bad] = many(2, "new");
    const hold = simulator.hold({ method: "PUT", path: publicIPOf(other) });
    const ensured = [one, other].map((service) => cluster.ensure(generation, service));
    await eventually("one public IP is there, the other one in flight", () => {
      const isThere = simulator.log.some(({ path, status }) => status === 201 && path.endsWith(publicIPOf(one)));
      return isThere && hold.waiting() === 1;
    });
    // The load balancer waits for the other one for 2.5 s.
    await Bun.sleep(500);
    expect(writesTo(cluster, "loadBalancers/")).toEqual([]);
    ensured.push(cluster.ensure(generation, bad));
    await ensured[0];
    hold.release();
    await Promise.all(ensured);
    const puts = simulator.log.filter(({ method, path }) => method === "PUT" && externalBalancer.test(path));
    expect(JSON.stringify(puts[0])).toContain(publicIPOf(one));
    expect(JSON.stringify(puts[0])).not.toContain(publicIPOf(bad));
  }, 120_000);
});

test("a load balancer is written again after the pauses that follow conflicts, although nothing else happens", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start();
  const matcher = { method: "PUT", path: externalBalancer };
  cluster.world.simulator.failNext(matcher, { status: 412, code: "PreconditionFailed", times: 3 });
  await cluster.ensure(generation, serviceOf("web"));
  expect(writesTo(cluster, "PUT loadBalancers/")).toHaveLength(4);
  expectConverged(cluster);
});

test("members of a pool are not written while the load balancer is being written for another Service", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start();
  const first = simulator.hold({ method: "PUT", path: externalBalancer }, "response");
  const ensured = [cluster.ensure(generation, serviceOf("a"))];
  await eventually("the load balancer is in flight", () => first.waiting() === 1);
  ensured.push(cluster.ensure(generation, serviceOf("b")));
  await eventually("b has a public IP", () => writesTo(cluster, "publicIPAddresses").length === 2);
  const second = simulator.hold({ method: "PUT", path: externalBalancer });
  first.release();
  await eventually("the load balancer is in flight for b", () => second.waiting() === 1);
  await Bun.sleep(500);
  expect(writesTo(cluster, "virtualMachine")).toEqual([]);
  second.release();
  await Promise.all(ensured);
  expectConverged(cluster);
}, 120_000);

test("new Services that keep coming do not hold up the load balancer of those that are there", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start();
  await cluster.ensure(generation, serviceOf("web"));
  simulator.clearLog();
  const hold = simulator.hold({ method: "PUT", path: "/publicIPAddresses/" });
  const ports = [{ protocol: "TCP", port: 81, nodePort: 31_081 }];
  const work = [cluster.ensure(generation, serviceOf("web", { spec: { ports } }))];
  for (const one of many(100, "new")) {
    if (writesTo(cluster, "PUT loadBalancers/").length > 0) break;
    work.push(cluster.ensure(generation, one));
    await Bun.sleep(3);
  }
  expect(work.length).toBeLessThan(100);
  hold.release();
  await Promise.all(work);
  expectConverged(cluster);
}, 120_000);

describe("Services that are wanted at the same time", () => {
  test("share one write of the load balancer, one of the security group and one of each instance", async () => {
    await using cluster = await openCluster(3);
    // The wait for further ones takes five seconds, however busy the machine is.
    const generation = await cluster.start({}, fast(0.05));
    await Promise.all(many(20, "web").map((one) => cluster.ensure(generation, one)));
    const others = cluster.writes().filter((write) => !write.includes("publicIPAddresses"));
    expect(others.toSorted()).toEqual([
      "PUT loadBalancers/kubernetes",
      "PUT networkSecurityGroups/nsg0",
      "PUT virtualMachineScaleSets/vmss0",
      "PUT virtualMachines/0",
      "PUT virtualMachines/1",
      "PUT virtualMachines/2",
    ]);
  });

  test("have their load balancer written at once when the last of their public IPs is there", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    // A wait for further ones would take five seconds.
    const generation = await cluster.start({}, fast(0.05));
    const services = many(3, "web");
    const holds = services.map((one) => simulator.hold({ method: "PUT", path: publicIPOf(one) }));
    const ensured = Promise.all(services.map((one) => cluster.ensure(generation, one)));
    await eventually("all are in flight", () => holds.every((hold) => hold.waiting() === 1));
    for (const hold of holds) hold.release();
    await eventually("it is written", () => writesTo(cluster, "PUT loadBalancers/").length === 1, 3_000);
    await ensured;
    expectConverged(cluster);
  });

  test("have their load balancer read while their first public IP is being created", async () => {
    await using cluster = await openCluster(1, { operationStyle: "none" });
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    const read = (): number =>
      simulator.log.filter(({ method, path }) => method === "GET" && externalBalancer.test(path)).length;
    // As long as one Service is wanted, what is known stays.
    const slow = simulator.hold({ method: "PUT", path: publicIPOf(serviceOf("slow")) });
    const waiting = cluster.ensure(generation, serviceOf("slow"));
    for (const [index, one] of many(2, "web").entries()) {
      const hold = simulator.hold({ method: "PUT", path: publicIPOf(one) });
      const ensured = cluster.ensure(generation, one);
      await eventually("the public IP is in flight", () => hold.waiting() === 1);
      await eventually("the load balancer is read", () => read() === index + 1);
      hold.release();
      await ensured;
      expect(read()).toBe(index + 1);
    }
    slow.release();
    await waiting;
    expect(simulator.log.filter(({ status }) => status === 412)).toEqual([]);
    expectConverged(cluster);
  });

  test("have the security group and the load balancer written side by side", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    const holds = [externalBalancer, "/networkSecurityGroups/nsg0"].map((path) =>
      cluster.world.simulator.hold({ method: "PUT", path }),
    );
    const ensured = cluster.ensure(generation, serviceOf("web"));
    await eventually("both are in flight", () => holds.every((hold) => hold.waiting() === 1));
    for (const hold of holds) hold.release();
    await ensured;
    expectConverged(cluster);
  });

  test("have the instances and the model read while the load balancer is being written, and not again", async () => {
    await using cluster = await openCluster(6, { operationStyle: "none" });
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    const hold = simulator.hold({ method: "PUT", path: externalBalancer });
    const ensured = cluster.ensure(generation, serviceOf("web"));
    const reads = (path: RegExp): number =>
      simulator.log.filter((one) => one.method === "GET" && path.test(one.path)).length;
    await eventually("the load balancer is in flight", () => hold.waiting() === 1);
    await eventually("both are read", () => reads(/\/virtualMachines$/u) === 1 && reads(/Sets\/vmss0$/u) === 1);
    hold.release();
    await ensured;
    expect([reads(/\/virtualMachines$/u), reads(/Sets\/vmss0$/u)]).toEqual([1, 1]);
    const written = simulator.log.findIndex(({ method, path }) => method === "PUT" && externalBalancer.test(path));
    expect(simulator.log.slice(written).filter(({ method }) => method === "GET")).toEqual([]);
    expectConverged(cluster);
  });
});

test("a load balancer is not deleted with its last Service while the public IP of another one is being created", async () => {
  await using cluster = await openCluster(2);
  const { simulator } = cluster.world;
  const generation = await cluster.start();
  const next = serviceOf("next");
  await cluster.ensure(generation, serviceOf("last"));
  const hold = simulator.hold({ method: "PUT", path: publicIPOf(next) });
  const ensured = cluster.ensure(generation, next);
  await eventually("the public IP is in flight", () => hold.waiting() === 1);
  simulator.clearLog();
  const removed = cluster.remove(generation, serviceOf("last"));
  await eventually("its rules are removed", () => writesTo(cluster, "networkSecurityGroups").length === 1);
  await Bun.sleep(100);
  hold.release();
  await Promise.all([ensured, removed]);
  expect(cluster.writes().filter((one) => one.startsWith("DELETE loadB") || one.includes("virtualMachines/"))).toEqual(
    [],
  );
  expectConverged(cluster);
});

test("narrower source ranges of a Service do not wait for its load balancer, which is being written for another one", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start();
  const ranged = (range: string): Service => serviceOf("web", { spec: { loadBalancerSourceRanges: [range] } });
  await cluster.ensure(generation, ranged("203.0.113.0/24"));
  const hold = simulator.hold({ method: "PUT", path: externalBalancer });
  const other = cluster.ensure(generation, serviceOf("other"));
  await eventually("the load balancer is being written", () => hold.waiting() === 1);
  await cluster.ensure(generation, ranged("203.0.113.7/32"));
  expect(hold.waiting()).toBe(1);
  const { securityRules } = simulator.get(securityGroup)?.properties ?? {};
  expect(JSON.stringify(securityRules)).toContain("203.0.113.7/32");
  expect(JSON.stringify(securityRules)).not.toContain("203.0.113.0/24");
  hold.release();
  await other;
  expectConverged(cluster);
});

test("a load balancer is deleted with its last Service after 10 s, although the public IP of another one is not there", async () => {
  await using cluster = await openCluster(2);
  const next = serviceOf("next");
  const generation = await cluster.start({}, fast(20));
  await cluster.ensure(generation, serviceOf("last"));
  const hold = cluster.world.simulator.hold({ method: "PUT", path: publicIPOf(next) });
  const ensured = cluster.ensure(generation, next);
  await eventually("the public IP is in flight", () => hold.waiting() === 1);
  const begun = performance.now();
  await cluster.remove(generation, serviceOf("last"));
  expect(writesTo(cluster, "DELETE loadBalancers/kubernetes")).toHaveLength(1);
  // The lock is looked after every 5 min, which are 15 s here.
  expect(performance.now() - begun).toBeLessThan(10_000);
  hold.release();
  await ensured;
  expectConverged(cluster);
}, 120_000);

test("an internal Service is created at once while the external load balancer is busy, 100 rejected Services wait and a node joins", async () => {
  await using cluster = await openCluster(3, { limits: { frontends: 2 } });
  const { simulator } = cluster.world;
  const generation = await cluster.start();
  const [late] = cluster.nodes.splice(2);
  for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
  await cluster.ensure(generation, internal("inside"));
  const rejected = many(100, "bad").map((one) => errorOf(cluster.ensure(generation, one)));
  const externalPuts = () =>
    simulator.log.filter(({ method, path }) => method === "PUT" && externalBalancer.test(path));
  await eventually("they are rejected", () => externalPuts().some(({ status }) => status === 400), 20_000);
  const busy = simulator.hold({ method: "PUT", path: externalBalancer });
  await eventually("the external load balancer is busy", () => busy.waiting() === 1);
  if (late !== undefined) cluster.nodes.push(late);
  const joined = ["a", "b"].map((name) => cluster.ensure(generation, serviceOf(name)));
  const ended: unknown[] = [];
  for (const work of [...rejected, ...joined]) void work.then((error) => ended.push(error));
  simulator.clearLog();
  const begun = performance.now();
  await cluster.ensure(generation, internal("new"));
  expect(performance.now() - begun).toBeLessThan(5_000);
  // Its load balancer, and its pool for the node that has joined. A write of the security group may end late.
  expect(cluster.writes().filter((write) => !/publicIPAddresses|networkSecurityGroups/u.test(write))).toEqual([
    "PUT loadBalancers/kubernetes-internal",
    "PUT virtualMachines/2",
  ]);
  expect([busy.waiting(), ended]).toEqual([1, []]);
  busy.release();
  expect(await Promise.all(rejected)).not.toContain(undefined);
  await Promise.all(joined);
}, 120_000);
