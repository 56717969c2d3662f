import { expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { azureState } from "./azure-state.ts";
import { type Cluster, openCluster, serviceOf } from "./cluster.ts";

/** Nodes of the label go to `gold` while it exists, the others to `kubernetes`. */
const several = {
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [
    { name: "kubernetes", primaryVMSet: "none" },
    { name: "gold", primaryVMSet: "none-either", nodeSelector: { matchLabels: { pool: "gold" } } },
  ],
};

async function openWithGold(): Promise<Cluster> {
  const cluster = await openCluster(3);
  const [first, ...others] = cluster.nodes;
  if (first === undefined) throw new Error("the cluster has no node");
  const golden = { ...first, metadata: { ...first.metadata, labels: { ...first.metadata?.labels, pool: "gold" } } };
  cluster.nodes.splice(0, 3, golden, ...others);
  return cluster;
}

/** How many members the pool of a load balancer has. */
function members({ world }: Cluster, name: string): number {
  const balancer = world.simulator.get(`/providers/Microsoft.Network/loadBalancers/${name}`);
  const pool = objectsAt(balancer?.properties, "backendAddressPools").find(
    (one) => stringAt(one, "name") === "kubernetes",
  );
  return objectsAt(objectAt(pool, "properties"), "loadBalancerBackendAddresses").length;
}

test("the nodes of a load balancer whose last Service is deleted join the pool of another one", async () => {
  await using cluster = await openWithGold();
  const generation = await cluster.start(several);
  await cluster.ensure(generation, serviceOf("stays"));
  await cluster.ensure(generation, serviceOf("leaves"));
  expect([members(cluster, "kubernetes"), members(cluster, "gold")]).toEqual([2, 1]);
  await cluster.remove(generation, serviceOf("leaves"));
  expect(azureState(cluster.world.simulator).balancers).toEqual(["kubernetes"]);
  await eventually("all nodes are in one pool", () => members(cluster, "kubernetes") === 3);
});

test("the nodes of a load balancer that is gone join another pool although some Services are refused", async () => {
  await using cluster = await openWithGold();
  const generation = await cluster.start(several);
  const refused = (name: string) => serviceOf(name, { annotations: { "azure-load-balancer-tcp-idle-timeout": "1" } });
  for (const name of ["a", "b"]) expect(await errorOf(cluster.ensure(generation, refused(name)))).toBeDefined();
  await cluster.ensure(generation, serviceOf("stays"));
  await cluster.ensure(generation, serviceOf("leaves"));
  await cluster.remove(generation, serviceOf("leaves"));
  await eventually("all nodes are in one pool", () => members(cluster, "kubernetes") === 3);
  expect(cluster.world.logged.map(({ message }) => message)).not.toContainEqual(
    expect.stringContaining("trying again"),
  );
});
