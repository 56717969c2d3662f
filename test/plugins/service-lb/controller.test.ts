import { describe, expect, test } from "bun:test";

import { CodedError, kinds, RetryAfterError, type Service } from "cloud-controller-host/sdk";
import {
  eventually,
  type ManualClock,
  manualClock,
  type MemoryCloud,
  memoryCloud,
} from "cloud-controller-host/sdk/testing";

import type { Options } from "../../../host/config/flags/options.ts";
import plugin from "../../../plugins/service-lb/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { initCounted } from "../counting-handlers.ts";
import { aNode, aService, excluded, finalizer, type ServiceFields, withoutUid } from "./objects.ts";

/** A cluster and a cloud, and the controller run on them as often as a test likes. */
interface Scene extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly memory: MemoryCloud;
  readonly clock: ManualClock;
  run(flags?: Partial<Options>): ReturnType<TestCluster["run"]>;
  node(name: string): void;
  service(fields?: ServiceFields): void;
  change(change: (now: Service) => Service, name?: string): void;
  stored(name?: string): Service | undefined;
  /** The Service as the controller's informer has it. */
  seen(name?: string): Service | undefined;
  patches(): readonly unknown[];
  /** The version of the node that the controller's informer has. */
  seenNode(name: string): string | undefined;
  /** Waits until the load balancer of the Service has these nodes. */
  balanced(nodes: readonly string[], name?: string): Promise<void>;
  ensures(name?: string): number;
  updates(name?: string): number;
}

const nameOf = (name: string): { readonly namespace: string; readonly name: string } => ({
  namespace: "default",
  name,
});

async function open(): Promise<Scene> {
  const cluster = await TestCluster.start();
  const memory = memoryCloud();
  const clock = manualClock();
  const { informers } = cluster.generation(plugin).context;
  const services = informers.of(kinds.Service).store;
  const nodeStore = informers.of(kinds.Node).store;
  const count = (method: "ensureLoadBalancer" | "updateLoadBalancer", name: string): number =>
    memory.callsOf(method).filter(({ target }) => target === `default/${name}`).length;
  return {
    cluster,
    memory,
    clock,
    run: (flags = {}) => cluster.run(plugin, { cloud: memory.cloud, clock, flags }),
    node: (name) => void cluster.api.create(kinds.Node, aNode(name, { providerID: `id-${name}` })),
    service: (fields) => void cluster.api.create(kinds.Service, aService(fields)),
    change: (change, name = "web") => void cluster.api.update(kinds.Service, nameOf(name), change),
    seen: (name = "web") => services.get(`default/${name}`),
    stored: (name = "web") => cluster.api.get(kinds.Service, nameOf(name)),
    seenNode: (name) => nodeStore.get(name)?.metadata?.resourceVersion,
    patches: () => cluster.sent({ method: "PATCH" }).map(({ body }) => withoutUid(body)),
    async balanced(nodes, name = "web") {
      await eventually(`the load balancer of ${name} has ${nodes.join(" ")}`, () => {
        const now = memory.balancers.get(`default/${name}`)?.nodes.toSorted().join(" ");
        return now === nodes.join(" ");
      });
    },
    ensures: (name = "web") => count("ensureLoadBalancer", name),
    updates: (name = "web") => count("updateLoadBalancer", name),
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

const annotated =
  (value: string) =>
  (now: Service): Service => ({
    ...now,
    metadata: { ...now.metadata, annotations: { "example.com/any": value } },
  });
const labeled =
  (value: string) =>
  (now: Service): Service => ({
    ...now,
    metadata: { ...now.metadata, labels: { "example.com/any": value } },
  });
const ofType =
  (type: string) =>
  (now: Service): Service => ({ ...now, spec: { ...now.spec, type } });

const added = { metadata: { finalizers: [finalizer] } };
const removed = { metadata: { "$deleteFromPrimitiveList/finalizers": [finalizer] } };
const address = (ip: string): unknown => ({ status: { loadBalancer: { ingress: [{ ip }] } } });
const cleared = { status: { loadBalancer: { ingress: null } } };

describe("the life of a Service", () => {
  test("creates the load balancer and publishes its address, then deletes it with the Service", async () => {
    await using scene = await open();
    const { cluster, memory } = scene;
    scene.node("node-1");
    await scene.run();
    scene.service();
    await eventually("the address is written", () => scene.stored()?.status?.loadBalancer?.ingress?.[0]?.ip);
    expect(scene.patches()).toEqual([added, address("192.0.2.1")]);
    await scene.balanced(["node-1"]);

    cluster.api.delete(kinds.Service, nameOf("web"));
    await eventually("the Service is gone", () => scene.stored() === undefined);
    expect(memory.balancers.size).toBe(0);
    expect(scene.patches().slice(2)).toEqual([{ ...removed, ...cleared }]);
    await eventually("all events have arrived", () => cluster.events().length === 4);
    const reported = cluster.events().map(({ reason, type, message }) => `${reason} (${type}): ${message}`);
    expect(reported.toSorted()).toEqual([
      "DeletedLoadBalancer (Normal): Deleted load balancer",
      "DeletingLoadBalancer (Normal): Deleting load balancer",
      "EnsuredLoadBalancer (Normal): Ensured load balancer",
      "EnsuringLoadBalancer (Normal): Ensuring load balancer",
    ]);
  });

  test("a type change and its reversal leave another controller's finalizer in place", async () => {
    await using scene = await open();
    await scene.run();
    scene.service({ meta: { finalizers: ["example.com/other"] } });
    await eventually("it is balanced", () => scene.stored()?.status?.loadBalancer?.ingress?.[0]?.ip === "192.0.2.1");
    scene.change(ofType("ClusterIP"));
    await eventually("ours is off", () => scene.stored()?.metadata?.finalizers?.length === 1);
    expect(scene.memory.balancers.size).toBe(0);
    expect(scene.patches()).toContainEqual({
      metadata: {
        "$deleteFromPrimitiveList/finalizers": [finalizer],
        "$setElementOrder/finalizers": ["example.com/other"],
      },
    });
    scene.change(ofType("LoadBalancer"));
    await eventually(
      "it is balanced again",
      () => scene.stored()?.status?.loadBalancer?.ingress?.[0]?.ip === "192.0.2.2",
    );
    expect(scene.stored()?.metadata?.finalizers).toEqual(["example.com/other", finalizer]);
  });

  test("a Service whose type has changed and changed back while its watch is interrupted gets its address back", async () => {
    await using scene = await open();
    const { api } = scene.cluster;
    await scene.run();
    scene.service();
    await eventually("its address is seen", () => scene.seen()?.status?.loadBalancer?.ingress?.[0]?.ip);
    await api.goDown();
    const before = scene.stored()?.spec;
    scene.change(ofType("ClusterIP"));
    scene.change((now) => ({ ...now, ...(before && { spec: before }) }));
    expect([scene.stored()?.spec, scene.stored()?.status?.loadBalancer]).toEqual([before, {}]);
    api.compact();
    api.comeBack();
    await eventually("its address is written again", () => scene.stored()?.status?.loadBalancer?.ingress?.[0]?.ip);
    expect([scene.ensures(), scene.memory.callsOf("ensureLoadBalancerDeleted")]).toEqual([2, []]);
  }, 60_000);

  test("a relevant change costs one ensure, any other none, and neither writes to Kubernetes", async () => {
    await using scene = await open();
    await scene.run();
    scene.service();
    await scene.balanced([]);
    await eventually("its address is seen", () => scene.seen()?.status?.loadBalancer?.ingress);
    scene.change(labeled("1"));
    scene.change(annotated("1"));
    await eventually("it is ensured again", () => scene.ensures() === 2);
    scene.change(labeled("2"));
    scene.service({ name: "later" });
    await eventually("a later Service has its turn", () => scene.ensures("later") === 1);
    expect(scene.ensures()).toBe(2);
    expect(scene.patches().filter((body) => JSON.stringify(body).includes("192.0.2.1"))).toHaveLength(1);
  });

  test("ignores a Service with a loadBalancerClass or of another type", async () => {
    await using scene = await open();
    await scene.run();
    scene.service({
      name: "classed",
      spec: { loadBalancerClass: "example.com/other" },
      meta: { finalizers: [finalizer] },
    });
    scene.service({ name: "internal", spec: { type: "ClusterIP" } });
    scene.service();
    await scene.balanced([]);
    expect([...scene.memory.balancers.keys()]).toEqual(["default/web"]);
    expect(scene.stored("classed")?.metadata?.finalizers).toEqual([finalizer]);
  });

  test("a force-deleted Service without its finalizer leaves no load balancer behind", async () => {
    await using scene = await open();
    await scene.run();
    scene.service();
    await eventually("it is balanced", () => scene.patches().length === 2);
    scene.change((now) => ({ ...now, metadata: { ...now.metadata, finalizers: [] } }));
    scene.cluster.api.delete(kinds.Service, nameOf("web"));
    await eventually("its load balancer is gone", () => scene.memory.balancers.size === 0);
    scene.node("node-1");
    await eventually("the nodes are looked at", () => scene.cluster.worked("node", 1));
    expect(scene.updates()).toBe(0);
  });

  test("a Service kept by another finalizer is not synced after ours is removed, in the next generation either", async () => {
    await using scene = await open();
    const { cluster, memory } = scene;
    const first = await scene.run();
    scene.service({ meta: { finalizers: ["example.com/other"] } });
    await eventually("it is balanced", () => scene.seen()?.status?.loadBalancer?.ingress);
    cluster.api.delete(kinds.Service, nameOf("web"));
    await eventually("ours is off", () => scene.seen()?.metadata?.finalizers?.length === 1);
    expect([scene.seen()?.status?.loadBalancer, scene.patches().length]).toEqual([{}, 3]);
    const calls = memory.calls.length;
    scene.change(annotated("afterwards"));
    await eventually("the change was looked at", () => cluster.worked("service", 3));
    await first.stop();
    await scene.run();
    await eventually("the next generation has looked, too", () => cluster.worked("service", 4));
    expect(memory.calls).toHaveLength(calls);
    expect(scene.patches()).toHaveLength(3);
  });

  test("ignores the deletion of a Service that never was a load balancer", async () => {
    await using scene = await open();
    await scene.run();
    scene.service({ name: "internal", spec: { type: "ClusterIP" } });
    scene.service();
    await eventually("it is balanced", () => scene.seen()?.status?.loadBalancer?.ingress);
    scene.cluster.api.delete(kinds.Service, nameOf("internal"));
    await eventually("it is seen to be gone", () => scene.seen("internal") === undefined);
    await new Promise((resolve) => void setTimeout(resolve, 0));
    expect(await scene.cluster.metric("workqueue_adds_total", { name: "service" })).toBe(1);
  });
});

describe("nodes", () => {
  test("nodes that are added, deleted or excluded update the load balancers once each", async () => {
    await using scene = await open();
    const { cluster } = scene;
    scene.node("node-1");
    await scene.run();
    scene.service();
    await scene.balanced(["node-1"]);
    await eventually("its address is written", () => scene.patches().length === 2);
    scene.node("node-2");
    await scene.balanced(["node-1", "node-2"]);
    const change = (labels: Readonly<Record<string, string>>): void =>
      void cluster.api.update(kinds.Node, { name: "node-1" }, (now) => ({
        ...now,
        metadata: { ...now.metadata, labels },
      }));
    change(excluded());
    await scene.balanced(["node-2"]);
    change({});
    await scene.balanced(["node-1", "node-2"]);
    cluster.api.delete(kinds.Node, { name: "node-2" });
    await scene.balanced(["node-1"]);
    expect(scene.updates()).toBe(4);
    expect(scene.ensures()).toBe(1);
    expect(scene.patches()).toHaveLength(2);
  });

  test("nodes that change during a slow sync of nodes", async () => {
    await using scene = await open();
    const { memory } = scene;
    scene.node("node1");
    await scene.run({ concurrentServiceSyncs: 1 });
    for (const name of ["first", "other"]) scene.service({ name });
    await scene.balanced(["node1"], "first");
    await scene.balanced(["node1"], "other");
    const slow = memory.hold("updateLoadBalancer");
    scene.node("node2");
    await eventually("a node sync is under way", () => slow.waiting === 1);
    const held = memory.callsOf("updateLoadBalancer")[0]?.target ?? "";
    const free = held === "default/first" ? "other" : "first";
    scene.node("node3");
    await eventually("node3 is seen", () =>
      scene.cluster.metric("workqueue_depth", { name: "node" }).then((n) => n === 1),
    );
    scene.change(annotated("changed"), free);
    await scene.balanced(["node1", "node2", "node3"], free);
    expect(scene.ensures(free)).toBe(2);
    slow.release();
    await scene.balanced(["node1", "node2", "node3"], held.replace("default/", ""));
    expect(scene.updates(free)).toBe(0);
  });

  test("nodes that change while a Service is being ensured reach it afterwards", async () => {
    await using scene = await open();
    const { memory, cluster } = scene;
    scene.node("node-1");
    await scene.run();
    const ensuring = memory.hold("ensureLoadBalancer");
    scene.service();
    await eventually("it is being ensured", () => ensuring.waiting === 1);
    scene.node("node-2");
    await eventually("the nodes are looked at", () => cluster.worked("node", 2));
    expect(scene.updates()).toBe(0);
    ensuring.release();
    await scene.balanced(["node-1", "node-2"]);
    expect([scene.ensures(), scene.updates()]).toEqual([1, 1]);
  });

  test("nodes that leave and come back while a Service is being ensured are given to the cloud again", async () => {
    await using scene = await open();
    const { memory, cluster } = scene;
    scene.node("node-1");
    await scene.run();
    const ensuring = memory.hold("ensureLoadBalancer");
    scene.service();
    await eventually("it is being ensured", () => ensuring.waiting === 1);
    cluster.api.delete(kinds.Node, { name: "node-1" });
    await eventually("the controller sees that it left", () => scene.seenNode("node-1") === undefined);
    scene.node("node-1");
    await eventually("the controller sees that it is back", () => scene.seenNode("node-1") !== undefined);
    ensuring.release();
    await eventually("the load balancer is updated", () => scene.updates() === 1);
  });

  test("nodes that are added and removed again while a Service is being ensured are not left in its load balancer", async () => {
    await using scene = await open();
    const { memory, cluster } = scene;
    scene.node("node-1");
    await scene.run();
    scene.service();
    await scene.balanced(["node-1"]);
    await eventually("its address is written", () => scene.patches().length === 2);
    // The update to two nodes fails, and the ensure that follows it takes both; then there is one again, as before.
    memory.fail("updateLoadBalancer", new Error("no"), { times: 1 });
    const ensuring = memory.hold("ensureLoadBalancer");
    scene.node("node-2");
    await eventually("it is being ensured", () => ensuring.waiting === 1);
    await eventually("the look that failed is over", () => cluster.worked("node", 2));
    cluster.api.delete(kinds.Node, { name: "node-2" });
    await eventually("the nodes are looked at", () => cluster.worked("node", 3));
    ensuring.release();
    // Until then the load balancer has node-1 alone, whatever follows.
    await eventually("the ensure has ended", () => memory.callsOf("ensureLoadBalancer").at(-1)?.ended === true);
    await scene.balanced(["node-1"]);
  });

  test("nodes that are being updated do not delay a change of the Service forever", async () => {
    await using scene = await open();
    const { memory, cluster } = scene;
    await scene.run();
    scene.service();
    await eventually("its address is written", () => scene.patches().length === 2);
    const updating = memory.hold("updateLoadBalancer");
    scene.node("node-1");
    await eventually("it is being updated", () => updating.waiting === 1);
    scene.change(annotated("changed"));
    await eventually("the change was looked at", () => cluster.worked("service", 2));
    expect(scene.ensures()).toBe(1);
    updating.release();
    await eventually("it is ensured again", () => scene.ensures() === 2);
  });

  test("do not start a sync on an irrelevant change", async () => {
    await using scene = await open();
    const { cluster } = scene;
    scene.node("node-1");
    await scene.run();
    await eventually("the nodes are looked at", () => cluster.worked("node", 1));
    const now = cluster.api.update(kinds.Node, { name: "node-1" }, (node) => ({
      ...node,
      metadata: { ...node.metadata, labels: { "example.com/any": "1" } },
    }));
    await eventually("the change is seen", () => scene.seenNode("node-1") === now.metadata?.resourceVersion);
    await new Promise((resolve) => void setTimeout(resolve, 0));
    expect(await cluster.metric("workqueue_adds_total", { name: "node" })).toBe(1);
  });
});

describe("a Service that fails", () => {
  const attempts = async (scene: Scene, times: number): Promise<void> =>
    void (await eventually(`attempt ${times}`, () => scene.cluster.worked("service", times)));

  test("processing successful", async () => {
    await using scene = await open();
    await scene.run();
    scene.service();
    await attempts(scene, 1);
    expect((await scene.cluster.metric("workqueue_retries_total", { name: "service" })) ?? 0).toBe(0);
  });

  test("regular error", async () => {
    await using scene = await open();
    scene.memory.fail("ensureLoadBalancer", new Error("no"));
    await scene.run();
    scene.service();
    let done = 1;
    await attempts(scene, done);
    for (const seconds of [5, 10, 20, 40, 80, 160, 300, 300]) {
      await scene.clock.advance(seconds * 1000 - 1);
      expect(scene.ensures()).toBe(done);
      await scene.clock.advance(1);
      await attempts(scene, ++done);
      expect(scene.ensures()).toBe(done);
    }
  });

  test("retry error", async () => {
    await using scene = await open();
    scene.memory.fail("ensureLoadBalancer", new Error("busy", { cause: new RetryAfterError(42_000, "in progress") }));
    await scene.run();
    scene.service();
    for (let done = 1; done < 4; done++) {
      await attempts(scene, done);
      await scene.clock.advance(41_999);
      expect(scene.ensures()).toBe(done);
      await scene.clock.advance(1);
    }
    const event = await eventually("the event is recorded", () => scene.cluster.event("SyncLoadBalancerFailed"));
    expect(event.message).toBe("Error syncing load balancer: failed to ensure load balancer: busy: in progress");
  });

  test("has one event for a failure that lasts, without what differs each time", async () => {
    await using scene = await open();
    let attempt = 0;
    const refused = () =>
      new CodedError("InvalidRequest", `no (correlation ID ${attempt})`, {
        occurrence: ` (correlation ID ${attempt++})`,
      });
    scene.memory.fail("ensureLoadBalancer", refused(), { times: 1 });
    await scene.run();
    scene.service();
    await attempts(scene, 1);
    scene.memory.fail("ensureLoadBalancer", refused(), { times: 1 });
    await scene.clock.advance(5_000);
    await attempts(scene, 2);
    const counted = await eventually("the event is counted", () => {
      const event = scene.cluster.event("SyncLoadBalancerFailed");
      return event?.count === 2 && event;
    });
    expect(counted.message).toBe("Error syncing load balancer: failed to ensure load balancer: no");
  });

  test("has its error and the time of the next retry in a condition, which turns ready after recovery", async () => {
    await using scene = await open();
    const error = new Error("ARM PUT lb: 400 InvalidRequest: no (correlation ID 1-2-3)");
    scene.memory.fail("ensureLoadBalancer", error, { times: 2 });
    await scene.run();
    scene.service();
    const condition = () => scene.stored()?.status?.conditions?.find(({ type }) => type === "LoadBalancerReady");
    const retriesAt = async (seconds: number): Promise<void> => {
      const time = new Date(scene.clock.now() + seconds * 1000).toISOString().replace(".000Z", "Z");
      const message = `failed to ensure load balancer: ${error.message}; next retry at ${time}`;
      await eventually(message, () => condition()?.message === message);
      expect(condition()).toMatchObject({ status: "False", reason: "SyncLoadBalancerFailed" });
    };
    await retriesAt(5);
    await attempts(scene, 1);
    await scene.clock.advance(5_000);
    await retriesAt(10);
    await attempts(scene, 2);
    await scene.clock.advance(10_000);
    await eventually("it is ready", () => condition()?.status === "True");
    expect(condition()).toMatchObject({ reason: "EnsuredLoadBalancer", message: "" });
    const written = scene.patches().length;
    scene.change(annotated("later"));
    await attempts(scene, 4);
    expect(scene.ensures()).toBe(4);
    expect(scene.patches()).toHaveLength(written);
  });

  test("has its condition taken back that the process or the generation before has written late", async () => {
    await using scene = await open();
    await scene.run();
    scene.service();
    await attempts(scene, 1);
    const condition = { type: "LoadBalancerReady", reason: "SyncLoadBalancerFailed", message: "no" };
    scene.service({ name: "other", spec: { loadBalancerClass: "example.com/other" } });
    const show = (status: string, name = "web"): void => {
      const conditions = [{ ...condition, status, lastTransitionTime: "2026-01-01T00:00:00Z" }];
      const shownWith = (now: Service): Service => ({ ...now, status: { ...now.status, conditions } });
      scene.cluster.api.update(kinds.Service, nameOf(name), shownWith, "status");
    };
    const shown = () => scene.stored()?.status?.conditions?.[0];
    show("False");
    await eventually("it is ready", () => shown()?.status === "True");
    expect(shown()).toMatchObject({ reason: "EnsuredLoadBalancer", message: "" });
    await attempts(scene, 2);
    const additions = () => scene.cluster.metric("workqueue_adds_total", { name: "service" });
    const before = await additions();
    // It has written its own by now: one that comes again is an old one that the watch repeats.
    for (const name of ["web", "other"]) show("False", name);
    await scene.clock.advance(30_000);
    scene.node("node-1");
    await scene.balanced(["node-1"]);
    expect([scene.ensures(), scene.patches().length, await additions()]).toEqual([2, 3, before]);
  });

  test("is not synced again for a condition that is true, also where another process has written it", async () => {
    await using scene = await open();
    await scene.run();
    scene.service();
    await attempts(scene, 1);
    const additions = () => scene.cluster.metric("workqueue_adds_total", { name: "service" });
    const before = await additions();
    const condition = { type: "LoadBalancerReady", status: "True", reason: "EnsuredLoadBalancer", message: "" };
    const conditions = [{ ...condition, lastTransitionTime: "2026-01-01T00:00:00Z" }];
    const shownWith = (now: Service): Service => ({ ...now, status: { ...now.status, conditions } });
    scene.cluster.api.update(kinds.Service, nameOf("web"), shownWith, "status");
    scene.node("node-1");
    await scene.balanced(["node-1"]);
    expect([scene.ensures(), await additions()]).toEqual([1, before]);
  });

  test("is retried at once after a change, and otherwise after its backoff", async () => {
    await using scene = await open();
    scene.memory.fail("ensureLoadBalancer", new Error("no"), { times: 1 });
    await scene.run();
    scene.service();
    await attempts(scene, 1);
    scene.change(annotated("fixed"));
    await scene.balanced([]);
    expect(scene.ensures()).toBe(2);
  });

  test("retries its cleanup after its backoff despite other changes, but handles its deletion at once", async () => {
    await using scene = await open();
    const { memory, cluster, clock } = scene;
    memory.fail("ensureLoadBalancer", new Error("no"));
    memory.fail("ensureLoadBalancerDeleted", new Error("no"));
    await scene.run();
    scene.service();
    await attempts(scene, 1);
    memory.balancers.set("default/web", { name: "half", clusterName: "kubernetes", nodes: [], status: {} });
    cluster.api.delete(kinds.Service, nameOf("web"));
    await attempts(scene, 2);
    const deletions = (): number => memory.callsOf("ensureLoadBalancerDeleted").length;
    expect(deletions()).toBe(1);
    scene.change(labeled("1"));
    scene.change(labeled("2"));
    scene.service({ name: "later", spec: { type: "NodePort" }, meta: { finalizers: [finalizer] } });
    await attempts(scene, 3);
    expect(deletions()).toBe(1);
    // The ensure's five seconds were already running; the third failure in a row waits twenty.
    await clock.advance(4_999);
    expect(deletions()).toBe(1);
    await clock.advance(1);
    await attempts(scene, 4);
    expect(deletions()).toBe(2);
    scene.change(labeled("3"));
    await clock.advance(19_999);
    expect(deletions()).toBe(2);
    await clock.advance(1);
    await attempts(scene, 5);
    expect(deletions()).toBe(3);
  });

  test("is not requeued by changes during its cleanup", async () => {
    await using scene = await open();
    const { memory } = scene;
    await scene.run();
    scene.service({ meta: { finalizers: ["example.com/other"] } });
    await eventually("it is balanced", () => scene.seen()?.status?.loadBalancer?.ingress);
    const deleting = memory.hold("ensureLoadBalancerDeleted");
    scene.change(ofType("ClusterIP"));
    await eventually("it is being cleaned up", () => deleting.waiting === 1);
    scene.change(labeled("meanwhile"));
    await eventually("that is seen", () => scene.seen()?.metadata?.labels !== undefined);
    await new Promise((resolve) => void setTimeout(resolve, 0));
    expect(await scene.cluster.metric("workqueue_adds_total", { name: "service" })).toBe(2);
    deleting.release();
    await eventually("our finalizer is removed", () => scene.seen()?.metadata?.finalizers?.length === 1);
    expect(memory.callsOf("getLoadBalancer")).toHaveLength(1);
  });

  test("is skipped by node syncs during its backoff, and uses the latest nodes in its next attempt", async () => {
    await using scene = await open();
    const { memory, clock } = scene;
    scene.node("node-1");
    await scene.run();
    scene.service();
    await scene.balanced(["node-1"]);
    await eventually("its address is written", () => scene.patches().length === 2);
    memory.fail("updateLoadBalancer", new Error("no"), { times: 1 });
    memory.fail("ensureLoadBalancer", new Error("no"), { times: 1 });
    scene.node("node-2");
    await attempts(scene, 2);
    expect(scene.updates()).toBe(1);
    scene.node("node-3");
    await eventually("the nodes are looked at", () => scene.cluster.worked("node", 2));
    expect(scene.updates()).toBe(1);
    // The backoff begins once the condition with the error is written.
    await eventually("its backoff has passed", async () => {
      await clock.advance(1_000);
      return scene.ensures() === 3;
    });
    await scene.balanced(["node-1", "node-2", "node-3"]);
    expect(scene.ensures()).toBe(3);
  });

  test("among 300 healthy ones delays none, and its events and log lines follow its backoff", async () => {
    await using scene = await open();
    const { memory, cluster, clock } = scene;
    for (let index = 0; index < 300; index++) scene.service({ name: `good-${index}` });
    scene.service({ name: "bad" });
    memory.fail("ensureLoadBalancer", new Error("no"), { target: "default/bad" });
    // With many at once the events of a cloud in memory come faster than the recorder's queue drains.
    await scene.run({ concurrentServiceSyncs: 1 });
    await eventually("all good ones are balanced", () => memory.balancers.size === 300, 60_000);
    expect(clock.monotonic()).toBe(0);
    await attempts(scene, 301);
    // An hour at 300 s per attempt, after the first few.
    for (let minute = 0; minute < 60; minute++) {
      const before = scene.ensures("bad");
      await clock.advance(60_000);
      await attempts(scene, 301 + scene.ensures("bad") - 1);
      expect(scene.ensures("bad") - before).toBeLessThanOrEqual(4);
    }
    const tries = scene.ensures("bad");
    expect(tries).toBeLessThan(20);
    const lines = cluster.log.filter((line) => line.includes("error processing service"));
    expect(lines).toHaveLength(tries);
    for (const name of ["good-0", "good-299"]) expect(scene.ensures(name)).toBe(1);
    expect(cluster.log.filter((line) => line.includes('"level":"error"') && !line.includes("default/bad"))).toEqual([]);
  }, 120_000);
});

describe("workers", () => {
  test.each([1, 3, 8])("%d Services are synced at once", async (workers) => {
    await using scene = await open();
    const hold = scene.memory.hold("ensureLoadBalancer");
    for (let index = 0; index < 10; index++) scene.service({ name: `s${index}` });
    await scene.run({ concurrentServiceSyncs: workers });
    await eventually("they are under way", () => hold.waiting === workers);
    hold.release();
    await eventually("all are balanced", () => scene.memory.balancers.size === 10);
  });

  test("never process one Service concurrently, and bring every Service to its latest spec", async () => {
    await using scene = await open();
    const { memory, cluster } = scene;
    const inFlight = new Map<string, number>();
    let most = 0;
    const counted = async <T>(target: string, proceed: () => Promise<T>): Promise<T> => {
      inFlight.set(target, (inFlight.get(target) ?? 0) + 1);
      most = Math.max(most, inFlight.get(target) ?? 0);
      try {
        await new Promise((resolve) => void setTimeout(resolve, 1));
        return await proceed();
      } finally {
        inFlight.set(target, (inFlight.get(target) ?? 0) - 1);
      }
    };
    memory.intercept("ensureLoadBalancer", ({ target, proceed }) => counted(target, proceed));
    memory.intercept("updateLoadBalancer", ({ target, proceed }) => counted(target, proceed));
    memory.intercept("ensureLoadBalancerDeleted", ({ target, proceed }) => counted(target, proceed));
    memory.intercept("getLoadBalancer", ({ target, proceed }) => counted(target, proceed));
    const names = Array.from({ length: 6 }, (_, index) => `s${index}`);
    for (const name of names) scene.service({ name });
    await scene.run({ concurrentServiceSyncs: 4 });
    for (let round = 0; round < 40; round++) {
      scene.node(`node-${round}`);
      if (round % 3 === 2) cluster.api.delete(kinds.Node, { name: `node-${round - 1}` });
      for (const [index, name] of names.entries()) {
        if ((round + index) % 4 === 0) scene.change(annotated(String(round)), name);
        if ((round + index) % 7 === 0) scene.change(ofType(round % 2 === 0 ? "NodePort" : "LoadBalancer"), name);
      }
      await new Promise((resolve) => void setTimeout(resolve, 2));
    }
    for (const name of names) scene.change(ofType("LoadBalancer"), name);
    const nodes = cluster.api.list(kinds.Node).map(({ metadata }) => metadata?.name ?? "");
    for (const name of names) await scene.balanced(nodes.toSorted(), name);
    expect(most).toBe(1);
    for (const name of names)
      await eventually("it has its address", () => scene.stored(name)?.status?.loadBalancer?.ingress);
  });
});

describe("a reload", () => {
  test("costs one ensure per Service and no write to Kubernetes", async () => {
    await using scene = await open();
    scene.node("node-1");
    for (const name of ["a", "b"]) scene.service({ name });
    const first = await scene.run();
    const balanced = (name: string): boolean => scene.seen(name)?.status?.loadBalancer?.ingress !== undefined;
    await eventually("both are seen to be balanced", () => balanced("a") && balanced("b"));
    await first.stop();
    await scene.run();
    await eventually("both are ensured", () => scene.ensures("a") === 2 && scene.ensures("b") === 2);
    await eventually("and done", () => scene.cluster.worked("service", 2));
    expect(scene.patches()).toHaveLength(4);
    expect(scene.updates("a") + scene.updates("b")).toBe(0);
  });

  test("finishes the ensure in flight and its status, starts no other, and then writes nothing", async () => {
    await using scene = await open();
    const { memory, cluster } = scene;
    const hold = memory.hold("ensureLoadBalancer", { stubborn: true });
    for (const name of ["a", "b"]) scene.service({ name });
    const running = await scene.run({ concurrentServiceSyncs: 1 });
    await eventually("one is under way", () => hold.waiting === 1);
    let ended = false;
    const stopped = running.stop().then(() => (ended = true));
    scene.service({ name: "c" });
    expect(ended).toBe(false);
    hold.release();
    await stopped;
    expect(memory.balancers.size).toBe(1);
    expect(scene.patches()).toEqual([added, address("192.0.2.1")]);
    scene.change(annotated("afterwards"), "a");
    scene.change(annotated("afterwards"), "b");
    await scene.run({ concurrentServiceSyncs: 1 });
    await eventually("the next generation does the rest", () => memory.balancers.size === 3);
    await eventually("and writes it down", () => scene.stored("c")?.status?.loadBalancer?.ingress);
    expect(cluster.sent({ path: "/api/v1/namespaces/default/services/b/status" })).toHaveLength(2);
  });

  test("a reload in the middle of a deletion loses nothing", async () => {
    await using scene = await open();
    const { memory, cluster } = scene;
    scene.service();
    const first = await scene.run();
    await eventually("it is balanced", () => scene.patches().length === 2);
    const hold = memory.hold("getLoadBalancer");
    cluster.api.delete(kinds.Service, nameOf("web"));
    await eventually("it is being looked at", () => hold.waiting === 1);
    await first.stop();
    expect(memory.balancers.size).toBe(1);
    expect(scene.stored()?.metadata?.finalizers).toEqual([finalizer]);
    hold.release();
    await scene.run();
    await eventually("it is gone", () => scene.stored() === undefined);
    expect(memory.balancers.size).toBe(0);
  });

  test("a reload between the finalizer and the ensure does not start the ensure and reports no failure", async () => {
    await using scene = await open();
    const { cluster, memory } = scene;
    cluster.api.faults.latency(50);
    scene.service();
    const running = await scene.run();
    await eventually("the finalizer is on its way", () => scene.patches().length === 1);
    await running.stop();
    cluster.api.faults.clear();
    expect(memory.calls).toEqual([]);
    expect(scene.stored()?.metadata?.finalizers).toEqual([finalizer]);
    expect(cluster.log.filter((line) => line.includes("error processing service"))).toEqual([]);
    await scene.run();
    await eventually("the next generation reports success", () => cluster.event("EnsuredLoadBalancer"));
    expect(cluster.events("SyncLoadBalancerFailed")).toEqual([]);
  });

  test("removes its handlers and its queued keys", async () => {
    await using scene = await open();
    const { cluster, memory, clock } = scene;
    memory.fail("ensureLoadBalancer", new Error("no"));
    scene.service();
    const { controller, handlers } = await initCounted(cluster, plugin, { cloud: memory.cloud, clock });
    expect(handlers()).toBe(2);
    const stop = new AbortController();
    const running = controller.run(stop.signal);
    await eventually("an attempt has failed", () => cluster.worked("service", 1));
    expect(clock.sleepers).toBeGreaterThan(0);
    stop.abort();
    await running;
    expect(handlers()).toBe(0);
    expect(clock.sleepers).toBe(0);
  });
});

test("the handler of Services is resynced every 30 seconds, as upstream's, and that of nodes never", async () => {
  await using scene = await open();
  const { cluster, memory, clock } = scene;
  const { resyncs } = await initCounted(cluster, plugin, { cloud: memory.cloud, clock });
  expect(resyncs()).toEqual([30_000, undefined]);
});
