import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { azureState } from "../azure-state.ts";
import { openCluster, serviceOf } from "../cluster.ts";

setDefaultTimeout(120_000);

/** More than the guard releases without a cause. */
const manyNodes = 12;
const nodeIP = { loadBalancerBackendPoolConfigurationType: "nodeIP" };
const pools = {
  "network interfaces": {},
  "node IPs": nodeIP,
  "node IPs and a pool of its own": {
    ...nodeIP,
    multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
  },
};
const spec = { externalTrafficPolicy: "Local" } as const;
const local = serviceOf("web", { spec });
const internal = serviceOf("web", { spec, annotations: { "azure-load-balancer-internal": "true" } });

/** With an endpoint of the Service on each node. */
async function openLargePool(config: Readonly<Record<string, unknown>>) {
  const cluster = await openCluster(manyNodes);
  const generation = await cluster.start(config);
  cluster.setEndpoints(
    local,
    cluster.nodes.map(({ metadata }) => metadata?.name ?? ""),
  );
  await cluster.ensure(generation, local);
  return Object.assign(cluster, { generation });
}

describe.each(Object.entries(pools))("the only Service on a pool of 12 nodes, by %s,", (_, config) => {
  test("can be deleted", async () => {
    await using cluster = await openLargePool(config);
    await cluster.remove(cluster.generation, local);
    expect(azureState(cluster.world.simulator).balancers).toEqual([]);
  });

  test("can move to an internal load balancer", async () => {
    await using cluster = await openLargePool(config);
    await cluster.ensure(cluster.generation, internal);
    expect(azureState(cluster.world.simulator).balancers).toEqual(["kubernetes-internal"]);
  });

  test("can take its traffic from any node", async () => {
    await using cluster = await openLargePool(config);
    await cluster.ensure(cluster.generation, serviceOf("web"));
    expect(JSON.stringify(cluster.world.simulator.resources())).not.toContain("backendAddressPools/default-web");
  });
});
