import { describe, expect, test } from "bun:test";

import { keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { Rejections } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/rejections.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { expectConverged } from "../azure-state.ts";
import { type Cluster, fast, openCluster, serviceOf } from "../cluster.ts";

const internal = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-load-balancer-internal": "true" } });
const external = { method: "PUT", path: /loadBalancers\/kubernetes$/u };
const changed = (name: string, port: number): Service =>
  serviceOf(name, { spec: { ports: [{ name: "x", protocol: "TCP", port, nodePort: 31_000 + port }] } });

const externalPuts = ({ world }: Cluster) =>
  world.simulator.log.filter(({ method, path }) => method === "PUT" && external.path.test(path));

describe("a shared write that ARM rejects", () => {
  test("a shared write that ARM rejects and whose repetition is slow delays no Service that does not need its resource", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start({}, fast(100));
    for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
    const hold = simulator.hold(external);
    simulator.failNext(external, { status: 400, code: "InvalidRequestFormat" });
    simulator.clearLog();
    const work = Promise.all(
      [changed("a", 90), changed("b", 91)].map((one) => errorOf(cluster.ensure(generation, one))),
    );
    await eventually("the first write is slow", () => hold.waiting() === 1);
    await Bun.sleep(300);
    hold.release();
    // The first write continues in this turn of the event loop. Its repetition comes at once, and in a later one.
    await Bun.sleep(0);
    const again = simulator.hold(external);
    await eventually("it is rejected", () => externalPuts(cluster).some(({ status }) => status === 400));
    await eventually("the second write is slow", () => again.waiting() === 1);
    await cluster.ensure(generation, internal("other"));
    expect(again.waiting()).toBe(1);
    again.release();
    expect(await work).toEqual([undefined, undefined]);
    expectConverged(cluster);
  });

  test("again and again for 30 Services does not delay a new one on another load balancer", async () => {
    await using cluster = await openCluster(1, { limits: { frontends: 2 } });
    const generation = await cluster.start();
    for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
    const bad = Array.from({ length: 30 }, (_, index) => serviceOf(`bad-${index}`));
    const retry = () => Promise.all(bad.map((one) => errorOf(cluster.ensure(generation, one))));
    for (let round = 0; round < 2; round++) await retry();
    const hold = cluster.world.simulator.hold(external);
    const work = retry();
    await eventually("one of them is tried again, alone", () => hold.waiting() === 1);
    await cluster.ensure(generation, internal("new"));
    expect(hold.waiting()).toBe(1);
    hold.release();
    expect(await work).not.toContain(undefined);
  }, 120_000);
});

/** A Service that asks for the address of a node, which ARM rejects. */
const taking = (namespace: string, index: number): Service => {
  const bad = serviceOf(`${namespace}-${index}`, {
    annotations: { "azure-load-balancer-internal": "true", "azure-load-balancer-ipv4": "10.240.0.4" },
    spec: { ports: [{ name: "x", protocol: "TCP", port: 1_000 + index, nodePort: 31_000 + index }] },
  });
  return { ...bad, metadata: { ...bad.metadata, namespace } };
};

describe("Services among 50 that ARM rejects", () => {
  test("Services among 50 that ARM rejects are done at once, where those are in one other namespace", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start({}, fast(100));
    const bad = Array.from({ length: 50 }, (_, index) => taking("attacker", index));
    const all = [...bad, internal("a"), internal("b")];
    const errors = await Promise.all(all.map((one) => errorOf(cluster.ensure(generation, one))));
    expect(errors.filter((error) => error === undefined)).toHaveLength(2);
  }, 60_000);

  test("Services among 50 that ARM rejects, in any namespaces, are done when they are tried once more", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start({}, fast(100));
    const all = [...Array.from({ length: 50 }, (_, index) => taking(`attacker-${index}`, index)), internal("a")];
    const attempt = () => Promise.all(all.map((one) => errorOf(cluster.ensure(generation, one))));
    await attempt();
    expect((await attempt()).at(-1)).toBeUndefined();
  }, 60_000);
});

describe("Services in rejected writes of a resource", () => {
  const names = (services: readonly Service[]): readonly string[] => services.map((one) => one.metadata?.name ?? "");
  const services = Array.from({ length: 4 }, (_, index) => serviceOf(`s${index}`));
  const waiting = (rejections: Rejections): readonly string[] =>
    names(services.filter((one) => rejections.isWaiting(keyOf(one))));
  const error = new Error("No.");
  const free = (): boolean => false;

  test("are halved until one is alone, and take turns", () => {
    const rejections = new Rejections();
    expect(rejections.rejected("lb", error, services)).toEqual([]);
    expect(waiting(rejections)).toEqual(["s2", "s3"]);
    expect(names(rejections.rejected("lb", error, services.slice(0, 2)))).toEqual([]);
    expect(waiting(rejections)).toEqual(["s1", "s2", "s3"]);
    expect(names(rejections.rejected("lb", error, services.slice(0, 1)))).toEqual(["s0"]);
    expect(rejections.releaseNext(() => true)).toBe(false);
    expect(rejections.releaseNext(free)).toBe(true);
    expect(waiting(rejections)).toEqual(["s2", "s3"]);
    expect(rejections.releaseNext(free)).toBe(true);
    expect(waiting(rejections)).toEqual([]);
    expect(rejections.releaseNext(free)).toBe(false);
  });

  test("do not count as rejected alone where others were in the write", () => {
    const rejections = new Rejections();
    rejections.rejected("lb", error, services);
    for (const one of services) rejections.wanted(one);
    expect(waiting(rejections)).toEqual(["s2", "s3"]);
  });

  test("wait behind the others when ARM names them", () => {
    const rejections = new Rejections();
    const uid = services[0]?.metadata?.uid?.replaceAll("-", "").slice(0, 31);
    rejections.rejected("lb", new Error(`Rule a${uid}-TCP-80 is invalid.`), services);
    expect(waiting(rejections)).toEqual(["s0"]);
  });

  test("Services in rejected writes of a resource that were rejected alone are tried alone when they come back, until one of their writes is accepted", () => {
    const rejections = new Rejections();
    const [first = serviceOf("s0"), second = serviceOf("s1")] = services;
    for (const one of [first, second]) expect(rejections.rejected("lb", error, [one])).toEqual([one]);
    for (const one of services) rejections.wanted(one);
    expect(waiting(rejections)).toEqual(["s0", "s1"]);
    rejections.releaseNext(free);
    expect(waiting(rejections)).toEqual(["s1"]);
    rejections.releaseNext(free);
    rejections.cleared(keyOf(first));
    for (const one of services) rejections.wanted(one);
    expect(waiting(rejections)).toEqual(["s1"]);
  });

  test("are halved by namespace where they are of several", () => {
    const rejections = new Rejections();
    const mixed = services.map((one, index) => ({
      ...one,
      metadata: { ...one.metadata, namespace: ["a", "b", "a", "a"][index] ?? "" },
    }));
    rejections.rejected("lb", error, mixed);
    expect(names(mixed.filter((one) => rejections.isWaiting(keyOf(one))))).toEqual(["s1"]);
  });

  test("Services in rejected writes of a resource that have failed together are tried one by one when they come back", () => {
    const rejections = new Rejections();
    while (rejections.rejected("lb", error, services).length === 0) continue;
    while (rejections.releaseNext(free)) continue;
    for (const one of services) rejections.wanted(one);
    expect(waiting(rejections)).toEqual(["s0", "s1", "s2", "s3"]);
    rejections.releaseNext(free);
    expect(waiting(rejections)).toEqual(["s1", "s2", "s3"]);
  });

  test("are tried with the others once they have changed", () => {
    const rejections = new Rejections();
    rejections.rejected("lb", error, [serviceOf("s0")]);
    rejections.wanted(changed("s0", 90));
    expect(waiting(rejections)).toEqual([]);
  });

  test("fail together once the attempts are used up", () => {
    const rejections = new Rejections();
    let attempts = 0;
    while (rejections.rejected("lb", error, services).length === 0 && attempts < 100) attempts += 1;
    expect(attempts).toBe(12);
  });
});
