import { describe, expect, test } from "bun:test";

import { isObject, keyOf } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../kit/rejection.ts";
import { openGatewayTo } from "../arm/gateway.ts";
import { azureState, expectConverged } from "./azure-state.ts";
import { fast, openCluster, serviceOf } from "./cluster.ts";

/** A success whose body is an error, as gateways send it. */
const malformed = { status: 200, code: "Oops", times: 1000 } as const;

describe("reads that are answered with success and without a resource", () => {
  for (const [what, path] of [
    ["load balancers", /\/loadBalancers$/u],
    ["public IPs", /\/publicIPAddresses$/u],
    ["the security group", /\/networkSecurityGroups\/nsg0$/u],
  ] as const)
    test(`a Service is not deleted without its parts while reads of ${what} are answered with success and without a resource`, async () => {
      await using cluster = await openCluster(1);
      const { simulator } = cluster.world;
      const generation = await cluster.start({ disableAPICallCache: true }, fast(100));
      const [web, other] = [serviceOf("web"), serviceOf("other")];
      for (const service of [web, other]) await cluster.ensure(generation, service);
      const before = azureState(simulator);
      simulator.failNext({ method: "GET", path }, malformed);
      simulator.clearLog();
      expect(await errorOf(cluster.remove(generation, web))).toMatchObject({ code: "InvalidReply" });
      expect(await errorOf(cluster.ensure(generation, other))).toMatchObject({ code: "InvalidReply" });
      expect(cluster.writes()).toEqual([]);
      expect(azureState(simulator)).toEqual(before);
      simulator.clearFailures();
      await cluster.remove(generation, web);
      expect(cluster.services.has(keyOf(web))).toBe(false);
      expectConverged(cluster);
    });

  test.each([
    ["an instance", /virtualMachines\/1$/u],
    ["the model of a scale set", /virtualMachineScaleSets\/vmss0$/u],
  ])(
    "a Service whose nodes have not joined its pool because reads of %s are answered with success and without a resource is not done",
    async (_what, path) => {
      await using cluster = await openCluster(2);
      const { simulator } = cluster.world;
      const generation = await cluster.start({}, fast(100));
      simulator.failNext({ method: "GET", path }, malformed);
      expect(await errorOf(cluster.ensure(generation, serviceOf("web")))).toMatchObject({ code: "InvalidReply" });
      simulator.clearFailures();
      await cluster.ensure(generation, serviceOf("web"));
      for (const instance of simulator.instances("vmss0"))
        expect(JSON.stringify(instance)).toContain("loadBalancers/kubernetes/backendAddressPools");
      expectConverged(cluster);
    },
  );
});

/** The body with `properties: null` in every resource of it. */
const stripped = (body: unknown): unknown => {
  if (!isObject(body)) return body;
  const { value } = body;
  return Array.isArray(value) ? { ...body, value: value.map(stripped) } : { ...body, properties: null };
};

describe("reads that are answered with resources whose properties are null", () => {
  test.each([
    ["load balancers", /\/loadBalancers(\/[^/]+)?$/u],
    ["public IPs", /\/publicIPAddresses(\/[^/]+)?$/u],
    ["the security group", /\/networkSecurityGroups\/nsg0$/u],
  ])(
    "no part of another Service is lost to a process that starts while reads of %s have no properties",
    async (_what, path) => {
      await using cluster = await openCluster(1);
      await using gateway = await openGatewayTo(cluster.world);
      const { simulator } = cluster.world;
      const config = { ...gateway.changes, disableAPICallCache: true };
      const former = await cluster.start(config, fast(100));
      const [web, other] = [serviceOf("web"), serviceOf("other")];
      for (const service of [web, other]) await cluster.ensure(former, service);
      former.crash();
      const before = azureState(simulator);
      const generation = await cluster.start(config, fast(100));
      gateway.rewrite(({ pathname }, method, body) =>
        method === "GET" && path.test(pathname) ? stripped(body) : undefined,
      );
      const changed = serviceOf("web", { spec: { ports: [{ protocol: "TCP", port: 81, nodePort: 30_081 }] } });
      simulator.clearLog();
      expect(await errorOf(cluster.ensure(generation, changed))).toMatchObject({ code: "InvalidReply" });
      expect(await errorOf(cluster.remove(generation, other))).toMatchObject({ code: "InvalidReply" });
      expect(cluster.writes()).toEqual([]);
      expect(azureState(simulator)).toEqual(before);
      gateway.rewrite(() => undefined);
      await cluster.ensure(generation, web);
      await cluster.remove(generation, other);
      expectConverged(cluster);
    },
  );
});

describe("a write that is answered with success and without a resource", () => {
  test.each([
    ["a public IP", /\/publicIPAddresses\/kubernetes-a/u],
    ["a load balancer", /\/loadBalancers\/kubernetes$/u],
    ["the security group", /\/networkSecurityGroups\/nsg0$/u],
    ["an instance", /\/virtualMachines\/1$/u],
  ])(
    "a Service is not done while writes of %s are answered with success and without a resource",
    async (_what, path) => {
      await using cluster = await openCluster(2);
      const { simulator } = cluster.world;
      const generation = await cluster.start({}, fast(100));
      const web = serviceOf("web");
      simulator.failNext({ method: "PUT", path }, malformed);
      expect(await errorOf(cluster.ensure(generation, web))).toMatchObject({ code: "InvalidReply" });
      expect(simulator.log.filter((one) => one.method === "PUT" && path.test(one.path))).toHaveLength(1);
      simulator.clearFailures();
      await cluster.ensure(generation, web);
      expectConverged(cluster);
    },
  );
});

describe("a poll that is answered with success and without a status", () => {
  const poll = { method: "GET", path: "/operations/" } as const;

  test("a Service is not done while the polls of its writes are answered with success and without a status", async () => {
    await using cluster = await openCluster(1, { operationPolls: 2 });
    const { simulator } = cluster.world;
    const generation = await cluster.start({}, fast(100));
    const web = serviceOf("web");
    simulator.failNext(poll, malformed);
    expect(await errorOf(cluster.ensure(generation, web))).toMatchObject({ code: "InvalidReply" });
    simulator.clearFailures();
    await cluster.ensure(generation, web);
    expectConverged(cluster);
  });

  test("a Service is not deleted while the polls of its deletions are answered with success and without a status", async () => {
    await using cluster = await openCluster(1, { operationPolls: 2 });
    const { simulator } = cluster.world;
    const generation = await cluster.start({}, fast(100));
    const web = serviceOf("web");
    await cluster.ensure(generation, web);
    simulator.failNext(poll, malformed);
    expect(await errorOf(cluster.remove(generation, web))).toMatchObject({ code: "InvalidReply" });
    simulator.clearFailures();
    // The write that was not waited for may still be in progress.
    const isRemoved = async () => (await errorOf(cluster.remove(generation, web))) === undefined;
    await eventually("the Service is deleted", isRemoved, 20_000);
    expectConverged(cluster);
  });
});
