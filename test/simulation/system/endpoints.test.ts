import { expect, test } from "bun:test";

import { kinds, type Service } from "cloud-controller-host/sdk";

import { randomOf, Timeline } from "../timeline.ts";
import { Endpoints } from "./endpoints.ts";
import { ClusterRig } from "./invariants/cluster-rig.ts";

/** A cluster with some nodes, whose Services have Pods; `pass` lets time pass. */
async function start(nodes: number) {
  const cluster = await ClusterRig.start();
  const timeline = new Timeline(randomOf(1));
  const endpoints = new Endpoints({
    api: cluster.api,
    get now() {
      return timeline.now;
    },
    random: randomOf(7),
    after: (ms, work) => void timeline.after(ms, work),
    note: () => undefined,
  });
  const pass = (ms: number): Promise<void> => timeline.runUntil(timeline.now + ms, () => true);
  for (let index = 0; index < nodes; index += 1) cluster.addNode(`vm-${index}`, `10.240.0.${index + 4}`);
  const { service } = cluster.addService("web");
  /** The nodes of all EndpointSlices. */
  const shown = (): readonly string[] =>
    cluster.api
      .list(kinds.EndpointSlice)
      .flatMap((slice) => (slice.endpoints ?? []).flatMap(({ nodeName = "" }) => nodeName))
      .toSorted();
  return { cluster, endpoints, service, pass, shown, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
}

const nodesOf = (endpoints: Endpoints, service: Service): readonly string[] =>
  [...endpoints.of(service).keys()].toSorted();

test("the Pods of a Service are on nodes, which its EndpointSlices show until it is gone", async () => {
  await using scene = await start(3);
  const { cluster, endpoints, service, pass, shown } = scene;
  expect(shown()).toEqual([]);
  await pass(1_000);
  expect(shown().length).toBeGreaterThan(0);
  expect(nodesOf(endpoints, service)).toEqual([...new Set(shown())]);
  expect(new Set(endpoints.times)).toEqual(new Set([500]));
  const before = shown();
  cluster.deleteService("web");
  await pass(1_000);
  expect([shown(), nodesOf(endpoints, service)]).toEqual([[], []]);
  const { service: again } = cluster.addService("web");
  await pass(1_000);
  expect(shown()).toEqual(before);
  expect(new Set(endpoints.of(again).values())).toEqual(new Set([2_500]));
});

test("Pods of a node that is gone are on another one some seconds later, and nowhere between", async () => {
  await using scene = await start(1);
  const { cluster, endpoints, service, pass, shown } = scene;
  await pass(1_000);
  const count = shown().length;
  cluster.deleteNode("vm-0");
  await pass(1_000);
  expect(shown()).toEqual([]);
  await pass(60_000);
  expect(shown()).toEqual([]);
  cluster.addNode("vm-1", "10.240.0.5");
  await pass(5_000);
  expect(shown()).toEqual(Array.from({ length: count }, () => "vm-1"));
  expect([...endpoints.of(service)]).toEqual([["vm-1", 66_000]]);
});

test("a rollout replaces every Pod, and a node that has one all the time keeps the time since then", async () => {
  await using scene = await start(1);
  const { cluster, endpoints, service, pass, shown } = scene;
  await pass(1_000);
  const count = shown().length;
  endpoints.roll(service, 60_000);
  await pass(60_000);
  expect(shown()).toHaveLength(count);
  expect([...endpoints.of(service)]).toEqual([["vm-0", 500]]);
  for (let index = 1; index < 20; index += 1) cluster.addNode(`vm-${index}`, `10.240.1.${index}`);
  endpoints.roll(service, 60_000);
  await pass(60_000);
  expect(shown()).toHaveLength(count);
  expect(shown()).not.toContain("vm-0");
});
