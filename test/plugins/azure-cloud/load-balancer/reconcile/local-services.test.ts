import { describe, expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { objectAt, objectsAt, stringAt } from "../../../../../plugins/azure-cloud/json.ts";
import { type Cluster, openCluster, serviceOf } from "../cluster.ts";

const config = {
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
};
const local = serviceOf("web", { spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 } });

/** Addresses in the pool of the local Service. */
function addressesIn({ world }: Cluster): readonly string[] {
  const balancer = world.simulator.get("/providers/Microsoft.Network/loadBalancers/kubernetes");
  const pools = objectsAt(balancer?.properties, "backendAddressPools");
  const pool = pools.find((one) => stringAt(one, "name") === "default-web");
  return objectsAt(objectAt(pool, "properties"), "loadBalancerBackendAddresses").map(
    (address) => stringAt(objectAt(address, "properties"), "ipAddress") ?? "",
  );
}

describe("the pool of a local Service with several load balancers", () => {
  test("follows its endpoints from node to node, and costs nothing while their nodes stay the same", async () => {
    await using cluster = await openCluster(3);
    cluster.setEndpoints(local, ["vmss0000000"]);
    const generation = await cluster.start(config);
    await cluster.ensure(generation, local);
    expect(addressesIn(cluster)).toEqual(["10.240.0.4"]);
    const reconciled = (): number =>
      cluster.world.measured.filter((line) => line.startsWith("cloudprovider_azure_services_reconciled_total")).length;
    const stop = new AbortController();
    const running = generation.balancers.run(stop.signal);
    cluster.world.simulator.clearLog();
    cluster.setEndpoints(local, ["vmss0000000", "vmss0000000"]);
    await Bun.sleep(20);
    expect(cluster.writes()).toEqual([]);
    expect(reconciled()).toBe(1);
    cluster.setEndpoints(local, ["vmss0000001", "vmss0000002"]);
    await eventually("the pool has the new nodes", () => addressesIn(cluster).join() === "10.240.0.5,10.240.0.6");
    await eventually("it is reported", () => generation.events.includes("web LoadBalancerBackendPoolUpdated"));
    stop.abort();
    await running;
  });

  test("is left alone once its Service is deleted, and reported when ARM refuses it", async () => {
    await using cluster = await openCluster(2);
    cluster.setEndpoints(local, ["vmss0000000"]);
    const generation = await cluster.start(config);
    await cluster.ensure(generation, local);
    const stop = new AbortController();
    const running = generation.balancers.run(stop.signal);
    cluster.world.simulator.failNext({ method: "PUT", path: "loadBalancers/kubernetes" }, { status: 400 });
    cluster.setEndpoints(local, ["vmss0000001"]);
    await eventually("it is reported", () => generation.events.includes("web LoadBalancerBackendPoolUpdateFailed"));
    await eventually("it is tried again", () => addressesIn(cluster).join() === "10.240.0.5");
    await cluster.remove(generation, local);
    cluster.world.simulator.clearLog();
    cluster.setEndpoints(local, ["vmss0000000"]);
    await Bun.sleep(20);
    expect(cluster.writes()).toEqual([]);
    stop.abort();
    await running;
  });
});
