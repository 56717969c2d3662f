import { describe, expect, test } from "bun:test";

import { type Cloud, keyOf, kinds, type LoadBalancers } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { maxInFlight, Places } from "../../../plugins/service-lb/places.ts";
import plugin from "../../../plugins/service-lb/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { aNode, aService } from "./objects.ts";

const node = (name: string) => aNode(name, { providerID: `id-${name}` });

/** A controller in the middle of a node update that takes long for `slow` alone. */
async function duringNodeUpdate({ merges }: { readonly merges: boolean }) {
  const cluster = await TestCluster.start();
  const memory = memoryCloud();
  const balancers = memory.cloud.loadBalancers;
  if (balancers === undefined) throw new Error("the cloud in memory has load balancers");
  const end = Promise.withResolvers<void>();
  let updates = 0;
  const updateLoadBalancer: LoadBalancers["updateLoadBalancer"] = async (name, service, nodes) => {
    updates += 1;
    if (keyOf(service) === "default/slow") await end.promise;
    await balancers.updateLoadBalancer(name, service, nodes);
  };
  const updateLoadBalancers: LoadBalancers["updateLoadBalancers"] = (name, services, nodes) =>
    Promise.allSettled(services.map((one) => updateLoadBalancer(name, one, nodes)));
  const bound: LoadBalancers = Object.create(balancers, {
    updateLoadBalancer: { value: updateLoadBalancer },
    updateLoadBalancers: { value: merges ? updateLoadBalancers : undefined },
  });
  const cloud: Cloud = Object.create(memory.cloud, { loadBalancers: { value: bound } });
  cluster.api.create(kinds.Node, node("node1"));
  for (const name of ["slow", "other"]) cluster.api.create(kinds.Service, aService({ name }));
  const running = await cluster.run(plugin, { cloud, flags: { concurrentServiceSyncs: 1 } });
  await eventually("both have a load balancer", () => memory.balancers.size === 2);
  await eventually("both ensures have ended", () => cluster.worked("service", 2));
  cluster.api.create(kinds.Node, node("node2"));
  const nodesOf = (name: string): number | undefined => memory.balancers.get(`default/${name}`)?.nodes.length;
  await eventually("both updates have started", () => updates === 2);
  await eventually("the other load balancer has both nodes", () => nodesOf("other") === 2);
  return { cluster, memory, end, nodesOf, running, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
}

describe.each([
  ["that merges updates", true],
  ["that updates one load balancer at a time", false],
] as const)("a Service whose node update takes minutes, with a cloud %s", (_name, merges) => {
  test("does not keep another Service from being changed", async () => {
    await using scene = await duringNodeUpdate({ merges });
    const { cluster, memory, end } = scene;
    const ensures = (): number =>
      memory.callsOf("ensureLoadBalancer").filter(({ target }) => target === "default/other").length;
    const before = ensures();
    cluster.api.update(kinds.Service, { namespace: "default", name: "other" }, (now) => ({
      ...now,
      spec: { ...now.spec, ports: [{ port: 81, protocol: "TCP" }] },
    }));
    await eventually("the change is synced", () => ensures() === before + 1);
    end.resolve();
  });

  test("does not keep a new node from the load balancers of others, and gets that node itself in the end", async () => {
    await using scene = await duringNodeUpdate({ merges });
    const { cluster, end, nodesOf } = scene;
    cluster.api.create(kinds.Node, node("node3"));
    await eventually("the other load balancer has three nodes", () => nodesOf("other") === 3);
    expect(nodesOf("slow")).toBe(1);
    end.resolve();
    await eventually("the slow load balancer has three nodes", () => nodesOf("slow") === 3);
  });

  test("is waited for when the controller stops", async () => {
    await using scene = await duringNodeUpdate({ merges });
    const { end, nodesOf, running } = scene;
    let hasStopped = false;
    const stopped = running.stop().then(() => (hasStopped = true));
    await Bun.sleep(50);
    expect(hasStopped).toBe(false);
    end.resolve();
    await stopped;
    expect(nodesOf("slow")).toBe(2);
  });
});

test("64 Services whose load balancers take minutes do not keep a 65th from being created", async () => {
  await using cluster = await TestCluster.start();
  const memory = memoryCloud();
  const end = Promise.withResolvers<void>();
  memory.intercept("ensureLoadBalancer", async ({ target, proceed }) => {
    if (target?.startsWith("default/slow")) await end.promise;
    return await proceed();
  });
  for (let index = 0; index < 64; index++) cluster.api.create(kinds.Service, aService({ name: `slow-${index}` }));
  await cluster.run(plugin, { cloud: memory.cloud });
  await eventually("64 ensures have started", () => memory.callsOf("ensureLoadBalancer").length >= 64);
  cluster.api.create(kinds.Service, aService({ name: "new" }));
  await eventually("the new one has a load balancer", () => memory.balancers.has("default/new"), 3_000);
  end.resolve();
});

describe("places for concurrent work", () => {
  const { signal } = new AbortController();
  const setUp = (limit: number) => {
    const clock = manualClock();
    const places = new Places(clock, limit);
    const entered: Disposable[] = [];
    const enter = (stop = signal): void =>
      void places.enter(stop).then((place) => place !== undefined && entered.push(place));
    const leave = (): void => entered.shift()?.[Symbol.dispose]();
    return { clock, entered, enter, leave };
  };

  test("are taken in order, and each that is left is taken by the next", async () => {
    const { clock, entered, enter, leave } = setUp(2);
    for (let index = 0; index < 4; index++) enter();
    await clock.advance(0);
    expect(entered).toHaveLength(2);
    leave();
    await clock.advance(0);
    expect(entered).toHaveLength(2);
    leave();
    leave();
    leave();
    for (let index = 0; index < 3; index++) enter();
    await clock.advance(0);
    expect(entered).toHaveLength(2);
  });

  test("are given up after a second, by at most fifteen slow ones per place", async () => {
    const { clock, entered, enter, leave } = setUp(1);
    for (let index = 0; index < 20; index++) enter();
    await clock.advance(0);
    await clock.advance(999);
    expect(entered).toHaveLength(1);
    for (let seconds = 0; seconds < 30; seconds++) await clock.advance(1_000);
    expect(entered).toHaveLength(maxInFlight(1));
    expect(maxInFlight(1)).toBe(16);
    leave();
    await clock.advance(0);
    expect(entered).toHaveLength(15);
    entered.pop()?.[Symbol.dispose]();
    await clock.advance(0);
    expect(entered).toHaveLength(15);
    await clock.advance(1_000);
    expect(entered).toHaveLength(16);
  });

  test("are not waited for after the signal aborts", async () => {
    const { clock, entered, enter, leave } = setUp(1);
    const stop = new AbortController();
    enter();
    enter(stop.signal);
    enter();
    await clock.advance(0);
    stop.abort();
    await clock.advance(0);
    leave();
    await clock.advance(0);
    expect(entered).toHaveLength(1);
  });
});
