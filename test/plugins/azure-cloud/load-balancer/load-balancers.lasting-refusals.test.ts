import { expect, test } from "bun:test";

import { RetryAfterError } from "cloud-controller-host/sdk";

import type { Failure, RequestMatcher } from "../../../../plugins/azure-cloud/simulator/faults.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { openGatewayTo } from "../arm/gateway.ts";
import { azureState, expectConverged } from "./azure-state.ts";
import { fast, openCluster, serviceOf } from "./cluster.ts";

const puts: RequestMatcher = { method: "PUT", path: "/providers/Microsoft.Network/" };
const putsOfPublicIPs: RequestMatcher = { method: "PUT", path: "/publicIPAddresses/" };
const putsOfBalancers: RequestMatcher = { method: "PUT", path: "/loadBalancers/" };

/** How ARM refuses writes until a person has done something, and how often one resource is written in an attempt. */
const refusals: readonly (readonly [RequestMatcher, Omit<Failure, "times">, number])[] = [
  [puts, { status: 409, code: "ScopeLocked" }, 1],
  [putsOfBalancers, { status: 409, code: "ScopeLocked" }, 1],
  [puts, { status: 409, code: "ReadOnlyDisabledSubscription" }, 1],
  [puts, { status: 409, code: "AnotherOperationInProgress" }, 5],
  [puts, { status: 403, code: "RequestDisallowedByPolicy" }, 1],
  [putsOfPublicIPs, { status: 400, code: "PublicIPCountLimitReached" }, 1],
  [putsOfPublicIPs, { status: 200, code: "PublicIPCountLimitReached", stage: "operation" }, 1],
  [puts, { status: 403, code: "AuthorizationFailed" }, 1],
  [puts, { status: 404, code: "SubscriptionNotFound" }, 1],
];

for (const [matcher, failure, most] of refusals)
  test(`a Service whose writes of ${matcher.path} are refused with ${failure.status} ${failure.code}${failure.stage === undefined ? "" : " in the end"} writes a resource at most ${most} times per attempt, changes no other Service, and is done once that ends`, async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start({}, fast(100));
    await cluster.ensure(generation, serviceOf("other"));
    const before = azureState(simulator);
    simulator.failNext(matcher, { ...failure, times: 1_000 });
    for (let attempt = 0; attempt < 3; attempt++) {
      simulator.clearLog();
      expect(String(await errorOf(cluster.ensure(generation, serviceOf("web"))))).toContain(
        `${failure.code}: An injected`,
      );
      const counts = Map.groupBy(cluster.writes(), (write) => write);
      expect(Math.max(...[...counts.values()].map(({ length }) => length))).toBe(most);
      expect(simulator.log.length).toBeLessThan(60);
    }
    const { balancers, frontends, rules, probes } = azureState(simulator);
    expect({ balancers, frontends, rules, probes }).toEqual({
      balancers: before.balancers,
      frontends: before.frontends,
      rules: before.rules,
      probes: before.probes,
    });
    simulator.clearFailures();
    await cluster.ensure(generation, serviceOf("web"));
    expectConverged(cluster);
  });

test("a Service that ARM rejects is tried again after growing pauses, which are short again once it has succeeded or left", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({}, fast(100));
  const web = serviceOf("web");
  const pauseOf = async (minutes: string): Promise<number | undefined> => {
    const changed = serviceOf("web", { annotations: { "azure-load-balancer-tcp-idle-timeout": minutes } });
    simulator.failNext(putsOfBalancers, { status: 400, code: "InvalidRequestFormat", times: 9 });
    const error = await errorOf(cluster.ensure(generation, changed));
    simulator.clearFailures();
    return error instanceof RetryAfterError ? error.delayMs : undefined;
  };
  expect([await pauseOf("5"), await pauseOf("6")]).toEqual([60_000, 120_000]);
  await cluster.ensure(generation, web);
  expect(await pauseOf("7")).toBe(60_000);
  await generation.balancers.leaveLoadBalancer("kubernetes", web);
  expect(await pauseOf("8")).toBe(60_000);
});

test("a load balancer whose operation has failed without a reason is named in the error", async () => {
  await using cluster = await openCluster(1, { operationStyle: "none" });
  await using gateway = await openGatewayTo(cluster.world);
  const generation = await cluster.start(gateway.changes, fast(100));
  gateway.rewrite(({ pathname }, method, body) => {
    if (method !== "PUT" || !pathname.endsWith("/loadBalancers/kubernetes")) return undefined;
    return JSON.parse(
      JSON.stringify(body).replaceAll('"provisioningState":"Succeeded"', '"provisioningState":"Failed"'),
    );
  });
  const error = await errorOf(cluster.ensure(generation, serviceOf("web")));
  expect(error).toMatchObject({ code: "OperationFailed" });
  expect(String(error)).toContain("/loadBalancers/kubernetes: The long-running operation has failed");
  gateway.rewrite(() => undefined);
  await cluster.ensure(generation, serviceOf("web"));
  expectConverged(cluster);
});

test("a Service whose deletion is refused has a load balancer, so that its finalizer stays", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({ disableAPICallCache: true }, fast(100));
  const web = serviceOf("web", {
    annotations: {
      "azure-load-balancer-internal": "true",
      "azure-pls-create": "true",
      "azure-pls-name": "my-link",
      "azure-pls-delete-protection": "true",
    },
  });
  await cluster.ensure(generation, web);
  const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/privateLinkServices/my-link";
  const connect = (status: string): void => {
    const link = simulator.get(id);
    const properties = { privateLinkServiceConnectionState: { status } };
    const privateEndpointConnections = [{ name: "peer", properties }];
    simulator.put(id, { ...link, properties: { ...link?.properties, privateEndpointConnections } });
  };
  connect("Approved");
  const before = azureState(simulator);
  expect(await generation.balancers.getLoadBalancer("kubernetes", web)).toBeDefined();
  expect(await errorOf(cluster.remove(generation, web))).toMatchObject({ code: "PrivateLinkServiceInUse" });
  expect(azureState(simulator)).toEqual(before);
  connect("Rejected");
  await cluster.remove(generation, web);
  expect(azureState(simulator).frontends).toEqual([]);
});
