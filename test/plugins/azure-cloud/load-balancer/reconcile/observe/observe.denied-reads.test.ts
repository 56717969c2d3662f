import { describe, expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import { errorOf } from "../../../../../kit/rejection.ts";
import { nodeOf } from "../../../world.ts";
import { type Cluster, jumpingClock, openCluster, serviceOf } from "../../cluster.ts";

const internal = (name: string, annotations: Readonly<Record<string, string>> = {}): Service =>
  serviceOf(name, { annotations: { "azure-load-balancer-internal": "true", ...annotations } });

const denied = { status: 403, code: "AuthorizationFailed", times: 1000 };
const zonesRead = { method: "GET", path: /providers\/Microsoft\.Compute$/iu };

const ensureAll = (cluster: Cluster, generation: Awaited<ReturnType<Cluster["start"]>>, services: readonly Service[]) =>
  Promise.all(services.map((one) => errorOf(cluster.ensure(generation, one))));

test("a subnet that may not be read fails its own Service and no other", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start();
  // It leads before the Services are created.
  void generation.balancers.run(new AbortController().signal);
  cluster.world.simulator.failNext({ method: "GET", path: "/subnets/denied" }, denied);
  const services = [
    internal("bad", { "azure-load-balancer-internal-subnet": "Denied" }),
    ...["a", "b", "c"].map((name) => serviceOf(name)),
    internal("d"),
  ];
  const errors = await ensureAll(cluster, generation, services);
  expect(errors).toEqual([expect.objectContaining({ status: 403 }), undefined, undefined, undefined, undefined]);
  await cluster.remove(generation, internal("bad", { "azure-load-balancer-internal-subnet": "Denied" }));
});

describe("zones of the region that may not be read", () => {
  test("fail no deletion, and no Service where a frontend of the cluster shows them", async () => {
    await using cluster = await openCluster(1);
    await cluster.ensure(await cluster.start(), internal("old"));
    cluster.world.simulator.failNext(zonesRead, denied);
    const next = await cluster.start();
    await cluster.ensure(next, internal("new"));
    const zones = JSON.stringify(cluster.world.simulator.resources()).match(/"zones":\["1","2","3"\]/gu);
    expect(zones?.length).toBeGreaterThanOrEqual(2);
    await cluster.remove(next, internal("old"));
  });

  test("fail a Service that creates a frontend or a public IP, rather than create it without zones", async () => {
    await using cluster = await openCluster(1);
    await cluster.ensure(await cluster.start(), serviceOf("old"));
    cluster.world.simulator.failNext(zonesRead, denied);
    const next = await cluster.start();
    const changed = serviceOf("old", { spec: { sessionAffinity: "ClientIP" } });
    const errors = await ensureAll(cluster, next, [serviceOf("new"), internal("inside"), changed]);
    const missing = expect.objectContaining({
      code: "ZonesNotRead",
      message: expect.stringContaining("AuthorizationFailed"),
    });
    expect(errors).toEqual([missing, missing, undefined]);
  });

  test("are those of the last time, once they were read", async () => {
    await using cluster = await openCluster(1);
    const time = jumpingClock();
    const generation = await cluster.start({}, time.clock);
    await cluster.ensure(generation, serviceOf("a"));
    cluster.world.simulator.failNext(zonesRead, denied);
    time.jump(3_600_000);
    await cluster.ensure(generation, serviceOf("b"));
    const zonesOf = cluster.world.simulator
      .resources()
      .filter(({ id }) => id.includes("/publicIPAddresses/"))
      .map(({ zones }) => zones);
    expect(zonesOf).toEqual([
      ["1", "2", "3"],
      ["1", "2", "3"],
    ]);
  });
});

test("an instance that may not be read stays in its pool, and stops no Service", async () => {
  await using cluster = await openCluster(2, { operationStyle: "none" });
  await cluster.ensure(await cluster.start(), serviceOf("web"));
  cluster.nodes.pop();
  cluster.world.simulator.failNext({ method: "GET", path: /virtualMachines\/1$/iu }, denied);
  const next = await cluster.start();
  await cluster.ensure(next, internal("new"));
  expect(JSON.stringify(cluster.world.simulator.instances("vmss0")[1])).toContain("backendAddressPools/kubernetes");
  await cluster.remove(next, serviceOf("web"));
});

describe("a list of scale sets that is throttled", () => {
  const throttled = { status: 429, headers: { "retry-after": "300" }, times: 1000 };
  const list = { method: "GET", path: /virtualMachineScaleSets$/iu };

  test("keeps no Service from being deleted while its load balancer stays", async () => {
    await using cluster = await openCluster(1);
    const first = await cluster.start();
    for (const name of ["a", "b"]) await cluster.ensure(first, internal(name));
    const next = await cluster.start();
    cluster.world.simulator.failNext(list, throttled);
    await cluster.remove(next, internal("b"));
  });

  test("is an error of the Services of its pool, with everything else written", async () => {
    await using cluster = await openCluster(1);
    await cluster.ensure(await cluster.start(), serviceOf("a"));
    const next = await cluster.start();
    cluster.world.simulator.failNext(list, throttled);
    expect(String(await errorOf(cluster.ensure(next, serviceOf("b"))))).toContain("ARM throttles reads");
    expect(cluster.writes().at(-1)).toBe("PUT networkSecurityGroups/nsg0");
  });
});

test("VMs whose sets may not be read fail what must be placed, and no deletion", async () => {
  await using cluster = await openCluster(1);
  const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute/virtualMachines/alone";
  cluster.nodes.push(nodeOf("alone", { providerID: `azure://${id}` }));
  const changes = {
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
  };
  await cluster.ensure(await cluster.start(changes), serviceOf("old"));
  cluster.world.simulator.failNext({ method: "GET", path: /\/virtualMachines$/iu }, denied);
  const next = await cluster.start(changes);
  expect(await errorOf(cluster.ensure(next, serviceOf("new")))).toMatchObject({ status: 403 });
  await cluster.remove(next, serviceOf("old"));
});
