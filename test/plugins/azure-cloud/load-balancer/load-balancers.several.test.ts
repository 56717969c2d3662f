import { expect, test } from "bun:test";

import { keyOf } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { azureState } from "./azure-state.ts";
import { type Cluster, type Generation, openCluster, serviceOf } from "./cluster.ts";

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

/** Removes a Service that shows its deletion meanwhile, as the API server's does, and comes first in every list. */
async function removeMarked(cluster: Cluster, generation: Generation, name: string): Promise<void> {
  const service = serviceOf(name);
  const leaving = { ...service, metadata: { ...service.metadata, deletionTimestamp: "2026-01-02T00:00:00Z" } };
  const others = [...cluster.services].filter(([key]) => key !== keyOf(service));
  cluster.services.clear();
  for (const [key, one] of [[keyOf(service), leaving] as const, ...others]) cluster.services.set(key, one);
  await cluster.remove(generation, leaving);
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
  await removeMarked(cluster, generation, "leaves");
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
  await removeMarked(cluster, generation, "leaves");
  await eventually("all nodes are in one pool", () => members(cluster, "kubernetes") === 3);
  expect(cluster.world.logged.map(({ message }) => message)).not.toContainEqual(
    expect.stringContaining("trying again"),
  );
});

test("a load balancer that is gone leaves nothing to try again while all remaining Services are refused", async () => {
  await using cluster = await openWithGold();
  const generation = await cluster.start(several);
  const refused = serviceOf("refused", { annotations: { "azure-load-balancer-tcp-idle-timeout": "1" } });
  expect(await errorOf(cluster.ensure(generation, refused))).toBeDefined();
  await cluster.ensure(generation, serviceOf("leaves"));
  await removeMarked(cluster, generation, "leaves");
  expect(azureState(cluster.world.simulator).balancers).toEqual([]);
  await Bun.sleep(50);
  expect(cluster.world.logged.map(({ message }) => message)).not.toContainEqual(
    expect.stringContaining("trying again"),
  );
});
