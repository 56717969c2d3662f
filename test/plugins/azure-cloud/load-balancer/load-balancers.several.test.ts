import { expect, test } from "bun:test";

import { annotations, keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { azureState } from "./azure-state.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf } from "./cluster.ts";

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
async function removeMarked(cluster: Cluster, generation: Generation, service: Service): Promise<void> {
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

test.each([
  ["", {}],
  [
    "-internal",
    { annotations: { "azure-load-balancer-internal": "true", "azure-load-balancer-configurations": "gold" } },
  ],
])(
  "the nodes of gold%s, whose last Service is deleted, join the pool of another load balancer",
  async (suffix, options) => {
    await using cluster = await openWithGold();
    const generation = await cluster.start(several);
    const leaves = serviceOf("leaves", options);
    await cluster.ensure(generation, serviceOf("stays"));
    await cluster.ensure(generation, leaves);
    expect([members(cluster, "kubernetes"), members(cluster, `gold${suffix}`)]).toEqual([2, 1]);
    await removeMarked(cluster, generation, leaves);
    expect(azureState(cluster.world.simulator).balancers).toEqual(["kubernetes"]);
    await eventually("all nodes are in one pool", () => members(cluster, "kubernetes") === 3);
  },
);

test("the nodes of a load balancer that is gone join another pool although some Services are refused", async () => {
  await using cluster = await openWithGold();
  const generation = await cluster.start(several);
  const refused = (name: string) => serviceOf(name, { annotations: { "azure-load-balancer-tcp-idle-timeout": "1" } });
  for (const name of ["a", "b"]) expect(await errorOf(cluster.ensure(generation, refused(name)))).toBeDefined();
  await cluster.ensure(generation, serviceOf("stays"));
  await cluster.ensure(generation, serviceOf("leaves"));
  await removeMarked(cluster, generation, serviceOf("leaves"));
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
  await removeMarked(cluster, generation, serviceOf("leaves"));
  expect(azureState(cluster.world.simulator).balancers).toEqual([]);
  await Bun.sleep(50);
  expect(cluster.world.logged.map(({ message }) => message)).not.toContainEqual(
    expect.stringContaining("trying again"),
  );
});

test("a node stays in its pool while the load balancer that it moves to is refused, and moves as soon as that is created", async () => {
  await using cluster = await openWithGold();
  const { simulator } = cluster.world;
  const generation = await cluster.start(several);
  await cluster.ensure(generation, serviceOf("stays"));
  const isGold = { method: "PUT", path: /loadBalancers\/gold$/u };
  simulator.failNext(isGold, { status: 400, code: "LoadBalancerRuleCountLimitReached" });
  expect(await errorOf(cluster.ensure(generation, serviceOf("golden")))).toBeDefined();
  expect([members(cluster, "kubernetes"), members(cluster, "gold")]).toEqual([3, 0]);
  simulator.clearLog();
  await cluster.ensure(generation, serviceOf("golden"));
  expect([members(cluster, "kubernetes"), members(cluster, "gold")]).toEqual([2, 1]);
  expect(
    cluster
      .writes()
      .filter((write) => write.startsWith("PUT loadBalancers/"))
      .toSorted(),
  ).toEqual(["PUT loadBalancers/gold", "PUT loadBalancers/gold", "PUT loadBalancers/kubernetes"]);
});

/** Addresses on which the security group opens the node port of a Service. */
const openedFor = ({ world }: Cluster, service: Service): readonly string[] =>
  objectsAt(world.simulator.get("/providers/Microsoft.Network/networkSecurityGroups/nsg0")?.properties, "securityRules")
    .map((rule) => objectAt(rule, "properties"))
    .filter((rule) => JSON.stringify(rule).includes(String(service.spec?.ports?.[0]?.nodePort)))
    .flatMap((rule) => rule?.["destinationAddressPrefixes"] ?? rule?.["destinationAddressPrefix"])
    .flatMap(String);

const ownRules = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-disable-load-balancer-floating-ip": "true" } });

test("node ports of a Service without floating IP follow the nodes that other Services bring to another load balancer", async () => {
  await using cluster = await openWithGold();
  const { simulator, logged } = cluster.world;
  const generation = await cluster.start(several, fast(100));
  const named = ownRules("named");
  await cluster.ensure(generation, named);
  expect(openedFor(cluster, named)).toHaveLength(3);
  const read = { method: "GET", path: /loadBalancers\/kubernetes$/u };
  simulator.failNext(read, { status: 403, code: "AuthorizationFailed" });
  // It may be planned with that read.
  await errorOf(cluster.ensure(generation, serviceOf("golden")));
  expect(members(cluster, "gold")).toBe(1);
  await eventually("the node that has left is closed", () => openedFor(cluster, named).length === 2);
  await removeMarked(cluster, generation, serviceOf("golden"));
  await eventually("the node that is back is open", () => openedFor(cluster, named).length === 3, 20_000);
  expect(logged.map(({ message }) => message)).toContainEqual(expect.stringContaining("trying again"));
});

test.each([
  ["that has been planned with them is not planned again", "kubernetes", ownRules("web")],
  ["with floating IP is not planned again", "kubernetes", serviceOf("web")],
])("a Service %s when nodes have moved", async (_, name, web) => {
  await using cluster = await openWithGold();
  const { simulator } = cluster.world;
  const generation = await cluster.start(several);
  const nodes = cluster.nodes.splice(1, 1);
  for (const one of [web, serviceOf("other")]) await cluster.ensure(generation, one);
  simulator.clearLog();
  cluster.nodes.push(...nodes);
  await cluster.ensure(generation, web);
  expect(members(cluster, name)).toBe(2);
  await Bun.sleep(50);
  expect(simulator.log.filter(({ method, path }) => method === "GET" && path.includes("/loadBalancers/"))).toEqual([]);
});

test("a load balancer that the write for a Service which leaves it has left as failed is written again before that is done", async () => {
  await using cluster = await openWithGold();
  const { simulator } = cluster.world;
  const generation = await cluster.start(several);
  const at = (place: string, name = "moves") =>
    serviceOf(name, { annotations: { "azure-load-balancer-configurations": place } });
  for (const place of ["kubernetes", "gold"]) await cluster.ensure(generation, at(place, `of-${place}`));
  await cluster.ensure(generation, at("kubernetes"));
  const failure = { status: 500, code: "InternalServerError", stage: "operation" } as const;
  simulator.failNext({ method: "PUT", path: "/loadBalancers/kubernetes" }, failure);
  const state = () =>
    stringAt(simulator.get("/providers/Microsoft.Network/loadBalancers/kubernetes")?.properties, "provisioningState");
  expect(await errorOf(cluster.ensure(generation, at("gold")))).toMatchObject({ code: "InternalServerError" });
  expect(state()).toBe("Failed");
  await cluster.ensure(generation, at("gold"));
  expect(state()).toBe("Succeeded");
});

test("a node that another deployment leaves in the pool of a load balancer, by what it had read before, leaves it again", async () => {
  await using cluster = await openWithGold();
  const { metadata, ...rest } = serviceOf("others");
  const marks = { [annotations.servedBy]: "another" };
  cluster.services.set("default/others", { ...rest, metadata: { ...metadata, annotations: marks } });
  const generation = await cluster.start(several, fast(200));
  const path = "/providers/Microsoft.Network/loadBalancers/kubernetes";
  await cluster.ensure(generation, serviceOf("stays"));
  const before = cluster.world.simulator.get(path);
  await cluster.ensure(generation, serviceOf("golden"));
  expect([members(cluster, "kubernetes"), members(cluster, "gold")]).toEqual([2, 1]);
  cluster.world.simulator.put(path, before ?? {});
  expect(members(cluster, "kubernetes")).toBe(3);
  await eventually("each node is in one pool", () => members(cluster, "kubernetes") === 2);
  expect(members(cluster, "gold")).toBe(1);
});
