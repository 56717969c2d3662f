import { describe, expect, test } from "bun:test";

import { type CloudContext, FencedError, keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../../kit/rejection.ts";
import { nodeOf } from "../../world.ts";
import { expectConverged } from "../azure-state.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf } from "../cluster.ts";

const families = (...ipFamilies: readonly string[]) => ({ spec: { ipFamilies: [...ipFamilies] } });
const internal = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-load-balancer-internal": "true" } });

const instance = "/virtualMachineScaleSets/dual/virtualMachines/0";

/** The pools of the instance since its last write that succeeded: `kubernetes/backendAddressPools/kubernetes`. */
function poolsOf({ world }: Cluster): readonly string[] {
  const isWrite = ({ method, path, status }: (typeof world.simulator.log)[number]): boolean =>
    method === "PUT" && path.endsWith(instance) && status < 300;
  const body = JSON.stringify(world.simulator.log.findLast(isWrite)?.body ?? "");
  return [...body.matchAll(/loadBalancers\/([^/"]+)\/backendAddressPools\/([^/"]+)/giu)].map(
    ([, balancer, pool]) => `${balancer} ${pool}`,
  );
}

/** Services that are planned together when the instance of another scale set is to join their pools. */
async function openWith(...services: readonly Service[]) {
  const cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({}, fast(100));
  const ensureAll = async (): Promise<void> =>
    void (await Promise.all(services.map((service) => cluster.ensure(generation, service))));
  const scaleSet = simulator.addScaleSet({ name: "dual", dualStack: true });
  simulator.addScaleSetInstances("dual", 1);
  await ensureAll();
  cluster.nodes.push(nodeOf("dual000000", { providerID: `azure://${scaleSet.id}/virtualMachines/0` }));
  return { cluster, generation, simulator, ensureAll };
}

describe("an instance that waits for a slow write of its scale set", () => {
  test.each([
    ["has moved to the internal load balancer", families("IPv4"), internal("first")],
    ["has given up IPv6", families("IPv4", "IPv6"), serviceOf("first", families("IPv4"))],
  ])("joins the pools of all Services although the first of them %s", async (_title, before, changed) => {
    const services = ["first", "second"].map((name) => serviceOf(name, before));
    const { cluster, generation, simulator, ensureAll } = await openWith(...services);
    await using _ = cluster;
    const hold = simulator.hold({ method: "PUT", path: /\/virtualMachineScaleSets\/dual$/u });
    await ensureAll();
    await cluster.ensure(generation, changed);
    expect([hold.waiting(), poolsOf(cluster)]).toEqual([1, []]);
    hold.release();
    const pools = before.spec.ipFamilies.map((one) => `kubernetes kubernetes${one === "IPv6" ? "-IPv6" : ""}`);
    await eventually("it has joined", () => pools.every((pool) => poolsOf(cluster).includes(pool)));
  });
});

test.each([0, 2])(
  "an instance that is refused %d times after a slow write joins the basic load balancer of its scale set, although another Service comes first",
  async (times) => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const scaleSet = simulator.addScaleSet({ name: "dual", dualStack: true });
    simulator.addScaleSetInstances("dual", 1);
    cluster.nodes.push(nodeOf("dual000000", { providerID: `azure://${scaleSet.id}/virtualMachines/0` }));
    const generation = await cluster.start({ loadBalancerSku: "basic" }, fast(100));
    await cluster.ensure(generation, serviceOf("first"));
    const hold = simulator.hold({ method: "PUT", path: /\/virtualMachineScaleSets\/dual$/u });
    await cluster.ensure(generation, serviceOf("second", { annotations: { "azure-load-balancer-mode": "dual" } }));
    expect([hold.waiting(), poolsOf(cluster)]).toEqual([1, []]);
    if (times > 0)
      simulator.failNext({ method: "PUT", path: instance }, { status: 409, code: "OperationNotAllowed", times });
    hold.release();
    await eventually("it has joined", () => poolsOf(cluster).includes("dual kubernetes"));
  },
);

test("an instance that is refused after a slow write shows at every Service of its pools", async () => {
  const services = [serviceOf("one"), serviceOf("other"), internal("inside")];
  const { cluster, generation, simulator, ensureAll } = await openWith(...services);
  await using _ = cluster;
  const hold = simulator.hold({ method: "PUT", path: instance });
  await ensureAll();
  simulator.failNext({ method: "PUT", path: instance }, { status: 409, code: "OperationNotAllowed", times: 1_000 });
  expect(generation.events).toEqual([]);
  hold.release();
  const shown = services.map(({ metadata }) => `${metadata?.name} UpdateLoadBalancerFailed`);
  await eventually("it shows", () => shown.every((event) => generation.events.includes(event)));
});

describe("work in the background", () => {
  /** Begins plans of all Services of the process, one after another. */
  async function refuseInstance(...services: readonly Service[]) {
    const { simulator, ensureAll, ...opened } = await openWith(...services);
    const hold = simulator.hold({ method: "PUT", path: instance });
    await ensureAll();
    simulator.failNext({ method: "PUT", path: instance }, { status: 409, code: "OperationNotAllowed", times: 1_000 });
    return { simulator, hold, ...opened };
  }
  const shows = ({ events }: Generation, name: string): boolean => events.includes(`${name} UpdateLoadBalancerFailed`);

  test("leaves Services alone that the service controller has not brought: they may be another deployment's", async () => {
    const { cluster, generation, hold } = await refuseInstance(
      ...["own", "replaced", "given"].map((one) => serviceOf(one)),
    );
    await using _ = cluster;
    const addresses = (): number => cluster.writes().filter((one) => one.includes(" publicIPAddresses/")).length;
    expect(addresses()).toBe(3);
    const spec = { loadBalancerClass: "example.com/other" };
    const others = ["foreign", "replaced"].map((name) => serviceOf(name, { incarnation: 1, spec }));
    // Of the same UID: it has had another type for a moment.
    for (const other of [...others, serviceOf("given", { spec })]) cluster.services.set(keyOf(other), other);
    hold.release();
    await eventually("all of its own are planned", () => shows(generation, "own"));
    expect(addresses()).toBe(3);
    expect(["foreign", "replaced", "given"].filter((name) => shows(generation, name))).toEqual([]);
  });

  test("ends with its generation, which has nothing to look at any more", async () => {
    const { cluster, generation, simulator, hold } = await refuseInstance(serviceOf("own"), serviceOf("other"));
    await using _ = cluster;
    const reads = simulator.hold({ method: "GET", path: instance });
    hold.release();
    await eventually("a plan is under way", () => reads.waiting() > 0);
    generation.crash();
    reads.release();
    // What nothing handles would fail this test.
    await Bun.sleep(100);
    expect(generation.events).toEqual([]);
  });

  test("does not begin again for a Service that has left", async () => {
    const { cluster, generation, hold } = await refuseInstance(serviceOf("own"), serviceOf("handed-over"));
    await using _ = cluster;
    await generation.balancers.leaveLoadBalancer("kubernetes", serviceOf("handed-over"));
    hold.release();
    await eventually("all of its own are planned", () => shows(generation, "own"));
    expect(shows(generation, "handed-over")).toBe(false);
  });
});

test.each([
  ["planned", { method: "GET", path: /\/loadBalancers$/u }],
  ["written", { method: "PUT", path: "/publicIPAddresses/" }],
])("a Service leaves once it is not being %s any more", async (_, request) => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start({}, fast(100));
  const hold = cluster.world.simulator.hold(request);
  const ensured = errorOf(cluster.ensure(generation, serviceOf("web")));
  await eventually("the request is held", () => hold.waiting() === 1);
  let hasLeft = false;
  const left = generation.balancers.leaveLoadBalancer("kubernetes", serviceOf("web")).then(() => void (hasLeft = true));
  await Bun.sleep(100);
  expect(hasLeft).toBe(false);
  hold.release();
  await left;
  expect(await ensured).toBeUndefined();
});

test("a Service whose load balancer is refused leaves once its security rules are written", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const publicIP = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/publicIPAddresses/mine";
  simulator.put(publicIP, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
  const generation = await cluster.start({}, fast(100));
  const hold = simulator.hold({ method: "PUT", path: "/networkSecurityGroups/" });
  simulator.failNext(
    { method: "PUT", path: "/loadBalancers/" },
    { status: 403, code: "AuthorizationFailed", times: 99 },
  );
  const web = serviceOf("web", { annotations: { "azure-pip-name": "mine" } });
  expect(await errorOf(cluster.ensure(generation, web))).toBeDefined();
  let hasLeft = false;
  const left = generation.balancers.leaveLoadBalancer("kubernetes", web).then(() => void (hasLeft = true));
  await Bun.sleep(100);
  expect([hold.waiting(), hasLeft]).toEqual([1, false]);
  hold.release();
  await left;
});

test("a Service does not leave a process that stops while it is being written", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start({}, fast(100));
  const hold = cluster.world.simulator.hold({ method: "PUT", path: "/publicIPAddresses/" });
  const ensured = errorOf(cluster.ensure(generation, serviceOf("web")));
  await eventually("the request is held", () => hold.waiting() === 1);
  const left = errorOf(generation.balancers.leaveLoadBalancer("kubernetes", serviceOf("web")));
  generation.crash();
  expect(await left).toBeInstanceOf(FencedError);
  hold.release();
  await ensured;
});

test("a look at what is held plans no Service that the service controller has not brought", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start({}, fast(100));
  await cluster.ensure(generation, serviceOf("own"));
  const ports = [{ name: "other", protocol: "TCP", port: 8080, nodePort: 30_080 }];
  for (const one of [serviceOf("own", { spec: { ports } }), serviceOf("foreign")])
    cluster.services.set(keyOf(one), one);
  const writes = (): string => cluster.writes().join();
  generation.recheck(["default/own", "default/foreign"]);
  await eventually("the Service is planned", () => writes().split("PUT loadBalancers/").length === 3);
  expect(writes().split("PUT publicIPAddresses/")).toHaveLength(2);
  await cluster.remove(generation, serviceOf("own"));
  cluster.services.set("default/own", serviceOf("own"));
  const removed = writes();
  generation.recheck(["default/own"]);
  await Bun.sleep(100);
  expect(writes()).toBe(removed);
});

test("removals that a config would cause are those from the Services of this deployment, and not from those of others", async () => {
  await using cluster = await openCluster(1);
  const isAlive = () => Promise.resolve(true);
  const shard = (name: string) => ({ shard: name, shards: { own: name, isAlive } });
  const deployments = { a: shard("a"), b: shard("b"), main: { shards: { own: "main" } } };
  for (const [name, own] of Object.entries(deployments)) {
    const generation = await cluster.start({}, fast(100), own);
    const services = Array.from({ length: 11 }, (_, index) => serviceOf(`${name}-${index}`)).map((service) => {
      const annotations = { "cloud-controller-host/served-by": name };
      return name === "main" ? service : { ...service, metadata: { ...service.metadata, annotations } };
    });
    await Promise.all(services.map((service) => cluster.ensure(generation, service)));
  }
  const removalsOf = async (own: Partial<CloudContext>, changes = {}): Promise<string> => {
    const { balancers } = await cluster.start(changes, fast(100), own);
    return ((await balancers.unrequestedRemovals([]))?.removals ?? []).join();
  };
  for (const own of Object.values(deployments)) expect(await removalsOf(own)).toBe("");
  const moved = await removalsOf(deployments.a, { loadBalancerName: "other" });
  expect(new Set(moved.match(/load balancer [^,]+/gu))).toEqual(new Set(["load balancer kubernetes-a"]));
});

test("what was read to find removals is read again once the process leads: the generation before may have written since", async () => {
  await using cluster = await openCluster(1);
  const web = serviceOf("web");
  const ports = [{ protocol: "TCP", port: 81, nodePort: 31_081 }];
  const before = await cluster.start();
  await cluster.ensure(before, web);
  const next = await cluster.start();
  expect(await next.balancers.unrequestedRemovals([])).toBeUndefined();
  await cluster.ensure(before, serviceOf("web", { spec: { ports } }));
  void next.balancers.run(new AbortController().signal);
  await cluster.ensure(next, web);
  expectConverged(cluster);
});
