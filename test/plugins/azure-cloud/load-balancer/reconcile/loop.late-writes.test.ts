import { describe, expect, test } from "bun:test";

import { annotations, keyOf, RetryAfterError, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../../host/async/clock.ts";
import type { Write } from "../../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import { heldBy } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/held-resources.ts";
import { InFlight } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/in-flight.ts";
import { Random } from "../../../../kit/random.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { azureState, expectConverged } from "../azure-state.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf } from "../cluster.ts";
import { Scenario } from "../scenario.ts";
import { world } from "../world.ts";

const many = (count: number): readonly Service[] =>
  Array.from({ length: count }, (_, index) => serviceOf(`web-${index}`));

const publicIPOf = ({ metadata }: Service): string =>
  `publicIPAddresses/kubernetes-a${metadata?.uid?.replaceAll("-", "").slice(0, 31)}`;

const addressesOf = (cluster: Cluster, services: readonly Service[]): readonly string[] =>
  services.flatMap(
    (service) =>
      cluster.services.get(keyOf(service))?.status?.loadBalancer?.ingress?.flatMap(({ ip }) => ip ?? []) ?? [],
  );

const putsOf = (cluster: Cluster, service: Service): number =>
  cluster.writes().filter((one) => one === `PUT ${publicIPOf(service)}`).length;

/** Ensures the Service on the nodes of this moment. */
async function ensureNow({ services, nodes }: Cluster, { balancers }: Generation, service: Service): Promise<void> {
  services.set(keyOf(service), service);
  const loadBalancer = await balancers.ensureLoadBalancer("kubernetes", service, [...nodes]);
  services.set(keyOf(service), { ...service, status: { loadBalancer } });
}

/** Status codes of writes that the simulator refused. */
const refused = (cluster: Cluster): readonly number[] =>
  cluster.world.simulator.log.flatMap(({ method, status }) => (method !== "GET" && status >= 400 ? [status] : []));

/** A Service whose public IP ARM does not finish, and a process that has begun to create it. */
async function stuckCluster(
  changes: Readonly<Record<string, unknown>> = {},
  stage: "request" | "response" = "request",
) {
  const cluster = await openCluster(3);
  const slow = serviceOf("slow");
  const hold = cluster.world.simulator.hold({ method: "PUT", path: publicIPOf(slow) }, stage);
  const generation = await cluster.start(changes, fast(100));
  const ensured = errorOf(ensureNow(cluster, generation, slow));
  while (hold.waiting() === 0) await Bun.sleep(1);
  return { cluster, slow, hold, generation, ensured };
}

describe("a public IP that ARM takes long to create", () => {
  test("delays no Service that is wanted at the same time", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    const [slow = serviceOf("slow"), ...others] = many(21);
    const hold = cluster.world.simulator.hold({ method: "PUT", path: publicIPOf(slow) });
    const ensured = errorOf(cluster.ensure(generation, slow));
    await Promise.all(others.map((service) => cluster.ensure(generation, service)));
    expect(new Set(addressesOf(cluster, others)).size).toBe(20);
    expect(addressesOf(cluster, [slow])).toEqual([]);
    hold.release();
    expect(await ensured).toBeUndefined();
    expect(addressesOf(cluster, [slow])).toHaveLength(1);
    expect(putsOf(cluster, slow)).toBe(1);
    expect(refused(cluster)).toEqual([]);
    expectConverged(cluster);
  });

  test("delays no Service that is created, changed or deleted meanwhile", async () => {
    const { cluster, slow, hold, generation, ensured } = await stuckCluster();
    await using _ = cluster;
    const services = many(20);
    await Promise.all(services.map((service) => cluster.ensure(generation, service)));
    expect(new Set(addressesOf(cluster, services)).size).toBe(20);
    await Promise.all(services.slice(10).map((service) => cluster.remove(generation, service)));
    expect(hold.waiting()).toBe(1);
    hold.release();
    expect(await ensured).toBeUndefined();
    expect(addressesOf(cluster, [slow])).toHaveLength(1);
    expectConverged(cluster);
  });

  test("is written once, although its Service is wanted again meanwhile", async () => {
    const { cluster, slow, hold, generation, ensured } = await stuckCluster();
    await using _ = cluster;
    await cluster.ensure(generation, serviceOf("other"));
    const again = errorOf(cluster.ensure(generation, slow));
    for (const service of many(3)) await cluster.ensure(generation, service);
    expect(hold.waiting()).toBe(1);
    hold.release();
    expect([await ensured, await again]).toEqual([undefined, undefined]);
    expect(putsOf(cluster, slow)).toBe(1);
    expectConverged(cluster);
  });

  test("is a change of its Service in metrics, although nothing is left to write once it is there", async () => {
    await using cluster = await openCluster(2);
    // Not as fast as the others: if a VM's write took longer than 10 s, its pool would be planned again and counted as well.
    const generation = await cluster.start({}, fast(5));
    await cluster.ensure(generation, serviceOf("web"));
    cluster.world.measured.length = 0;
    const hold = cluster.world.simulator.hold({ method: "PUT", path: publicIPOf(serviceOf("web")) });
    const tagged = cluster.ensure(generation, serviceOf("web", { annotations: { "azure-pip-tags": "team=a" } }));
    await eventually("it is being written", () => hold.waiting() === 1);
    await cluster.ensure(generation, internal("other"));
    hold.release();
    await tagged;
    const reconciled = cluster.world.measured.filter((one) => one.includes("services_reconciled_total"));
    expect(reconciled.map((one) => one.slice(one.indexOf("{")))).toEqual(["{result=changed}", "{result=changed}"]);
  });

  test("is not written for a Service that shares it, although Azure lists it already", async () => {
    const { cluster, slow, hold, generation, ensured } = await stuckCluster({ disableAPICallCache: true }, "response");
    await using _ = cluster;
    await cluster.ensure(generation, serviceOf("other"));
    const name = publicIPOf(slow).split("/").at(-1) ?? "";
    const port = { name: "http", protocol: "TCP", port: 81, nodePort: 31_081 };
    const sharing = serviceOf("sharing", { annotations: { "azure-pip-name": name }, spec: { ports: [port] } });
    const shared = errorOf(cluster.ensure(generation, sharing));
    for (const service of many(3)) await cluster.ensure(generation, service);
    expect(hold.waiting()).toBe(1);
    hold.release();
    expect([await ensured, await shared]).toEqual([undefined, undefined]);
    expect(addressesOf(cluster, [sharing])).toEqual(addressesOf(cluster, [slow]));
  });

  test("is not forgotten when its Service is deleted before it is there", async () => {
    const { cluster, slow, hold, generation, ensured } = await stuckCluster();
    await using _ = cluster;
    await cluster.ensure(generation, serviceOf("other"));
    expect(await generation.balancers.getLoadBalancer("kubernetes", slow)).toBeDefined();
    const deleted = cluster.remove(generation, slow);
    await cluster.ensure(generation, serviceOf("another"));
    hold.release();
    await ensured;
    await deleted;
    cluster.services.delete(keyOf(slow));
    expectConverged(cluster);
  });

  test("is not overlooked when it is created while its Service is looked up", async () => {
    const { cluster, slow, hold, generation, ensured } = await stuckCluster({ disableAPICallCache: true });
    await using _ = cluster;
    await cluster.ensure(generation, serviceOf("other"));
    const { simulator } = cluster.world;
    simulator.clearLog();
    const lists = simulator.hold({ method: "GET", path: /\/loadBalancers$/u });
    const looked = generation.balancers.getLoadBalancer("kubernetes", slow);
    while (!simulator.log.some(({ path }) => path.endsWith("/publicIPAddresses"))) await Bun.sleep(1);
    hold.release();
    while (putsOf(cluster, slow) === 0) await Bun.sleep(1);
    // Until the reply has arrived.
    await Bun.sleep(50);
    lists.release();
    expect(await looked).toBeDefined();
    expect(await ensured).toBeUndefined();
  });

  test("tells its Service alone when ARM rejects it in the end", async () => {
    const { cluster, slow, hold, generation, ensured } = await stuckCluster();
    await using _ = cluster;
    await cluster.ensure(generation, serviceOf("other"));
    cluster.world.simulator.failNext(
      { method: "PUT", path: publicIPOf(slow) },
      { status: 400, code: "PublicIPCountLimitReached" },
    );
    hold.release();
    const error = await ensured;
    expect(error).toBeInstanceOf(RetryAfterError);
    expect(String(error)).toContain("PublicIPCountLimitReached");
    expect(putsOf(cluster, slow)).toBe(1);
  });

  test("does not bring back the nodes of the time when its Service was wanted", async () => {
    const { cluster, hold, generation, ensured } = await stuckCluster({
      loadBalancerBackendPoolConfigurationType: "nodeIP",
    });
    await using _ = cluster;
    const [gone] = cluster.nodes.splice(0, 1);
    await cluster.ensure(generation, serviceOf("other"));
    cluster.world.simulator.clearLog();
    hold.release();
    expect(await ensured).toBeUndefined();
    const bodies = cluster.world.simulator.log.filter(({ path, method }) => method === "PUT" && /loadBal/u.test(path));
    expect(bodies.length).toBeGreaterThan(0);
    const address = gone?.status?.addresses?.[0]?.address ?? "";
    for (const { body } of bodies) expect(JSON.stringify(body)).not.toContain(`"${address}"`);
  });

  test("is adopted by the next process when this one crashes before it is there", async () => {
    const { cluster, slow, hold, generation, ensured } = await stuckCluster();
    await using _ = cluster;
    await cluster.ensure(generation, serviceOf("other"));
    generation.crash();
    expect(await ensured).toBeDefined();
    hold.release();
    while (cluster.world.simulator.underway() > 0) await Bun.sleep(1);
    const next = await cluster.start();
    await cluster.ensure(next, slow);
    await cluster.ensure(next, serviceOf("other"));
    expectConverged(cluster);
  });

  for (const seed of [11, 12])
    test(`is one of many, among changes and crashes at random (seed ${seed})`, async () => {
      const random = new Random(seed);
      await using cluster = await openCluster(3);
      const scenario = new Scenario(cluster, random);
      for (let round = 0; round < 25; round++) {
        scenario.change(random.between(1, 5));
        cluster.world.simulator.setLatency(random.between(1, 4));
        // Patience ends after about two milliseconds.
        const generation = await cluster.start({}, fast(5000));
        const work = scenario.sync(generation);
        if (random.chance(0.5)) {
          await Bun.sleep(random.between(0, 30));
          generation.crash();
          await work;
          while (cluster.world.simulator.underway() > 0) await Bun.sleep(1);
        } else {
          expect({ round, errors: await work }).toEqual({ round, errors: [] });
          // Of two processes that lead, the former one would write what it has planned for later.
          generation.crash();
        }
        const next = await cluster.start({}, fast(5000));
        expect({ round, errors: await scenario.sync(next) }).toEqual({ round, errors: [] });
        // An instance that is slow to join holds up no Service: it may still be in flight when all of them are done.
        await eventually("instances in flight have joined", () => {
          expectConverged(cluster);
          return true;
        });
        next.crash();
      }
      expect(scenario.settled).toBe(true);
    }, 120_000);
});

const internal = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-load-balancer-internal": "true" } });

/** Waits until requests that fit are held. */
async function heldWrite(cluster: Cluster, path: string | RegExp, work: () => Promise<unknown>, method = "PUT") {
  const hold = cluster.world.simulator.hold({ method, path });
  const ended = errorOf(work());
  while (hold.waiting() === 0) await Bun.sleep(1);
  return { hold, ended };
}

const putsTo = (cluster: Cluster, path: string): number =>
  cluster.writes().filter((one) => one === `PUT ${path}`).length;

const balancersOf = (cluster: Cluster) =>
  cluster.world.simulator.resources().filter(({ type }) => /\/loadBalancers$/iu.test(type));

/** Not the internal one, whose name begins the same. */
const externalBalancer = /\/loadBalancers\/kubernetes$/u;

describe("a slow write of", () => {
  for (const { what, path } of [
    { what: "a load balancer", path: externalBalancer },
    { what: "the security group", path: "/networkSecurityGroups/nsg0" },
  ])
    test(`${what} delays no Service that does not need it, and is written once at a time`, async () => {
      await using cluster = await openCluster(3);
      const generation = await cluster.start({}, fast(100));
      await cluster.ensure(generation, internal("inside"));
      const { hold, ended } = await heldWrite(cluster, path, () => cluster.ensure(generation, serviceOf("slow")));
      await cluster.ensure(generation, internal("other"));
      await cluster.remove(generation, internal("inside"));
      const waiting = many(3).map((service) => cluster.ensure(generation, service));
      await cluster.ensure(generation, internal("another"));
      expect(hold.waiting()).toBe(1);
      hold.release();
      expect(await ended).toBeUndefined();
      await Promise.all(waiting);
      expect(refused(cluster)).toEqual([]);
      expectConverged(cluster);
    });

  test("a load balancer that ARM rejects in the end is written apart from the Service that ARM names, and fails no other", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    const bad = serviceOf("bad");
    const errors: unknown[] = [];
    const { hold, ended } = await heldWrite(cluster, externalBalancer, async () => {
      const all = [bad, ...many(4)].map((service) => errorOf(cluster.ensure(generation, service)));
      errors.push(...(await Promise.all(all)));
    });
    await cluster.ensure(generation, internal("inside"));
    const base = `a${bad.metadata?.uid?.replaceAll("-", "").slice(0, 31)}`;
    const failure = { status: 400, code: "InvalidResource", message: `Rule ${base}-TCP-80 is invalid.` };
    cluster.world.simulator.failNext({ method: "PUT", path: externalBalancer }, failure);
    hold.release();
    expect(await ended).toBeUndefined();
    // Written without the Service that ARM named, and then with it.
    expect(errors).toEqual(Array.from({ length: 5 }));
    expect(new Set(addressesOf(cluster, many(4))).size).toBe(4);
    await cluster.remove(generation, bad);
    expectConverged(cluster);
  });

  test("a load balancer that ARM rejects late is written without the Service that ARM names, and then with it", async () => {
    await using cluster = await openCluster(3);
    const { simulator } = cluster.world;
    const generation = await cluster.start({}, fast(100));
    const bad = serviceOf("bad");
    const all = [bad, ...many(2)];
    const first = simulator.hold({ method: "PUT", path: externalBalancer });
    const ended = Promise.all(all.map((service) => errorOf(cluster.ensure(generation, service))));
    while (first.waiting() === 0) await Bun.sleep(1);
    const base = `a${bad.metadata?.uid?.replaceAll("-", "").slice(0, 31)}`;
    const failure = { status: 400, code: "InvalidResource", message: `Rule ${base}-TCP-80 is invalid.` };
    simulator.failNext({ method: "PUT", path: externalBalancer }, failure);
    await Bun.sleep(150);
    first.release();
    expect(await ended).toEqual([undefined, undefined, undefined]);
    const puts = simulator.log.filter(({ method, path }) => method === "PUT" && externalBalancer.test(path));
    expect(puts.map(({ body }) => JSON.stringify(body).includes(base))).toEqual([true, false, true]);
    expectConverged(cluster);
  });

  const external = serviceOf("web");
  const tagged = serviceOf("web", { annotations: { "azure-pip-tags": "team=network" } });
  const linked = serviceOf("linked", {
    annotations: { "azure-load-balancer-internal": "true", "azure-pls-create": "true" },
  });
  const link = "/privateLinkServices/";
  for (const { what, before = [], service, action = "ensure", held, waiting, free } of [
    {
      what: "a public IP with a frontend",
      before: [external],
      service: tagged,
      held: { path: publicIPOf(external) },
      waiting: serviceOf("waiting"),
      free: internal,
    },
    {
      what: "a subnet",
      before: [internal("inside")],
      service: linked,
      held: { path: "/subnets/subnet0" },
      waiting: internal("waiting"),
      free: serviceOf,
    },
    {
      what: "a private link service",
      service: linked,
      held: { path: link },
      waiting: internal("waiting"),
      free: serviceOf,
    },
    {
      what: "a private link service that is deleted",
      before: [linked],
      service: linked,
      action: "remove" as const,
      held: { path: link, method: "DELETE" },
      waiting: internal("waiting"),
      free: serviceOf,
    },
  ])
    test(`${what} delays the Services of its load balancer, and no others`, async () => {
      await using cluster = await openCluster(3);
      const generation = await cluster.start({}, fast(100));
      for (const one of before) await cluster.ensure(generation, one);
      const { hold, ended } = await heldWrite(
        cluster,
        held.path,
        () => cluster[action](generation, service),
        held.method ?? "PUT",
      );
      let isServed = false;
      const waits = cluster.ensure(generation, waiting).then(() => (isServed = true));
      for (const name of ["one", "two"]) await cluster.ensure(generation, free(name));
      expect(hold.waiting()).toBe(1);
      expect(isServed).toBe(false);
      hold.release();
      expect(await ended).toBeUndefined();
      await waits;
      expect(refused(cluster)).toEqual([]);
      expectConverged(cluster);
    });

  test("a VM delays no Service and no other VM, and is made up for when it is back", async () => {
    await using cluster = await openCluster(4);
    const [late] = cluster.nodes.splice(3);
    const generation = await cluster.start({}, fast(100));
    const { hold, ended } = await heldWrite(cluster, "/virtualMachines/1", () =>
      cluster.ensure(generation, serviceOf("web")),
    );
    expect(await ended).toBeUndefined();
    expect(addressesOf(cluster, [serviceOf("web")])).toHaveLength(1);
    if (late !== undefined) cluster.nodes.push(late);
    for (const service of many(3)) await cluster.ensure(generation, service);
    expect(putsTo(cluster, "virtualMachines/3")).toBe(1);
    expect(hold.waiting()).toBe(1);
    hold.release();
    while (putsTo(cluster, "virtualMachines/1") === 0) await Bun.sleep(1);
    expect(putsTo(cluster, "virtualMachines/1")).toBe(1);
    await cluster.ensure(generation, serviceOf("web"));
    expectConverged(cluster);
  });

  test("a VM that is back has changed its load balancer, which is read again before it is written", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    const { hold, ended } = await heldWrite(cluster, "/virtualMachines/1", () =>
      cluster.ensure(generation, serviceOf("web")),
    );
    expect(await ended).toBeUndefined();
    await cluster.ensure(generation, serviceOf("other"));
    hold.release();
    while (putsTo(cluster, "virtualMachines/1") === 0) await Bun.sleep(1);
    await cluster.ensure(generation, serviceOf("web"));
    await cluster.ensure(generation, serviceOf("another"));
    expect(refused(cluster)).toEqual([]);
    expectConverged(cluster);
  });

  test("a VM that fails in the end is repeated without a change of any Service", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    const { hold, ended } = await heldWrite(cluster, "/virtualMachines/1", () =>
      cluster.ensure(generation, serviceOf("web")),
    );
    expect(await ended).toBeUndefined();
    cluster.world.simulator.failNext(
      { method: "PUT", path: "/virtualMachines/1" },
      { status: 400, code: "InvalidParameter", times: 1 },
    );
    hold.release();
    while (putsTo(cluster, "virtualMachines/1") < 2) await Bun.sleep(1);
    const warned = cluster.world.logged.filter(({ message }) => message.startsWith("Failed to update a backend pool"));
    expect(warned).toHaveLength(1);
    expectConverged(cluster);
  });

  test("a VM joins again if its node returns before the late write ends that takes it out", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    await cluster.ensure(generation, serviceOf("web"));
    const before = putsTo(cluster, "virtualMachines/1");
    const [, node] = cluster.nodes;
    if (node === undefined) throw new Error("the cluster has no second node");
    const labels = { "node.kubernetes.io/exclude-from-external-load-balancers": "" };
    cluster.nodes[1] = { ...node, metadata: { ...node.metadata, labels } };
    const { hold, ended } = await heldWrite(cluster, "/virtualMachines/1", () =>
      cluster.ensure(generation, serviceOf("web")),
    );
    expect(await ended).toBeUndefined();
    cluster.nodes[1] = node;
    // The load balancer still shows it as a member.
    await cluster.ensure(generation, serviceOf("web"));
    hold.release();
    await eventually("it has joined again", () => putsTo(cluster, "virtualMachines/1") === before + 2);
    await cluster.ensure(generation, serviceOf("web"));
    expectConverged(cluster);
  });

  test("a VM joins again if its node returns while those of two VMs are late, of which the other one ends first", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    const web = serviceOf("web");
    const late = await heldWrite(cluster, "/virtualMachines/1", () => cluster.ensure(generation, web));
    expect(await late.ended).toBeUndefined();
    const [node] = cluster.nodes;
    if (node === undefined) throw new Error("the cluster has no node");
    const labels = { "node.kubernetes.io/exclude-from-external-load-balancers": "" };
    cluster.nodes[0] = { ...node, metadata: { ...node.metadata, labels } };
    const later = await heldWrite(cluster, "/virtualMachines/0", () => cluster.ensure(generation, web));
    expect(await later.ended).toBeUndefined();
    cluster.nodes[0] = node;
    // The load balancer still shows it as a member.
    await cluster.ensure(generation, web);
    late.hold.release();
    await eventually("the other one has joined", () => putsTo(cluster, "virtualMachines/1") === 1);
    // Its pool is planned again then.
    await Bun.sleep(100);
    later.hold.release();
    await eventually("it has joined again", () => putsTo(cluster, "virtualMachines/0") === 3);
  });

  test("a VM that was stopped when its pool was written joins once its node is ready", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start({}, fast(100));
    const { simulator } = cluster.world;
    simulator.changeInstance("vmss0000001", { powerState: "stopped" });
    await cluster.ensure(generation, serviceOf("web"));
    expect(putsTo(cluster, "virtualMachines/1")).toBe(0);
    simulator.changeInstance("vmss0000001", { powerState: "running" });
    const [, node] = cluster.nodes;
    if (node === undefined) throw new Error("the cluster has no second node");
    cluster.nodes[1] = { ...node, status: { ...node.status, conditions: [{ type: "Ready", status: "True" }] } };
    await eventually("it has joined", () => putsTo(cluster, "virtualMachines/1") === 1);
  });

  test("a VM that keeps failing is repeated after ever longer pauses, until it has joined", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    const { hold, ended } = await heldWrite(cluster, "/virtualMachines/1", () =>
      cluster.ensure(generation, serviceOf("web")),
    );
    expect(await ended).toBeUndefined();
    const failure = { status: 400, code: "InvalidParameter", times: 3 };
    cluster.world.simulator.failNext({ method: "PUT", path: "/virtualMachines/1" }, failure);
    const startMs = performance.now();
    hold.release();
    await eventually("it has joined", () => putsTo(cluster, "virtualMachines/1") === 4);
    // A hundred times as fast: 5, 10 and 20 seconds.
    expect(performance.now() - startMs).toBeGreaterThan(340);
    const warned = cluster.world.logged.filter(({ message }) => message.startsWith("Failed to update a backend pool"));
    expect(warned.map(({ fields }) => fields["delayMs"])).toEqual([5_000, 10_000, 20_000]);
    const reconciled = (): number =>
      cluster.world.measured.filter((one) => one.includes("services_reconciled_total")).length;
    await eventually("it is planned once more", () => reconciled() >= 4);
    await Bun.sleep(100);
    // And once by the look at the load balancer, a minute after its members were written.
    expect(reconciled()).toBeLessThanOrEqual(5);
    expectConverged(cluster);
  });

  test("a VM that is back does not bring back a Service that was deleted and created again meanwhile", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    const [former, current] = [serviceOf("web"), serviceOf("web", { incarnation: 1 })];
    const { hold, ended } = await heldWrite(cluster, "/virtualMachines/1", () => cluster.ensure(generation, former));
    expect(await ended).toBeUndefined();
    await cluster.ensure(generation, serviceOf("other"));
    await cluster.remove(generation, former);
    await cluster.ensure(generation, current);
    hold.release();
    while (putsTo(cluster, "virtualMachines/1") === 0) await Bun.sleep(1);
    // The pool is planned again then, for a Service that had waited for it.
    await Bun.sleep(500);
    expect([putsOf(cluster, former), putsOf(cluster, current)]).toEqual([1, 1]);
    expectConverged(cluster);
  });

  test("a scale set delays its VMs, and no Service", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    const { hold, ended } = await heldWrite(cluster, /\/virtualMachineScaleSets\/vmss0$/u, () =>
      cluster.ensure(generation, serviceOf("web")),
    );
    expect(await ended).toBeUndefined();
    expect(cluster.writes().filter((one) => one.includes("virtualMachines/"))).toEqual([]);
    hold.release();
    await eventually("the VMs have joined", () =>
      [0, 1, 2].every((vm) => putsTo(cluster, `virtualMachines/${vm}`) === 1),
    );
    expectConverged(cluster);
  });

  test("a VM holds up the deletion of its own load balancer, and of no other", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start({}, fast(100));
    await cluster.ensure(generation, serviceOf("web"));
    await cluster.ensure(generation, internal("inside"));
    const { hold, ended } = await heldWrite(cluster, "/virtualMachines/1", () =>
      cluster.remove(generation, serviceOf("web")),
    );
    await cluster.ensure(generation, internal("other"));
    expect(balancersOf(cluster).map(({ name }) => name)).toEqual(["kubernetes", "kubernetes-internal"]);
    hold.release();
    expect(await ended).toBeUndefined();
    expectConverged(cluster);
  });
});

describe("the deletion of a Service during a slow write", () => {
  const web = serviceOf("web");
  const ofType = (type: string): Service => ({ ...web, spec: { ...web.spec, type } });
  const markedBy = (lease: string): Service => ({
    ...web,
    metadata: { ...web.metadata, annotations: { [annotations.servedBy]: lease } },
  });

  test.each<readonly [string, Service, Service, readonly string[]]>([
    [
      "writes no more once another deployment has marked the Service: the rest is that one's",
      web,
      markedBy("another"),
      ["kubernetes"],
    ],
    ["is carried out if the mark is that of its own deployment", web, markedBy("own"), []],
    [
      "writes no more once the Service is to have a load balancer again",
      ofType("ClusterIP"),
      ofType("LoadBalancer"),
      ["kubernetes"],
    ],
    ["is carried out if the Service has a third type", ofType("ClusterIP"), ofType("NodePort"), []],
    [
      "is carried out if the Service had a load balancer as its deletion began",
      ofType("LoadBalancer"),
      ofType("LoadBalancer"),
      [],
    ],
  ])("%s", async (_title, known, current, expected) => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start({}, fast(100), { shards: { own: "own" } });
    await cluster.ensure(generation, web);
    cluster.services.set("default/web", known);
    const { hold, ended } = await heldWrite(cluster, "/virtualMachines/1", () =>
      generation.balancers.ensureLoadBalancerDeleted("kubernetes", known),
    );
    cluster.services.set("default/web", current);
    hold.release();
    expect(await ended).toEqual(expected.length === 0 ? undefined : expect.objectContaining({ code: "Superseded" }));
    const { balancers, publicIPs } = azureState(cluster.world.simulator);
    expect([balancers, publicIPs.length]).toEqual([expected, expected.length]);
  });
});

describe("a write in flight", () => {
  const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
  const balancer = `${network}/loadBalancers/kubernetes`;
  const other = `${network}/loadBalancers/kubernetes-internal`;
  const subnet = { id: `${network}/virtualNetworks/vnet0/subnets/subnet0` };
  const target = { name: "x", resourceGroup: "rg0", services: ["default/web"] };
  const address = { kind: "put-public-ip", ...target, id: `${network}/publicIPAddresses/ip`, body: {} } as const;
  const frontend = { id: `${balancer}/frontendIPConfigurations/f`, publicIPAddress: { id: address.id.toUpperCase() } };
  const observed = world({
    loadBalancers: [
      { id: balancer, frontendIPConfigurations: [frontend] },
      { id: other, frontendIPConfigurations: [{ subnet }] },
    ],
    privateLinkServices: [
      { id: `${network}/privateLinkServices/link`, loadBalancerFrontendIpConfigurations: [frontend] },
    ],
  });
  const body = { virtualNetwork: "vnet0", body: {} };
  const links = { loadBalancerFrontendIpConfigurations: [frontend] };
  const link = { ...target, id: `${network}/privateLinkServices/link` };

  test("holds its resource, and the load balancers that ARM does not write meanwhile", () => {
    expect(heldBy(address, observed)).toEqual([address.id, balancer]);
    expect(heldBy(address, world())).toEqual([address.id]);
    expect(heldBy({ kind: "put-subnet", ...target, ...subnet, ...body }, observed)).toEqual([subnet.id, other]);
    expect(heldBy({ kind: "put-private-link-service", ...link, body: links }, world())).toEqual([link.id, balancer]);
    expect(heldBy({ kind: "delete-private-link-service", ...link, endpointConnections: [] }, observed)).toEqual([
      link.id,
      balancer,
    ]);
    expect(heldBy({ kind: "put-load-balancer", ...target, id: balancer, body: {} }, observed)).toEqual([balancer]);
  });

  test("holds up writes of that load balancer and its parts, of what it refers to, and no others", () => {
    const isHeld = (holds: readonly string[], write: Write): boolean => {
      const inFlight = new InFlight(systemClock);
      inFlight.add({ services: [], holds, wave: undefined });
      return !inFlight.isFree(write, observed, []);
    };
    const put = { kind: "put-load-balancer", ...target, id: balancer.toUpperCase(), body: {} } as const;
    const pool = { kind: "update-members", ...target, loadBalancer: "x", family: "IPv4", join: [], leave: [] } as const;
    expect(isHeld([balancer], put)).toBe(true);
    expect(isHeld([other], put)).toBe(false);
    expect(isHeld([balancer], { ...pool, id: `${balancer}/backendAddressPools/p` })).toBe(true);
    expect(isHeld([balancer], { ...pool, id: `${other}/backendAddressPools/p` })).toBe(false);
    expect(isHeld([balancer], address)).toBe(true);
    expect(isHeld([subnet.id], put)).toBe(false);
    expect(isHeld([subnet.id], { ...put, body: { frontendIPConfigurations: [{ subnet }] } })).toBe(true);
  });
});
