import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";

import { keyOf, type Service } from "cloud-controller-host/sdk";

import { errorOf } from "../../../kit/rejection.ts";
import { azureState } from "./azure-state.ts";
import { type Cluster, type Generation, openCluster, serviceOf } from "./cluster.ts";

setDefaultTimeout(120_000);

const internal = { "azure-load-balancer-internal": "true" };

let cluster: Cluster;
let generation: Generation;

beforeAll(async () => {
  cluster = await openCluster(1);
  generation = await cluster.start();
});

afterAll(() => cluster[Symbol.asyncDispose]());

const look = (service: Service) => generation.balancers.getLoadBalancer("kubernetes", service);
const addressOf = (service: Service) => cluster.services.get(keyOf(service))?.status?.loadBalancer?.ingress ?? [];

/** What Azure has of every Service of the cluster. */
const state = () => azureState(cluster.world.simulator);

describe("the status of an existing load balancer", () => {
  test.each([
    ["external service, external LB with its FIP: exists, with its address", {}],
    ["internal service, internal LB with its FIP: exists, with its address", internal],
  ])("%s", async (_title, annotations) => {
    const web = serviceOf("web", { annotations });
    await cluster.ensure(generation, web);
    const found = await look(web);
    expect(found?.ingress?.map(({ ip }) => ip)).toEqual(addressOf(web).map(({ ip }) => ip));
    await cluster.remove(generation, web);
    expect(await look(web)).toBeUndefined();
  });

  test.each([
    ["external service, only the internal LB holds its FIP: exists, with its private address", internal, {}],
    ["internal service, only the external LB holds its FIP: exists, with its public address", {}, internal],
  ])("%s", async (_title, before, after) => {
    const web = serviceOf("web", { annotations: before });
    await cluster.ensure(generation, web);
    const found = await look(serviceOf("web", { annotations: after }));
    expect(found?.ingress?.map(({ ip }) => ip)).toEqual(addressOf(web).map(({ ip }) => ip));
    await cluster.remove(generation, serviceOf("web", { annotations: before }));
  });

  test("a load balancer without frontends and public IP does not exist", async () => {
    expect(await look(serviceOf("never"))).toBeUndefined();
  });
});

test.each([
  ["before it is wanted", (stop: AbortController) => stop.abort("given up")],
  ["before it is planned", (stop: AbortController) => void setTimeout(() => stop.abort("given up"))],
])("a Service whose caller gives up %s is not written, and is when it is wanted again", async (_when, giveUp) => {
  const web = serviceOf("web");
  const stop = new AbortController();
  const { nodes } = cluster;
  cluster.world.simulator.clearLog();
  giveUp(stop);
  const ensured = generation.balancers.ensureLoadBalancer("kubernetes", web, nodes, { signal: stop.signal });
  expect(await ensured.catch((error: unknown) => error)).toBe("given up");
  await Bun.sleep(100);
  expect(cluster.writes()).toEqual([]);
  await cluster.ensure(generation, web);
  await cluster.remove(generation, web);
});

describe("deleting a load balancer", () => {
  test.each([
    ["external flipped to internal: both cleaned", {}, internal],
    ["internal flipped to external: both cleaned", internal, {}],
    ["external: created and deleted", {}, {}],
    ["internal: created and deleted", internal, internal],
    [
      "rg annotation equal to cluster rg: created and deleted",
      { "azure-load-balancer-resource-group": "rg0" },
      { "azure-load-balancer-resource-group": "rg0" },
    ],
  ])("%s", async (_title, before, after) => {
    const start = state();
    await cluster.ensure(generation, serviceOf("web", { annotations: { ...before } }));
    await cluster.ensure(generation, serviceOf("web", { annotations: { ...after } }));
    expect(state()).not.toEqual(start);
    await cluster.remove(generation, serviceOf("web", { annotations: { ...after } }));
    expect(state()).toEqual(start);
  });

  test.each([
    [
      "rg annotation `random-rg` with a wanted IP: creation error, deletion succeeds",
      { "azure-load-balancer-ipv4": "20.1.2.3" },
    ],
    ["rg annotation `random-rg` without IP: creation error, deletion succeeds", {}],
  ])("%s", async (_title, more) => {
    const start = state();
    const annotations = { "azure-load-balancer-resource-group": "random-rg", ...more };
    const web = serviceOf("web", { annotations });
    expect(await errorOf(cluster.ensure(generation, web))).toBeDefined();
    const deleted = { ...web, metadata: { ...web.metadata, deletionTimestamp: "2026-01-02T00:00:00Z" } };
    expect(await errorOf(generation.balancers.ensureLoadBalancerDeleted("kubernetes", deleted))).toBeUndefined();
    cluster.services.delete(keyOf(web));
    expect(state()).toEqual(start);
  });
});

describe("an update of the nodes", () => {
  test.each([
    ["deletion timestamp: no", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } }],
    ["type not LoadBalancer: no", { spec: { type: "ClusterIP" } }],
  ])("%s", async (_title, change: { metadata?: object; spec?: object }) => {
    const web = serviceOf("web");
    await cluster.ensure(generation, web);
    const current = cluster.services.get("default/web") ?? web;
    cluster.services.set("default/web", {
      ...current,
      metadata: { ...current.metadata, ...change.metadata },
      spec: { ...current.spec, ports: [{ name: "x", port: 81, protocol: "TCP", nodePort: 30_081 }], ...change.spec },
    });
    cluster.world.simulator.clearLog();
    await generation.balancers.updateLoadBalancer("kubernetes", web, cluster.nodes);
    expect(cluster.writes()).toEqual([]);
    await cluster.remove(generation, web);
  });

  test("a Service whose load balancer is present in Azure is updated as it is now", async () => {
    const web = serviceOf("web");
    await cluster.ensure(generation, web);
    const current = cluster.services.get("default/web") ?? web;
    const ports = [{ name: "x", port: 81, protocol: "TCP", nodePort: 30_081 }];
    cluster.services.set("default/web", { ...current, spec: { ...current.spec, ports } });
    await generation.balancers.updateLoadBalancer("kubernetes", web, cluster.nodes);
    expect(state().rules.map((name) => name.split("-").at(-1))).toEqual(["81"]);
    await cluster.remove(generation, web);
  });
});

describe("deleting a public IP", () => {
  test("a public IP whose deletion ARM refuses for another reason fails its Service with ARM's code after one request", async () => {
    const web = serviceOf("refused");
    await cluster.ensure(generation, web);
    const path = "publicIPAddresses/kubernetes-a";
    cluster.world.simulator.failNext({ method: "DELETE", path }, { status: 400, code: "RefusedByTest", times: 9 });
    cluster.world.simulator.clearLog();
    expect(String(await errorOf(cluster.remove(generation, web)))).toContain("RefusedByTest");
    const deletions = cluster.world.simulator.log.filter((one) => one.method === "DELETE" && one.path.includes(path));
    expect(deletions).toHaveLength(1);
    cluster.world.simulator.clearFailures();
    await cluster.remove(generation, web);
  });

  test("PublicIPAddressCannotBeDeleted becomes an event, and the deletion succeeds", async () => {
    const web = serviceOf("web");
    await cluster.ensure(generation, web);
    const failure = { status: 400, code: "PublicIPAddressCannotBeDeleted", times: 9 };
    cluster.world.simulator.failNext({ method: "DELETE", path: "publicIPAddresses/kubernetes-a" }, failure);
    await cluster.remove(generation, web);
    cluster.world.simulator.clearFailures();
    expect(generation.events.at(-1)).toBe("web DeletePublicIPAddress");
    expect(state().publicIPs).toHaveLength(1);
    await generation.balancers.ensureLoadBalancerDeleted("kubernetes", web);
    expect(state().publicIPs).toEqual([]);
  });
});
