import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { keyOf, type Service } from "cloud-controller-host/sdk";

import { objectsAt } from "../../../../../plugins/azure-cloud/json.ts";
import type { Resource } from "../../../../../plugins/azure-cloud/simulator/state/store.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { type Cluster, type Generation, openCluster, serviceOf } from "../cluster.ts";

setDefaultTimeout(120_000);

const group = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const addresses = { loadBalancerBackendPoolConfigurationType: "nodeIP" };
const held = expect.objectContaining({ message: expect.stringContaining("would be removed within 600 s") });

const balancerOf = ({ world }: Cluster, name = "kubernetes") =>
  world.simulator.get(`${group}/loadBalancers/${name}`)?.properties;
const countOf = (cluster: Cluster, list: string, name?: string): number =>
  objectsAt(balancerOf(cluster, name), list).length;
const members = (cluster: Cluster): number =>
  objectsAt(balancerOf(cluster), "backendAddressPools").flatMap((pool) =>
    objectsAt({ ...pool, ...Object(pool["properties"]) }, "loadBalancerBackendAddresses"),
  ).length;

const many = (count: number): readonly Service[] => Array.from({ length: count }, (_, index) => serviceOf(`s${index}`));

const ensureAll = (cluster: Cluster, generation: Generation, services: readonly Service[]) =>
  Promise.all(services.map((one) => errorOf(cluster.ensure(generation, one))));

const deletedAt = (service: Service): Service => ({
  ...service,
  metadata: { ...service.metadata, deletionTimestamp: "2026-01-02T00:00:00Z" },
});

describe("removals that no cause explains", () => {
  test("keep the members of a pool while the list of nodes is shortened, and the rest of the plan is carried out", async () => {
    await using cluster = await openCluster(30);
    const generation = await cluster.start(addresses);
    await cluster.ensure(generation, serviceOf("web"));
    expect(members(cluster)).toBe(30);
    for (const { metadata } of cluster.nodes.slice(10)) cluster.hidden.add(metadata?.name ?? "");
    await cluster.ensure(generation, serviceOf("new"));
    expect(members(cluster)).toBe(30);
    expect(countOf(cluster, "frontendIPConfigurations")).toBe(2);
    expect(generation.events).toContain("new RemovalHeld");
    expect(generation.warnings()).toEqual([
      expect.stringMatching(/^removals are held since \d{4}-[\d:T.-]+Z: 20 of 30 members of backend pool kubernetes/u),
    ]);
  });

  for (const isGone of [false, true])
    test(`${isGone ? "let" : "do not let"} network interfaces go whose nodes a watch shows as deleted, and the API server has ${isGone ? "not" : "still"}`, async () => {
      await using cluster = await openCluster(30);
      const generation = await cluster.start();
      await cluster.ensure(generation, serviceOf("web"));
      const interfaces = (): number =>
        objectsAt(balancerOf(cluster), "backendAddressPools").flatMap((pool) =>
          objectsAt({ ...pool, ...Object(pool["properties"]) }, "backendIPConfigurations"),
        ).length;
      expect(interfaces()).toBe(30);
      const lost = cluster.nodes.slice(10);
      for (const node of lost) cluster.lose(node);
      if (isGone) cluster.nodes.splice(10);
      await cluster.ensure(generation, serviceOf("new"));
      expect(interfaces()).toBe(isGone ? 10 : 30);
      expect(generation.warnings()).toHaveLength(isGone ? 0 : 1);
    });

  test("release members that are deleted from the API server as well", async () => {
    await using cluster = await openCluster(30);
    const generation = await cluster.start(addresses);
    await cluster.ensure(generation, serviceOf("web"));
    cluster.nodes.splice(5);
    await cluster.ensure(generation, serviceOf("web"));
    expect(members(cluster)).toBe(5);
    expect(generation.warnings()).toEqual([]);
  });

  test("keep Services that vanish from the list without a deletion", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    const services = many(20);
    await ensureAll(cluster, generation, services);
    for (const { metadata } of services) cluster.hidden.add(metadata?.name ?? "");
    const errors = await Promise.all(
      services.map((one) => errorOf(generation.balancers.ensureLoadBalancerDeleted("kubernetes", one))),
    );
    expect(errors).toEqual(services.map(() => held));
    expect(countOf(cluster, "frontendIPConfigurations")).toBe(20);
    expect(countOf(cluster, "loadBalancingRules")).toBe(20);
  });

  test("keep the load balancer of all Services when a restart brings another loadBalancerName", async () => {
    await using cluster = await openCluster(1);
    const services = many(20);
    await ensureAll(cluster, await cluster.start(), services);
    const next = await cluster.start({ loadBalancerName: "other" });
    expect(await ensureAll(cluster, next, services)).toEqual(services.map(() => held));
    expect(cluster.writes().filter((write) => write.startsWith("DELETE"))).toEqual([]);
    expect(countOf(cluster, "loadBalancingRules")).toBe(20);
  });

  test("are held from the eleventh on when they come one at a time", async () => {
    await using cluster = await openCluster(1);
    const services = many(20);
    const generation = await cluster.start();
    await ensureAll(cluster, generation, services);
    const errors: unknown[] = [];
    for (const one of services) {
      cluster.hidden.add(one.metadata?.name ?? "");
      errors.push(await errorOf(generation.balancers.ensureLoadBalancerDeleted("kubernetes", one)));
    }
    expect(errors).toEqual(services.map((_, index) => (index < 10 ? undefined : held)));
    expect(countOf(cluster, "loadBalancingRules")).toBe(10);
  });

  test("are carried out once exactly this plan is confirmed", async () => {
    await using cluster = await openCluster(1);
    const services = many(20);
    await ensureAll(cluster, await cluster.start(), services);
    const next = await cluster.start({ loadBalancerName: "other" });
    await ensureAll(cluster, next, services);
    const hash = /confirm ([0-9a-f]{12})/u.exec(next.warnings()[0] ?? "")?.[1] ?? "";
    cluster.confirmed.add(hash.replace(/.$/u, "x"));
    await Bun.sleep(1_100);
    expect(await ensureAll(cluster, next, services)).toEqual(services.map(() => held));
    cluster.confirmed.add(hash);
    await Bun.sleep(1_100);
    expect(await ensureAll(cluster, next, services)).toEqual(services.map(() => undefined));
    expect(balancerOf(cluster)).toBeUndefined();
    expect(countOf(cluster, "loadBalancingRules", "other")).toBe(20);
    expect(next.warnings()).toEqual([]);
  });
});

/** The load balancer without what carries traffic, under the etag of the whole one or under one of its own. */
const bare = (one: Resource): Resource =>
  one.id.endsWith("loadBalancers/kubernetes")
    ? { ...one, properties: { ...one.properties, frontendIPConfigurations: [], loadBalancingRules: [], probes: [] } }
    : one;

describe("a load balancer with 20 Services", () => {
  const internal = { "azure-load-balancer-internal": "true" };
  const internals = many(20).map(({ metadata }) => serviceOf(metadata?.name ?? "", { annotations: internal }));
  const bareInternal = (one: Resource): Resource => bare({ ...one, id: one.id.replace(/-internal$/u, "") });
  const withId = (one: Resource): Resource => ({ ...bareInternal(one), id: one.id });

  test("is not overwritten while every read shows it without them", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start({ disableAPICallCache: true });
    await ensureAll(cluster, generation, internals);
    cluster.world.simulator.changeLists((all) => all.map(withId));
    cluster.world.simulator.changeGets(withId);
    const error = await errorOf(cluster.ensure(generation, serviceOf("new", { annotations: internal })));
    expect(error).toEqual(held);
    expect(countOf(cluster, "loadBalancingRules", "kubernetes-internal")).toBe(20);
    cluster.world.simulator.changeLists();
    cluster.world.simulator.changeGets();
    expect(await errorOf(cluster.ensure(generation, serviceOf("new", { annotations: internal })))).toBeUndefined();
    expect(countOf(cluster, "loadBalancingRules", "kubernetes-internal")).toBe(21);
  });

  test("gets them back with one write after another client has replaced it with an empty one", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start({ disableAPICallCache: true });
    await ensureAll(cluster, generation, internals);
    const id = `${group}/loadBalancers/kubernetes-internal`;
    const stored = cluster.world.simulator.get(id);
    if (stored === undefined) throw new Error("missing: load balancer");
    cluster.world.simulator.put(id, withId(stored));
    expect(countOf(cluster, "loadBalancingRules", "kubernetes-internal")).toBe(0);
    await errorOf(cluster.ensure(generation, serviceOf("new", { annotations: internal })));
    while (countOf(cluster, "loadBalancingRules", "kubernetes-internal") === 0) await Bun.sleep(10);
    expect(countOf(cluster, "loadBalancingRules", "kubernetes-internal")).toBeGreaterThanOrEqual(20);
  });
});

describe("removals that a person has caused are never held", () => {
  test("300 deletions of Services", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    const services = many(300);
    await ensureAll(cluster, generation, services);
    for (const one of services) cluster.services.set(keyOf(one), deletedAt(one));
    const errors = await Promise.all(
      services.map((one) => errorOf(generation.balancers.ensureLoadBalancerDeleted("kubernetes", deletedAt(one)))),
    );
    expect(errors.filter((error) => error !== undefined)).toEqual([]);
    expect(balancerOf(cluster)).toBeUndefined();
  });

  test("a namespace deleted: the 300 Services of it, whose endpoints go first, beside others that stay", async () => {
    await using cluster = await openCluster(12);
    const generation = await cluster.start(addresses);
    const team = many(300).map((one, index) => ({
      ...one,
      metadata: { ...one.metadata, namespace: "team" },
      spec: { ...one.spec, ...(index < 20 && { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 + index }) },
    }));
    const stays = serviceOf("stays");
    cluster.namespaces.push({ apiVersion: "v1", kind: "Namespace", metadata: { name: "team" } });
    const names = cluster.nodes.map(({ metadata }) => metadata?.name ?? "");
    for (const one of team.slice(0, 20)) cluster.setEndpoints(one, names);
    expect(await ensureAll(cluster, generation, [stays, ...team])).toEqual([stays, ...team].map(() => undefined));
    expect(countOf(cluster, "frontendIPConfigurations")).toBe(301);
    cluster.slices.splice(0);
    cluster.namespaces.splice(0);
    for (const one of team) cluster.services.set(keyOf(one), deletedAt(one));
    const errors = await Promise.all(
      team.map((one) => errorOf(generation.balancers.ensureLoadBalancerDeleted("kubernetes", deletedAt(one)))),
    );
    expect(errors).toEqual(team.map(() => undefined));
    expect(generation.warnings()).toEqual([]);
    expect(generation.events.filter((event) => event.includes("RemovalHeld"))).toEqual([]);
    expect(countOf(cluster, "frontendIPConfigurations")).toBe(1);
  });

  test("Services that became ClusterIP, and Services with other ports, after a restart too", async () => {
    await using cluster = await openCluster(1);
    const ports = Array.from({ length: 40 }, (_, index) => ({
      protocol: "TCP",
      port: 80 + index,
      nodePort: 31_000 + index,
      name: `p${index}`,
    }));
    const wide = serviceOf("wide", { spec: { ports } });
    const services = many(20);
    await ensureAll(cluster, await cluster.start(), [...services, wide]);
    const next = await cluster.start();
    const narrow = serviceOf("wide", { spec: { ports: ports.slice(0, 1) } });
    expect(await ensureAll(cluster, next, [narrow])).toEqual([undefined]);
    for (const one of services) cluster.services.set(keyOf(one), { ...one, spec: { ...one.spec, type: "ClusterIP" } });
    const errors = await Promise.all(
      services.map((one) => errorOf(generation(next).ensureLoadBalancerDeleted("kubernetes", one))),
    );
    expect(errors).toEqual(services.map(() => undefined));
    expect(countOf(cluster, "loadBalancingRules")).toBe(1);
  });

  test("Services that get other IP tags, so that their public IPs are created again", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await ensureAll(cluster, generation, many(20));
    const tagged = many(20).map(({ metadata }) =>
      serviceOf(metadata?.name ?? "", { annotations: { "azure-pip-ip-tags": "RoutingPreference=Internet" } }),
    );
    expect(await ensureAll(cluster, generation, tagged)).toEqual(many(20).map(() => undefined));
    expect(cluster.writes().filter((write) => write.startsWith("DELETE publicIPAddresses"))).toHaveLength(20);
    expect(generation.warnings()).toEqual([]);
  });

  for (const [what, from, to] of [
    ["internal", {}, { "azure-load-balancer-internal": "true" }],
    ["external", { "azure-load-balancer-internal": "true" }, {}],
    ["without security rules", {}, { "azure-disable-load-balancer-nsg-rule": "true" }],
    [
      "internal without sources",
      { "azure-load-balancer-internal": "true", "azure-allowed-ip-ranges": "10.0.0.0/8" },
      { "azure-load-balancer-internal": "true" },
    ],
    ["without floating IP", {}, { "azure-disable-load-balancer-floating-ip": "true" }],
    ["with floating IP again", { "azure-disable-load-balancer-floating-ip": "true" }, {}],
    [
      "without security rules and floating IP",
      { "azure-disable-load-balancer-floating-ip": "true" },
      { "azure-disable-load-balancer-floating-ip": "true", "azure-disable-load-balancer-nsg-rule": "true" },
    ],
  ] as const)
    for (const restarts of [false, true])
      test(`Services that become ${what}${restarts ? " while no process runs" : ""}`, async () => {
        await using cluster = await openCluster(1);
        const named = (annotations: Readonly<Record<string, string>>): readonly Service[] =>
          many(20).map(({ metadata }) => serviceOf(metadata?.name ?? "", { annotations }));
        const first = await cluster.start();
        await ensureAll(cluster, first, named(from));
        const next = restarts ? await cluster.start() : first;
        expect(await ensureAll(cluster, next, named(to))).toEqual(many(20).map(() => undefined));
        expect(next.warnings()).toEqual([]);
      });
});

const generation = ({ balancers }: Generation) => balancers;
