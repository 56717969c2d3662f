import { describe, expect, test } from "bun:test";

import { keyOf } from "cloud-controller-host/sdk";

import { errorOf } from "../../../../../kit/rejection.ts";
import { azureState } from "../../azure-state.ts";
import { type Cluster, openCluster, serviceOf } from "../../cluster.ts";

const group = "ips";
const inGroup = { "azure-load-balancer-resource-group": group };
const reads = { method: "GET", path: `/resourceGroups/${group}/providers/Microsoft.Network/publicIPAddresses` };

async function openGroups(): Promise<Cluster> {
  const cluster = await openCluster(2);
  cluster.world.simulator.addResourceGroup(group);
  return cluster;
}

const publicIPs = ({ world }: Cluster): readonly string[] =>
  world.simulator
    .resources()
    .filter(({ type }) => type.toLowerCase() === "microsoft.network/publicipaddresses")
    .map(({ id }) => id.split("/")[4] ?? "");

const nothing = { publicIPs: [], frontends: [], rules: [], probes: [], balancers: [], allowed: [], pools: [] };

describe("a resource group that only an annotation names", () => {
  for (const status of [403, 503])
    test(`a resource group that only an annotation names and whose public IPs are answered with ${status} delays the deletion of a Service with one there`, async () => {
      await using cluster = await openGroups();
      const web = serviceOf("web", { annotations: inGroup });
      await cluster.ensure(await cluster.start(), web);
      const generation = await cluster.start();
      cluster.world.simulator.clearLog();
      cluster.world.simulator.failNext(reads, { status, times: 99 });
      for (const work of [
        generation.balancers.getLoadBalancer("kubernetes", web),
        generation.balancers.ensureLoadBalancerDeleted("kubernetes", web),
      ])
        expect(String(await errorOf(work))).toContain(String(status));
      expect(cluster.writes()).toEqual([]);
      await cluster.ensure(generation, serviceOf("other"));
      await cluster.remove(generation, serviceOf("other"));
      expect(publicIPs(cluster)).toEqual([group]);
      cluster.world.simulator.clearFailures();
      await cluster.remove(await cluster.start(), web);
      expect(azureState(cluster.world.simulator)).toEqual(nothing);
    });

  test("a resource group that only an annotation names and cannot be read for a moment delays the deletion of a Service whose public IP is all that is left", async () => {
    await using cluster = await openGroups();
    const web = serviceOf("web", { annotations: inGroup });
    const first = await cluster.start();
    await cluster.ensure(first, web);
    cluster.world.simulator.failNext({ method: "DELETE", path: "/publicIPAddresses/" }, { status: 500, times: 99 });
    expect(await errorOf(cluster.remove(first, web))).toBeDefined();
    cluster.world.simulator.clearFailures();
    const generation = await cluster.start();
    cluster.world.simulator.failNext(reads, { status: 503, times: 99 });
    expect(await errorOf(cluster.remove(generation, web))).toMatchObject({ status: 503 });
    cluster.world.simulator.clearFailures();
    await cluster.remove(generation, web);
    expect(azureState(cluster.world.simulator)).toEqual(nothing);
  });

  test("a resource group that only an annotation names and cannot be read delays the deletion of a Service that has a public IP there and names another group since", async () => {
    await using cluster = await openGroups();
    await cluster.ensure(await cluster.start(), serviceOf("web", { annotations: inGroup }));
    const generation = await cluster.start();
    cluster.world.simulator.clearLog();
    cluster.world.simulator.failNext(reads, { status: 403, times: 99 });
    const removed = generation.balancers.ensureLoadBalancerDeleted("kubernetes", serviceOf("web"));
    expect(await errorOf(removed)).toMatchObject({ status: 403 });
    expect(cluster.writes()).toEqual([]);
    cluster.world.simulator.clearFailures();
    await cluster.remove(generation, serviceOf("web"));
    expect(azureState(cluster.world.simulator)).toEqual(nothing);
  });

  test("a resource group that only an annotation names and that ARM denies access to does not block the deletion of a Service that has nothing there", async () => {
    await using cluster = await openGroups();
    const generation = await cluster.start();
    // It leads before the Service is created.
    void generation.balancers.run(new AbortController().signal);
    cluster.world.simulator.failNext(reads, { status: 403, times: 99 });
    const denied = serviceOf("web", { annotations: inGroup });
    expect(await errorOf(cluster.ensure(generation, denied))).toMatchObject({ status: 403 });
    await cluster.remove(generation, denied);
    await cluster.ensure(generation, serviceOf("web"));
    await cluster.remove(generation, denied);
    expect(azureState(cluster.world.simulator)).toEqual(nothing);
  });

  test("keeps no public IP of a Service that names another group, or none", async () => {
    await using cluster = await openGroups();
    const generation = await cluster.start();
    for (const annotations of [{}, inGroup, {}, inGroup]) {
      await cluster.ensure(generation, serviceOf("web", { annotations }));
      expect(publicIPs(cluster)).toEqual([annotations === inGroup ? group : "rg0"]);
    }
    await cluster.remove(await cluster.start(), serviceOf("web"));
    expect(azureState(cluster.world.simulator)).toEqual(nothing);
  });

  test("keeps the rules of its Service open while the Service's status is not seen yet and others are synced", async () => {
    await using cluster = await openGroups();
    const generation = await cluster.start();
    const web = serviceOf("web", { annotations: inGroup });
    await cluster.ensure(generation, web);
    cluster.services.set(keyOf(web), web);
    const { allowed } = azureState(cluster.world.simulator);
    expect(allowed).toHaveLength(1);
    for (const next of [generation, await cluster.start()]) {
      await cluster.ensure(next, serviceOf("other"));
      await cluster.remove(next, serviceOf("other"));
      expect(azureState(cluster.world.simulator).allowed).toEqual(allowed);
    }
    cluster.world.simulator.failNext(reads, { status: 503, times: 99 });
    await cluster.ensure(await cluster.start(), serviceOf("other"));
    expect(azureState(cluster.world.simulator).allowed).toContain(allowed[0] ?? "");
  });
});

describe("a public IP that ARM refuses to delete for a moment, because it is still attached somewhere", () => {
  for (const others of [[], ["other"]])
    test(`goes in the end, ${others.length === 0 ? "after" : "without"} its load balancer`, async () => {
      await using cluster = await openCluster(2);
      const generation = await cluster.start();
      for (const name of ["web", ...others]) await cluster.ensure(generation, serviceOf(name));
      const refusal = { status: 400, code: "PublicIPAddressCannotBeDeleted", times: 3 };
      cluster.world.simulator.failNext({ method: "DELETE", path: "/publicIPAddresses/" }, refusal);
      await cluster.remove(generation, serviceOf("web"));
      expect(publicIPs(cluster)).toHaveLength(others.length);
      expect(generation.events).toEqual([]);
    });
});

test("a public IP of a load balancer outside of the cluster stays in use by that, whatever the cluster writes", async () => {
  await using cluster = await openGroups();
  const { simulator } = cluster.world;
  const scope = "/subscriptions/sub0/resourceGroups";
  const properties = { ipAddress: "20.9.9.9", publicIPAllocationMethod: "Static" };
  simulator.put("/providers/Microsoft.Network/publicIPAddresses/taken", { sku: { name: "Standard" }, properties });
  const publicIPAddress = { id: `${scope}/rg0/providers/Microsoft.Network/publicIPAddresses/taken` };
  const outside = `${scope}/${group}/providers/Microsoft.Network/loadBalancers/outside`;
  simulator.put(outside, {
    properties: { frontendIPConfigurations: [{ name: "f", properties: { publicIPAddress } }] },
  });
  const generation = await cluster.start();
  await cluster.ensure(generation, serviceOf("web"));
  const wanting = serviceOf("wanting", { annotations: { "azure-pip-name": "taken" } });
  expect(await errorOf(cluster.ensure(generation, wanting))).toMatchObject({
    code: "PublicIPInUse",
    message: `public IP taken is in use by ${outside}/frontendIPConfigurations/f`,
  });
});
