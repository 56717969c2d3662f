import { describe, expect, test } from "bun:test";

import { keyOf, type Service } from "cloud-controller-host/sdk";

import { objectsAt } from "../../../../../../plugins/azure-cloud/json.ts";
import type { Resource } from "../../../../../../plugins/azure-cloud/simulator/state/store.ts";
import { errorOf } from "../../../../../kit/rejection.ts";
import { azureState } from "../../azure-state.ts";
import { type Cluster, jumpingClock, openCluster, serviceOf } from "../../cluster.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const internal = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-load-balancer-internal": "true" } });
/** For so long, reads may lag behind writes: until then, an absence is a contradiction. */
const lagMs = 60_000;
/** Later than any lag, while lists are still from the cache. */
const cachedMs = lagMs + 1_000;
/** TTL of the list of load balancers by default. */
const balancersTtlMs = 120_000;
const contradictory = expect.objectContaining({ code: "ContradictoryReads" });

const without =
  (type: string) =>
  (all: readonly Resource[]): readonly Resource[] =>
    all.filter((one) => !one.type.toLowerCase().endsWith(`/${type.toLowerCase()}`));

const frontendsOf = ({ world }: Cluster, name: string): number =>
  objectsAt(world.simulator.get(`${group}/loadBalancers/${name}`)?.properties, "frontendIPConfigurations").length;

/** As a person would, in the portal. */
function deleteAll({ world }: Cluster, ...types: readonly string[]): void {
  for (const { id } of world.simulator.resources())
    if (types.some((type) => id.includes(`/${type}/`))) world.simulator.delete(id);
}

const requestedAt = (service: Service, deletionTimestamp: string): Service => ({
  ...service,
  metadata: { ...service.metadata, deletionTimestamp },
});

describe("a Service that is deleted", () => {
  for (const [kind, make, name] of [
    ["external", serviceOf, "kubernetes"],
    ["internal", internal, "kubernetes-internal"],
  ] as const)
    test(`leaves nothing on its ${kind} load balancer although the list of load balancers is empty by mistake`, async () => {
      await using cluster = await openCluster(1);
      const first = await cluster.start();
      for (const one of ["web", "other"]) await cluster.ensure(first, make(one));
      for (const settings of [{}, { disableAPICallCache: true }]) {
        const next = await cluster.start(settings);
        cluster.world.simulator.changeLists(without("loadBalancers"));
        expect(await next.balancers.getLoadBalancer("kubernetes", make("web"))).toBeDefined();
        cluster.world.simulator.changeLists((all) => all);
      }
      cluster.world.simulator.changeLists(without("loadBalancers"));
      await cluster.remove(await cluster.start(), make("web"));
      expect(frontendsOf(cluster, name)).toBe(1);
    });

  test("leaves no public IP although the list of public IPs lacks it", async () => {
    await using cluster = await openCluster(1);
    const first = await cluster.start();
    for (const name of ["web", "other"]) await cluster.ensure(first, serviceOf(name));
    cluster.world.simulator.changeLists(without("publicIPAddresses"));
    await cluster.remove(await cluster.start(), serviceOf("web"));
    expect(azureState(cluster.world.simulator).publicIPs).toHaveLength(1);
  });

  test("stays while the config names a resource group that does not exist, and goes once it is corrected", async () => {
    await using cluster = await openCluster(1);
    await cluster.ensure(await cluster.start(), serviceOf("web"));
    const time = jumpingClock();
    const next = await cluster.start({ loadBalancerResourceGroup: "rg-typo" }, time.clock);
    const web = requestedAt(serviceOf("web"), "2026-01-02T00:00:00Z");
    // Nothing says that this one had anything.
    await cluster.remove(next, requestedAt(serviceOf("none"), "2026-01-02T00:00:00Z"));
    expect(await errorOf(cluster.remove(next, web))).toEqual(contradictory);
    // No time is long enough: the lists are of the wrong resource group, and do not lag.
    time.jump(60 * lagMs);
    expect(await errorOf(cluster.remove(next, web))).toEqual(contradictory);
    await cluster.remove(await cluster.start(), web);
    expect(frontendsOf(cluster, "kubernetes")).toBe(0);
  });

  test("goes although another one of its name has an address, while the config names a resource group that does not exist", async () => {
    await using cluster = await openCluster(1);
    const next = await cluster.start({ loadBalancerResourceGroup: "rg-typo" });
    cluster.services.set("default/web", {
      ...serviceOf("web", { incarnation: 1 }),
      status: { loadBalancer: { ingress: [{ ip: "20.0.0.1" }] } },
    });
    const deleted = requestedAt(serviceOf("web"), "2026-01-02T00:00:00Z");
    expect(await errorOf(next.balancers.ensureLoadBalancerDeleted("kubernetes", deleted))).toBeUndefined();
  });

  test("is refused in service gateway mode, where no load balancer is looked for", async () => {
    await using cluster = await openCluster(1);
    cluster.services.set("default/web", serviceOf("web"));
    const next = await cluster.start({
      serviceGatewayEnabled: true,
      loadBalancerSku: "service",
      loadBalancerBackendPoolConfigurationType: "podIP",
    });
    const removed = next.balancers.ensureLoadBalancerDeleted("kubernetes", serviceOf("web"));
    expect(await errorOf(removed)).toMatchObject({ code: "ServiceGatewayUnsupported" });
    expect(cluster.world.simulator.log.filter(({ path }) => path.includes("/loadBalancers/"))).toEqual([]);
  });

  test("leaves nothing behind although a cached list, read too early, lacks its load balancer", async () => {
    await using cluster = await openCluster(1);
    await cluster.ensure(await cluster.start(), internal("web"));
    const time = jumpingClock();
    const next = await cluster.start({}, time.clock);
    cluster.world.simulator.changeLists(without("loadBalancers"));
    await cluster.ensure(next, serviceOf("other"));
    cluster.world.simulator.changeLists((all) => all);
    time.jump(cachedMs);
    await cluster.remove(next, internal("web"));
    expect(frontendsOf(cluster, "kubernetes-internal")).toBe(0);
  });

  for (const [which, settings, passedMs] of [
    ["a list from the cache", {}, cachedMs],
    [
      "a list that may be older than that of load balancers",
      { publicIPCacheTTLInSeconds: 3_600 },
      balancersTtlMs + lagMs + 20_000,
    ],
  ] as const)
    test(`leaves no free public IP although ${which} lacks it`, async () => {
      await using cluster = await openCluster(1);
      await cluster.ensure(await cluster.start(), serviceOf("web"));
      deleteAll(cluster, "loadBalancers");
      const time = jumpingClock();
      const next = await cluster.start(settings, time.clock);
      cluster.world.simulator.changeLists(without("publicIPAddresses"));
      await cluster.remove(next, requestedAt(serviceOf("none"), "2026-01-02T00:00:00Z"));
      cluster.world.simulator.changeLists((all) => all);
      time.jump(passedMs);
      await cluster.remove(next, serviceOf("web"));
      expect(azureState(cluster.world.simulator).publicIPs).toEqual([]);
    });

  test("leaves no public IP that a write has created although it failed, and that reads showed only later", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    await cluster.ensure(await cluster.start(), serviceOf("web"));
    const created = simulator.resources().find(({ id }) => id.includes("/publicIPAddresses/"));
    if (created === undefined) throw new Error("the public IP was not created");
    deleteAll(cluster, "loadBalancers", "publicIPAddresses");
    cluster.services.delete("default/web");
    const time = jumpingClock();
    const next = await cluster.start({}, time.clock);
    void next.balancers.run(new AbortController().signal);
    simulator.failNext({ method: "PUT", path: "/publicIPAddresses/" }, { status: 500, times: 99 });
    expect(await errorOf(cluster.ensure(next, serviceOf("web")))).toBeDefined();
    simulator.clearFailures();
    expect(await errorOf(cluster.remove(next, serviceOf("web")))).toEqual(contradictory);
    simulator.put(created.id, created);
    time.jump(lagMs);
    await cluster.remove(next, serviceOf("web"));
    expect(azureState(simulator).publicIPs).toEqual([]);
  });

  test("leaves nothing on a load balancer that a write has created although it failed, while reads show the former one", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const time = jumpingClock();
    const generation = await cluster.start({}, time.clock);
    void generation.balancers.run(new AbortController().signal);
    await cluster.ensure(generation, internal("web"));
    const created = simulator.get(`${group}/loadBalancers/kubernetes-internal`);
    if (created === undefined) throw new Error("the load balancer was not created");
    await cluster.ensure(generation, serviceOf("web"));
    simulator.failNext({ method: "PUT", path: "/loadBalancers/kubernetes-internal" }, { status: 500, times: 99 });
    expect(await errorOf(cluster.ensure(generation, internal("web")))).toBeDefined();
    simulator.clearFailures();
    expect(await errorOf(cluster.remove(generation, internal("web")))).toEqual(contradictory);
    simulator.put(created.id, created);
    time.jump(lagMs);
    await cluster.remove(generation, internal("web"));
    expect(simulator.get(created.id)).toBeUndefined();
  });

  const dual = serviceOf("web", { spec: { ipFamilies: ["IPv4", "IPv6"] } });
  const publicIPOf = ({ world }: Cluster, ending: string): Resource => {
    const found = world.simulator
      .resources()
      .find(({ id }) => id.includes("/publicIPAddresses/") && id.endsWith(ending));
    if (found === undefined) throw new Error(`missing: public IP ${ending}`);
    return found;
  };

  test("leaves no public IP that was there although no read has shown it, while reads show its other one", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const time = jumpingClock();
    const generation = await cluster.start({}, time.clock);
    void generation.balancers.run(new AbortController().signal);
    await cluster.ensure(generation, dual);
    const second = publicIPOf(cluster, "-IPv6");
    await cluster.ensure(generation, serviceOf("web"));
    const there = { status: 412, code: "PreconditionFailed", times: 99 };
    simulator.failNext({ method: "PUT", path: "-IPv6" }, there);
    expect(await errorOf(cluster.ensure(generation, dual))).toBeDefined();
    simulator.clearFailures();
    expect(await errorOf(cluster.remove(generation, dual))).toEqual(contradictory);
    simulator.put(second.id, second);
    time.jump(lagMs);
    await cluster.remove(generation, dual);
    expect(azureState(simulator).publicIPs).toEqual([]);
  });

  test("goes at once after it has given up a public IP of its own", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    for (const service of [dual, serviceOf("web")]) await cluster.ensure(generation, service);
    await cluster.remove(generation, serviceOf("web"));
    expect(azureState(cluster.world.simulator).publicIPs).toEqual([]);
  });

  test("goes at once after it has given up its part of a public IP that others use", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("a"));
    const address = publicIPOf(cluster, "").properties["ipAddress"];
    const annotations = { "azure-load-balancer-ipv4": String(address) };
    const beside = serviceOf("b", { annotations, spec: { ports: [{ protocol: "TCP", port: 81, nodePort: 30_081 }] } });
    for (const service of [beside, serviceOf("b")]) await cluster.ensure(generation, service);
    await cluster.remove(generation, serviceOf("b"));
    expect(publicIPOf(cluster, "")).toMatchObject({ tags: { "k8s-azure-service": "default/a" } });
  });

  for (const [which, others] of [
    ["that others use", ["other"]],
    ["that was its own", []],
  ] as const)
    test(`goes at once after it has moved from a load balancer ${which}`, async () => {
      await using cluster = await openCluster(1);
      const generation = await cluster.start();
      for (const service of [...others.map((name) => serviceOf(name)), serviceOf("web"), internal("web")])
        await cluster.ensure(generation, service);
      await cluster.remove(generation, internal("web"));
      expect(frontendsOf(cluster, "kubernetes")).toBe(others.length);
      expect(frontendsOf(cluster, "kubernetes-internal")).toBe(0);
    });

  test("goes at once, with its public IP, if that is all that is left of it", async () => {
    await using cluster = await openCluster(1);
    await cluster.ensure(await cluster.start(), serviceOf("web"));
    deleteAll(cluster, "loadBalancers");
    await cluster.remove(await cluster.start(), serviceOf("web"));
    expect(azureState(cluster.world.simulator).publicIPs).toEqual([]);
  });

  test("stays while its load balancer cannot be read by itself", async () => {
    await using cluster = await openCluster(1);
    const first = await cluster.start();
    for (const name of ["web", "other"]) await cluster.ensure(first, serviceOf(name));
    const next = await cluster.start();
    cluster.world.simulator.changeLists(without("loadBalancers"));
    const path = /loadBalancers\/kubernetes$/u;
    cluster.world.simulator.failNext({ method: "GET", path }, { status: 403, times: 99 });
    const errors = await Promise.all(
      [serviceOf("web"), requestedAt(serviceOf("none"), "2026-01-02T00:00:00Z")].map((one) =>
        errorOf(cluster.remove(next, one)),
      ),
    );
    expect(errors).toEqual([expect.objectContaining({ status: 403 }), undefined]);
  });
});

describe("a Service with an address of which Azure has nothing any more", () => {
  const gone = async (): Promise<Cluster> => {
    const cluster = await openCluster(1);
    await cluster.ensure(await cluster.start(), serviceOf("web"));
    deleteAll(cluster, "loadBalancers", "publicIPAddresses");
    return cluster;
  };

  test("is kept while reads may lag behind the process before, and deleted a minute later", async () => {
    await using cluster = await gone();
    const time = jumpingClock();
    const next = await cluster.start({}, time.clock);
    expect(await errorOf(cluster.remove(next, serviceOf("web")))).toEqual(contradictory);
    time.jump(lagMs - 1_000);
    expect(await errorOf(cluster.remove(next, serviceOf("web")))).toEqual(contradictory);
    time.jump(1_000);
    await cluster.remove(next, serviceOf("web"));
  });

  test("is kept for that minute alone: one that is created in the same round gets its address", async () => {
    await using cluster = await gone();
    cluster.services.set("default/new", serviceOf("new"));
    const next = await cluster.start();
    void next.balancers.run(new AbortController().signal);
    const [removed, ensured] = await Promise.all([
      errorOf(next.balancers.ensureLoadBalancerDeleted("kubernetes", serviceOf("web"))),
      errorOf(cluster.ensure(next, serviceOf("new"))),
    ]);
    expect([removed, ensured]).toEqual([contradictory, undefined]);
    expect(frontendsOf(cluster, "kubernetes")).toBe(1);
  });

  test("is deleted at once if that was requested a minute ago: nothing was written for it since", async () => {
    await using cluster = await gone();
    const next = await cluster.start();
    const at = (agoMs: number): Service => requestedAt(serviceOf("web"), new Date(Date.now() - agoMs).toISOString());
    expect(await errorOf(cluster.remove(next, at(lagMs - 10_000)))).toEqual(contradictory);
    await cluster.remove(next, at(lagMs + 1_000));
  });

  test("is deleted a minute later, too, if its load balancer is there without it", async () => {
    await using cluster = await gone();
    cluster.world.simulator.put(`${group}/loadBalancers/kubernetes`, { sku: { name: "Standard" }, properties: {} });
    const time = jumpingClock();
    const next = await cluster.start({}, time.clock);
    expect(await errorOf(cluster.remove(next, serviceOf("web")))).toEqual(contradictory);
    time.jump(lagMs);
    await cluster.remove(next, serviceOf("web"));
  });

  test("is deleted a minute later if its status has no address, unless it was created since this process has led", async () => {
    await using cluster = await openCluster(1);
    const time = jumpingClock();
    cluster.services.set("default/web", serviceOf("web"));
    const next = await cluster.start({}, time.clock);
    void next.balancers.run(new AbortController().signal);
    await cluster.remove(next, serviceOf("new"));
    expect(await errorOf(cluster.remove(next, serviceOf("web")))).toEqual(contradictory);
    time.jump(lagMs);
    await cluster.remove(next, serviceOf("web"));
  });

  test("is kept for a minute after this process began to lead, however long before that it looked what its config would remove", async () => {
    await using cluster = await gone();
    const time = jumpingClock();
    const next = await cluster.start({}, time.clock);
    await next.balancers.unrequestedRemovals([]);
    time.jump(3 * balancersTtlMs);
    void next.balancers.run(new AbortController().signal);
    expect(await errorOf(cluster.remove(next, serviceOf("web")))).toEqual(contradictory);
    time.jump(lagMs);
    await cluster.remove(next, serviceOf("web"));
  });

  test("is deleted a minute after a write for it that Azure may have carried out although it failed, and at once if Azure has refused it", async () => {
    await using cluster = await openCluster(1);
    const time = jumpingClock();
    const next = await cluster.start({}, time.clock);
    void next.balancers.run(new AbortController().signal);
    time.jump(lagMs);
    const { simulator } = cluster.world;
    await cluster.ensure(next, internal("web"));
    await cluster.remove(next, internal("web"));
    simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, { status: 500, times: 99 });
    expect(await errorOf(cluster.ensure(next, internal("web")))).toBeDefined();
    simulator.clearFailures();
    const web = internal("web");
    const deletionTimestamp = new Date(time.clock.now()).toISOString();
    const leaving = { ...web, metadata: { ...web.metadata, deletionTimestamp } };
    cluster.services.set(keyOf(leaving), leaving);
    expect(await errorOf(cluster.remove(next, leaving))).toEqual(contradictory);
    time.jump(lagMs);
    await cluster.remove(next, leaving);
    simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, { status: 400, code: "Broken" });
    expect(await errorOf(cluster.ensure(next, internal("refused")))).toBeDefined();
    await cluster.remove(next, internal("refused"));
  });

  test("is deleted at once by the process that has deleted the rest, however often it tries", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    for (let attempt = 0; attempt < 3; attempt++)
      await generation.balancers.ensureLoadBalancerDeleted("kubernetes", serviceOf("web"));
    expect(await generation.balancers.getLoadBalancer("kubernetes", serviceOf("web"))).toBeUndefined();
  });
});

test("a public IP of a Service that is attached to a load balancer which does not exist fails that Service alone", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const first = await cluster.start();
  for (const one of [serviceOf("web"), internal("inside")]) await cluster.ensure(first, one);
  const next = await cluster.start();
  simulator.changeLists((all) => all.filter(({ id }) => !id.endsWith("/loadBalancers/kubernetes")));
  const absent = { status: 404, code: "ResourceNotFound", times: 99 };
  simulator.failNext({ method: "GET", path: /loadBalancers\/kubernetes$/u }, absent);
  // Without a status, this is the only evidence.
  cluster.services.set("default/web", serviceOf("web"));
  const web = requestedAt(serviceOf("web"), "2026-01-02T00:00:00Z");
  const errors = [
    await errorOf(cluster.remove(next, web)),
    await errorOf(cluster.ensure(next, serviceOf("web"))),
    await errorOf(cluster.remove(next, internal("inside"))),
  ];
  expect(errors).toEqual([contradictory, contradictory, undefined]);
  expect(azureState(simulator).publicIPs).toHaveLength(1);
});
