import { describe, expect, test } from "bun:test";

import { type CloudContext, keyOf, RetryAfterError, type Service } from "cloud-controller-host/sdk";

import { mayBeLate } from "../../../../plugins/azure-cloud/load-balancer/late-writes.ts";
import { Random } from "../../../chaos/random.ts";
import { errorOf } from "../world.ts";
import { expectConverged } from "./azure-state.ts";
import { type Cluster, type Generation, openCluster, serviceOf } from "./cluster.ts";
import { Scenario } from "./scenario.ts";
import { world } from "./world.ts";

/** Time that passes `times` as fast as it does, so that a batch loses its patience soon. */
const fast = (times: number): CloudContext["clock"] => ({
  now: () => Date.now(),
  monotonic: () => performance.now() * times,
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) resolve();
      else setTimeout(resolve, Math.min(1, ms));
    }),
});

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
        } else expect({ round, errors: await work }).toEqual({ round, errors: [] });
        const next = await cluster.start({}, fast(5000));
        expect({ round, errors: await scenario.sync(next) }).toEqual({ round, errors: [] });
        expectConverged(cluster);
        next.crash();
      }
      expect(scenario.settled).toBe(true);
    }, 60_000);
});

describe("a write that its batch may go on without", () => {
  const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/publicIPAddresses/ip";
  const target = { id, name: "ip", resourceGroup: "rg0", services: ["default/web"] };
  const creation = { kind: "put-public-ip", ...target, body: {} } as const;
  const frontend = { publicIPAddress: { id: id.toUpperCase() } };

  test("creates a public IP that no load balancer has", () => {
    expect(mayBeLate(creation, world())).toBe(true);
    expect(mayBeLate({ kind: "delete-public-ip", ...target }, world())).toBe(false);
    expect(mayBeLate(creation, world({ publicIPs: [{ id: id.toUpperCase() }] }))).toBe(false);
    expect(mayBeLate(creation, world({ loadBalancers: [{ frontendIPConfigurations: [frontend] }] }))).toBe(false);
  });
});
