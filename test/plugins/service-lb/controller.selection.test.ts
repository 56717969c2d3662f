import { afterEach, beforeEach, expect, test } from "bun:test";

import { kinds, type Service } from "cloud-controller-host/sdk";
import { eventually, type MemoryCloud, memoryCloud } from "cloud-controller-host/sdk/testing";

import { defaultOptions, type Options } from "../../../host/config/flags/options.ts";
import { complete } from "../../../host/config/validate/complete.ts";
import plugin from "../../../plugins/service-lb/plugin.ts";
import { serviceSelection } from "../../../plugins/service-lb/predicates.ts";
import { syncService } from "../../../plugins/service-lb/sync.ts";
import { TestCluster } from "../../kit/harness.ts";
import { aNode, aService, finalizer, type ServiceFields } from "./objects.ts";
import { alreadyBalanced, makeParts } from "./parts.ts";

const own = "example.com/own";
const other = "example.com/other";

let cluster: TestCluster;
let memory: MemoryCloud;
beforeEach(async () => {
  cluster = await TestCluster.start();
  memory = memoryCloud();
});
afterEach(() => cluster[Symbol.asyncDispose]());

const place = (name: string) => ({ namespace: "default", name });
const run = (flags: Partial<Options>) => cluster.run(plugin, { cloud: memory.cloud, flags });
const create = (name: string, fields: ServiceFields = {}): void =>
  void cluster.api.create(kinds.Service, aService({ name, ...fields }));
const labeled = (shard: string): ServiceFields => ({ meta: { labels: { shard } } });
const classed = (loadBalancerClass: string): ServiceFields => ({ spec: { loadBalancerClass } });
const stored = (name: string): Service | undefined => cluster.api.get(kinds.Service, place(name));
const served = (...names: readonly string[]): Promise<unknown> =>
  eventually(
    `load balancers of [${names.join(" ")}]`,
    () => [...memory.balancers.keys()].toSorted().join(" ") === names.map((name) => `default/${name}`).join(" "),
  );
const change = (name: string, labels: Record<string, string>): void =>
  void cluster.api.update(kinds.Service, place(name), (now) => ({ ...now, metadata: { ...now.metadata, labels } }));
const reasons = (name: string): readonly string[] =>
  cluster.api
    .list(kinds.Event)
    .flatMap(({ involvedObject, reason = "" }) => (involvedObject?.name === name ? [reason] : []));

/** The calls to the cloud about a Service. */
const calls = (name: string): readonly string[] =>
  (["ensureLoadBalancer", "ensureLoadBalancerDeleted", "updateLoadBalancer", "getLoadBalancer"] as const).flatMap(
    (method) => memory.callsOf(method).flatMap(({ target }) => (target === `default/${name}` ? [method] : [])),
  );

test("a load balancer class selects the Services of that class, and no others", async () => {
  await run({ loadBalancerClass: own });
  create("foreign", classed(other));
  create("plain");
  create("mine", classed(own));
  await served("mine");
  expect([calls("foreign"), calls("plain")]).toEqual([[], []]);
  expect([stored("mine"), stored("plain")].map((one) => one?.metadata?.finalizers ?? [])).toEqual([[finalizer], []]);
});

test("a selector selects the Services with these labels, and no others", async () => {
  await run({ serviceSelector: "shard in (a,b)" });
  create("foreign", labeled("c"));
  create("plain");
  create("one", labeled("a"));
  create("two", labeled("b"));
  await served("one", "two");
  expect([calls("foreign"), calls("plain")]).toEqual([[], []]);
});

test("class and selector both have to match", async () => {
  await run({ loadBalancerClass: own, serviceSelector: "shard=a" });
  create("class-only", classed(own));
  create("label-only", labeled("a"));
  create("both", { ...labeled("a"), ...classed(own) });
  await served("both");
});

test("a Service of another process is left alone as it is deleted, its finalizer included", async () => {
  await run({ serviceSelector: "shard=a" });
  create("foreign", { meta: { labels: { shard: "b" }, finalizers: [finalizer] } });
  cluster.api.delete(kinds.Service, place("foreign"));
  create("mine", labeled("a"));
  await served("mine");
  expect(stored("foreign")?.metadata?.finalizers).toEqual([finalizer]);
  expect(calls("foreign")).toEqual([]);
});

test("a selected Service is cleaned up as it is deleted, also when another process had served it", async () => {
  await run({ serviceSelector: "shard=a" });
  create("mine", { meta: { labels: { shard: "a" }, finalizers: [finalizer] } });
  await served("mine");
  cluster.api.delete(kinds.Service, place("mine"));
  await eventually("it is gone", () => stored("mine") === undefined);
  await served();
});

test("a Service that stops matching keeps its load balancer, with an event, and follows no node any more", async () => {
  await run({ serviceSelector: "shard=a" });
  create("moved", labeled("a"));
  await served("moved");
  change("moved", { shard: "b" });
  await eventually("the event", () => reasons("moved").includes("LoadBalancerLeftAlone"));
  const before = calls("moved");
  cluster.api.create(kinds.Node, aNode("node-1", { providerID: "id-node-1" }));
  create("mine", labeled("a"));
  await served("mine", "moved");
  await eventually("the node is served", () => memory.balancers.get("default/mine")?.nodes.length === 1);
  expect(calls("moved")).toEqual(before);
  expect(stored("moved")?.metadata?.finalizers).toEqual([finalizer]);
  expect(stored("moved")?.status?.loadBalancer?.ingress).toHaveLength(1);
});

test("a Service that stops matching and is deleted while it is created is left to the process that selects it", async () => {
  await run({ serviceSelector: "shard=a" });
  const creation = memory.hold("ensureLoadBalancer");
  create("moved", labeled("a"));
  await eventually("it is being created", () => calls("moved").includes("ensureLoadBalancer"));
  change("moved", { shard: "b" });
  cluster.api.delete(kinds.Service, place("moved"));
  creation.release();
  await eventually("the event", () => reasons("moved").includes("LoadBalancerLeftAlone"));
  create("mine", labeled("a"));
  await served("mine", "moved");
  expect(calls("moved")).not.toContain("ensureLoadBalancerDeleted");
  expect(stored("moved")?.metadata?.finalizers).toEqual([finalizer]);
});

test("a Service that stopped matching before its first sync gets no event and no call", async () => {
  await using parts = await makeParts();
  parts.seen(aService(labeled("b")));
  const selected = { ...parts, selection: serviceSelection({ serviceSelector: "shard=a" }) };
  await syncService(selected, "default/web", new AbortController().signal);
  expect([parts.reported(), parts.memory.calls]).toEqual([[], []]);
});

test("a Service that matches again is synced again, with the nodes of now", async () => {
  await run({ serviceSelector: "shard=a" });
  create("moved", labeled("a"));
  await served("moved");
  change("moved", { shard: "b" });
  await eventually("the event", () => reasons("moved").includes("LoadBalancerLeftAlone"));
  cluster.api.create(kinds.Node, aNode("node-1", { providerID: "id-node-1" }));
  change("moved", { shard: "a" });
  await eventually("the node is served", () => memory.balancers.get("default/moved")?.nodes.length === 1);
});

const changeType = (name: string): void =>
  void cluster.api.update(kinds.Service, place(name), (now) => ({ ...now, spec: { ...now.spec, type: "ClusterIP" } }));

test("a Service of the class is cleaned up when its type changes, although the API server clears its class with it", async () => {
  await run({ loadBalancerClass: own });
  create("mine", classed(own));
  await served("mine");
  changeType("mine");
  expect(stored("mine")?.spec?.loadBalancerClass).toBeUndefined();
  await served();
  await eventually("its finalizer is removed", () => stored("mine")?.metadata?.finalizers === undefined);
  expect(reasons("mine")).not.toContain("LoadBalancerLeftAlone");
});

test("a Service whose type and class are gone before a start is cleaned up by the process that has its load balancer", async () => {
  create("mine", { spec: { type: "ClusterIP" }, meta: { finalizers: [finalizer] } });
  create("foreign", { spec: { type: "ClusterIP" }, meta: { finalizers: [finalizer] } });
  alreadyBalanced(memory, stored("mine") ?? {});
  await run({ loadBalancerClass: own });
  await served();
  await eventually("its finalizer is removed", () => stored("mine")?.metadata?.finalizers === undefined);
  await eventually("the other was looked up", () => calls("foreign").length > 0);
  create("last", classed(own));
  await served("last");
  expect(stored("foreign")?.metadata?.finalizers).toEqual([finalizer]);
  expect(new Set(calls("foreign"))).toEqual(new Set(["getLoadBalancer"]));
});

test("a cleanup after a change of type is tried again until the finalizer is gone, also after its load balancer is", async () => {
  await using parts = await makeParts();
  const selected = { ...parts, selection: serviceSelection({ loadBalancerClass: own }) };
  const { signal } = new AbortController();
  parts.seen(aService(classed(own)));
  await syncService(selected, "default/web", signal);
  parts.cluster.api.update(kinds.Service, place("web"), (now) => ({
    ...now,
    spec: { ...now.spec, type: "ClusterIP" },
  }));
  parts.services.set(parts.stored("default/web"));
  parts.cluster.api.faults.add({ match: { verb: "patch", resource: "services" }, effect: { status: 500 }, times: 2 });
  await expect(syncService(selected, "default/web", signal)).rejects.toThrow("failed to remove load balancer cleanup");
  expect([...parts.memory.balancers.keys()]).toEqual([]);
  await syncService(selected, "default/web", signal);
  expect(parts.stored("default/web").metadata?.finalizers ?? []).toEqual([]);
});

test("two processes with selectors that complement each other serve each Service once, and hand one over by its label", async () => {
  const second = memoryCloud();
  await run({ serviceSelector: "shard=a" });
  await cluster.run(plugin, { cloud: second.cloud, flags: { serviceSelector: "shard!=a" } });
  create("one", labeled("a"));
  create("two");
  await served("one");
  await eventually("the second process serves the other", () => second.balancers.has("default/two"));
  expect([memory.balancers.size, second.balancers.size]).toEqual([1, 1]);
  change("one", { shard: "b" });
  await eventually("the second process serves both", () => second.balancers.size === 2);
  expect(memory.callsOf("ensureLoadBalancerDeleted")).toEqual([]);
  cluster.api.delete(kinds.Service, place("one"));
  await eventually("the Service is gone", () => stored("one") === undefined);
  expect(second.balancers.has("default/one")).toBe(false);
  expect(memory.callsOf("ensureLoadBalancerDeleted")).toEqual([]);
});

test("a Service with a class is cleaned up as it is deleted by a process without class and selector, as upstream does", () => {
  const deleted = aService({
    ...classed(other),
    meta: { finalizers: [finalizer], deletionTimestamp: "2026-01-01T00:00:00Z" },
  });
  expect(serviceSelection({}).needsCleanup(deleted)).toBe(true);
  expect(serviceSelection({ loadBalancerClass: own }).needsCleanup(deleted)).toBe(false);
  expect(serviceSelection({ loadBalancerClass: other }).needsCleanup(deleted)).toBe(true);
  expect(serviceSelection({ serviceSelector: "shard" }).needsCleanup(deleted)).toBe(false);
  expect(serviceSelection({}).isLeftAlone(deleted)).toBe(false);
});

test("a process that starts deletes the load balancer of a Service that shows the address of another class meanwhile", async () => {
  create("foreign", { ...classed(other), meta: { finalizers: [finalizer] } });
  const before = stored("foreign");
  if (before === undefined) throw new Error("it was created");
  alreadyBalanced(memory, before);
  const status = { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } };
  cluster.api.update(kinds.Service, place("foreign"), (now) => ({ ...now, status }), "status");
  await run({});
  await served();
  await eventually("it is released", () => (stored("foreign")?.metadata?.finalizers ?? []).length === 0);
});

test("a Service may be left behind with our finalizer and another class where no other deployment serves it", () => {
  const left = aService({ ...classed(other), meta: { finalizers: [finalizer] } });
  const marked = aService({
    ...classed(other),
    meta: { finalizers: [finalizer], annotations: { "cloud-controller-host/served-by": "b" } },
  });
  const all = serviceSelection({});
  expect([left, aService(classed(other)), marked, aService()].map(all.mayBeLeftBehind)).toEqual([
    true,
    false,
    false,
    false,
  ]);
  expect(serviceSelection({ loadBalancerClass: own }).mayBeLeftBehind(left)).toBe(false);
  expect(serviceSelection({ serviceSelector: "shard" }).mayBeLeftBehind(left)).toBe(false);
});

test("a Service of another class keeps the load balancer that another deployment has given it, also once it has lost its mark", async () => {
  await run({});
  const mark = { "cloud-controller-host/served-by": "cloud-controller-manager-b" };
  create("foreign", { ...classed(other), meta: { annotations: mark, finalizers: [finalizer] } });
  const before = stored("foreign");
  if (before === undefined) throw new Error("it was created");
  alreadyBalanced(memory, before);
  const status = { loadBalancer: { ingress: [{ ip: "8.8.8.8" }] } };
  cluster.api.update(kinds.Service, place("foreign"), (now) => ({ ...now, status }), "status");
  create("mine");
  await served("foreign", "mine");
  // As a client does that replaces the whole Service.
  cluster.api.update(kinds.Service, place("foreign"), ({ metadata, ...now }) => ({
    ...now,
    metadata: { ...metadata, annotations: {} },
  }));
  create("next");
  await served("foreign", "mine", "next");
  await run({});
  create("zulu");
  await served("foreign", "mine", "next", "zulu");
  expect(memory.callsOf("ensureLoadBalancerDeleted")).toEqual([]);
  expect(stored("foreign")?.metadata?.finalizers).toEqual([finalizer]);
});

test("a Service of another class whose type changes keeps its finalizer where a selector matches and the cloud has nothing of it", async () => {
  await run({ serviceSelector: "shard=a" });
  create("foreign", { ...classed(other), meta: { labels: { shard: "a" }, finalizers: [finalizer] } });
  create("mine", labeled("a"));
  await served("mine");
  changeType("foreign");
  await eventually("it was looked up", () => calls("foreign").length > 0);
  create("last", labeled("a"));
  await served("last", "mine");
  expect(stored("foreign")?.metadata?.finalizers).toEqual([finalizer]);
  expect(new Set(calls("foreign"))).toEqual(new Set(["getLoadBalancer"]));
  changeType("mine");
  await eventually("its own is cleaned up", () => stored("mine")?.metadata?.finalizers === undefined);
});

test("a Service that another process is to serve loses the mark of this one, found at the start or set again later", async () => {
  const mark = { "cloud-controller-host/served-by": "a" };
  const marked = { meta: { annotations: mark, labels: { shard: "b" }, finalizers: [finalizer] } };
  const marksOf = (name: string): unknown => stored(name)?.metadata?.annotations ?? {};
  create("left", marked);
  const bound = plugin.bind({});
  if (!bound.ok) throw new Error(bound.problems.join());
  const generation = cluster.generation(plugin);
  const { context, signal, synced } = generation;
  const shards = { own: "a", isAlive: () => Promise.resolve(true) };
  const config = complete({ ...defaultOptions, serviceSelector: "shard=a" });
  const controller = await bound.value(config, memory.cloud)({ ...context, shards });
  if (!("run" in controller)) throw new Error(controller.skipped);
  await synced();
  const ended = controller.run(signal);
  const startedMs = performance.now();
  await eventually("its mark is removed", () => Bun.deepEquals(marksOf("left"), {}));
  // Not with the first resync.
  expect(performance.now() - startedMs).toBeLessThan(29_000);
  // As a client does that writes what it has read before.
  cluster.api.update(kinds.Service, place("left"), (now) => ({
    ...now,
    metadata: { ...now.metadata, annotations: mark },
  }));
  await eventually("it is removed again", () => Bun.deepEquals(marksOf("left"), {}));
  expect(calls("left")).toEqual([]);
  expect(stored("left")?.metadata?.finalizers).toEqual([finalizer]);
  generation.abort();
  await ended;
});
