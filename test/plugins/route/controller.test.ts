import { describe, expect, test } from "bun:test";

import { kinds, type Node } from "cloud-controller-host/sdk";
import {
  eventually,
  type ManualClock,
  manualClock,
  type MemoryCloud,
  memoryCloud,
} from "cloud-controller-host/sdk/testing";

import type { Options } from "../../../host/config/flags/options.ts";
import { changesRoutes, watchGate } from "../../../plugins/route/controller.ts";
import plugin from "../../../plugins/route/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { initCounted } from "../counting-handlers.ts";
import { aNode, aRoute } from "./objects.ts";
import { conditionOf, hold, linesOf } from "./parts.ts";

interface Scene extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly memory: MemoryCloud;
  readonly clock: ManualClock;
  run(flags?: Partial<Options>): ReturnType<TestCluster["run"]>;
  node(node: Node): void;
  change(name: string, change: (now: Node) => Node, subresource?: "status"): Node;
  /** How many nodes the controller's informer has. */
  seen(): number;
  /** Waits until that many passes have begun, and all of them have ended. */
  passes(count: number): Promise<void>;
}

const flags: Partial<Options> = { clusterCidr: "10.120.0.0/15", clusterName: "my-k8s" };
const gated: Partial<Options> = { featureGates: { [watchGate]: true } };

async function open(): Promise<Scene> {
  const cluster = await TestCluster.start();
  const memory = memoryCloud();
  const clock = manualClock();
  const nodes = cluster.generation(plugin).context.informers.of(kinds.Node).store;
  return {
    cluster,
    memory,
    clock,
    run: (more = {}) => cluster.run(plugin, { cloud: memory.cloud, clock, flags: { ...flags, ...more } }),
    node: (node) => void cluster.api.create(kinds.Node, node),
    change: (name, change, subresource) => cluster.api.update(kinds.Node, { name }, change, subresource),
    seen: () => nodes.size,
    async passes(count) {
      await eventually(`pass ${count}`, () => memory.callsOf("listRoutes").length === count);
      await eventually("it is over", () => memory.calls.every(({ ended }) => ended));
    },
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

const node1 = aNode("node-1", ["10.120.0.0/24"], "10.0.1.1");
const problemOf = async (running: Promise<unknown>): Promise<string> =>
  running.then(
    () => "it runs",
    (error: unknown) => String(error),
  );

describe("the route controller", () => {
  test("creates a node's route, sets its condition, and deletes the route with the node", async () => {
    await using scene = await open();
    scene.node(node1);
    await scene.run();
    await eventually("its condition is set", () => conditionOf(scene.cluster, "node-1")?.reason === "RouteCreated");
    expect(linesOf(scene.memory)).toEqual(["node-1 10.120.0.0/24 10.0.1.1"]);
    scene.cluster.api.delete(kinds.Node, { name: "node-1" });
    await eventually("the route is gone", async () => {
      await scene.clock.advance(10_000);
      return scene.memory.routes.size === 0;
    });
  });

  test("deletes no route before there is a node: a node filter that selects none must not cost the routes of all", async () => {
    await using scene = await open();
    hold(scene.memory, [aRoute("filtered", "10.120.8.0/24"), aRoute("gone", "10.120.9.0/24")]);
    await scene.run();
    for (let period = 0; period < 3; period++) {
      await eventually("it sleeps", () => scene.clock.sleepers === 1);
      await scene.clock.advance(10_000);
    }
    expect(scene.memory.calls).toEqual([]);
    scene.node(node1);
    await eventually("stale routes are deleted", async () => {
      await scene.clock.advance(10_000);
      return linesOf(scene.memory).join() === "node-1 10.120.0.0/24 10.0.1.1";
    });
  });

  test("measures the period from the start of a pass, and skips missed ones", async () => {
    await using scene = await open();
    scene.node(node1);
    await scene.run({ routeReconciliationPeriod: 10_000 });
    await scene.passes(1);
    await eventually("it sleeps", () => scene.clock.sleepers === 1);
    await scene.clock.advance(9_999);
    expect(scene.memory.callsOf("listRoutes")).toHaveLength(1);
    const slow = scene.memory.hold("listRoutes");
    await scene.clock.advance(1);
    await eventually("the second is under way", () => slow.waiting === 1);
    await scene.clock.advance(35_000);
    expect(scene.memory.callsOf("listRoutes")).toHaveLength(2);
    slow.release();
    await scene.passes(3);
    await eventually("it sleeps", () => scene.clock.sleepers === 1);
    await scene.clock.advance(9_999);
    expect(scene.memory.callsOf("listRoutes")).toHaveLength(3);
    await scene.clock.advance(1);
    await scene.passes(4);
  });

  test("logs a failed pass in one line, and continues", async () => {
    await using scene = await open();
    for (let index = 0; index < 20; index++) scene.node(aNode(`n${index}`, [`10.120.${index}.0/24`]));
    scene.memory.fail("createRoute", new Error("quota"), { times: 20 });
    await scene.run();
    await eventually("it is logged", () =>
      scene.cluster.log.some((line) => line.includes("Couldn't reconcile node routes")),
    );
    const errors = scene.cluster.log.filter((line) => line.includes('"level":"error"'));
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain("; and 17 more");
    await eventually("the next pass makes them", async () => {
      await scene.clock.advance(10_000);
      return scene.memory.routes.size === 20;
    });
  });

  test.each([
    ["listRoutes", "error listing routes: no access"],
    ["deleteRoute", "no access"],
  ] as const)(
    "warns when %s has failed for a minute, with the time and the error, until a pass succeeds",
    async (call, text) => {
      await using scene = await open();
      hold(scene.memory, [aRoute("gone", "10.120.9.0/24")]);
      scene.memory.fail(call, new Error("no access"), { times: 7 });
      scene.node(node1);
      const since = new Date(scene.clock.now()).toISOString();
      const { controller } = await scene.run({ routeReconciliationPeriod: 10_000 });
      for (let pass = 1; pass <= 7; pass++) {
        await scene.passes(pass);
        await eventually("it sleeps", () => scene.clock.sleepers === 1);
        const [warning, ...more] = controller.warnings?.() ?? [];
        expect(more).toEqual([]);
        if (pass < 7) expect(warning).toBeUndefined();
        else {
          expect(warning).toStartWith(`routes not reconciled since ${since}: `);
          expect(warning).toContain(text);
        }
        await scene.clock.advance(10_000);
      }
      await scene.passes(8);
      await eventually("the warning is gone", () => controller.warnings?.().length === 0);
    },
  );

  test("finishes calls in flight when it stops and logs no failure, so that the next generation repeats nothing", async () => {
    await using scene = await open();
    scene.node(node1);
    const creating = scene.memory.hold("createRoute");
    const running = await scene.run();
    await eventually("a creation is under way", () => creating.waiting === 1);
    const stopping = running.stop();
    creating.release();
    await stopping;
    expect(scene.memory.routes.size).toBe(1);
    expect(scene.cluster.writes()).toEqual([]);
    expect(scene.cluster.log.filter((line) => line.includes("Couldn't reconcile"))).toEqual([]);
    await scene.run();
    await eventually("the next generation sets the condition", () => scene.cluster.writes().length === 1);
    expect(scene.memory.callsOf("createRoute")).toHaveLength(1);
  });

  test("writes nothing after a reload when nothing has changed", async () => {
    await using scene = await open();
    scene.node(node1);
    const nodes = scene.cluster.generation(plugin).context.informers.of(kinds.Node).store;
    const first = await scene.run();
    await eventually(
      "its condition is set",
      () => nodes.get("node-1")?.status?.conditions?.[0]?.reason === "RouteCreated",
    );
    await first.stop();
    const writes = scene.cluster.writes().length;
    await scene.run();
    await scene.passes(2);
    expect(scene.memory.calls.filter(({ method }) => method !== "listRoutes")).toHaveLength(1);
    expect(scene.cluster.writes()).toHaveLength(writes);
  });

  test.each([
    ["without a cluster CIDR", { clusterCidr: "" }, "invalid CIDR[0]"],
    ["with an invalid cluster CIDR", { clusterCidr: "10.0.0.0/16,x" }, "invalid CIDR[1]"],
    [
      "with two cluster CIDRs of one family",
      { clusterCidr: "10.0.0.0/16,10.1.0.0/16" },
      "not configured as dual stack",
    ],
    [
      "when routes are not wanted",
      { configureCloudRoutes: false, clusterCidr: "" },
      "skipped: --configure-cloud-routes is false",
    ],
  ])("does not start %s, and logs the reason", async (_name, more, problem) => {
    await using scene = await open();
    expect(await problemOf(scene.run(more))).toContain(problem);
  });

  test("is skipped with a cloud that has no routes", async () => {
    await using scene = await open();
    const { cloud } = memoryCloud({ without: ["routes"] });
    expect(await problemOf(scene.cluster.run(plugin, { cloud, flags }))).toContain(
      'skipped: --configure-cloud-routes is set, but cloud provider "memory" does not support routes',
    );
  });
});

describe("an updated node", () => {
  const rows: readonly (readonly [string, (now: Node) => Node, "status" | undefined, boolean])[] = [
    [
      "internal IP updated",
      (now) => ({ ...now, status: { ...now.status, addresses: [{ type: "InternalIP", address: "10.0.1.2" }] } }),
      "status",
      true,
    ],
    [
      "unrelated node update",
      (now) => ({ ...now, status: { ...now.status, images: [{ names: ["example.com/any:1"], sizeBytes: 1 }] } }),
      "status",
      false,
    ],
    ["unrelated label", (now) => ({ ...now, metadata: { ...now.metadata, labels: { any: "1" } } }), undefined, false],
  ];

  test.each(rows)("%s", async (_name, change, subresource, enqueued) => {
    await using scene = await open();
    scene.node(node1);
    const nodes = scene.cluster.generation(plugin).context.informers.of(kinds.Node).store;
    await scene.run(gated);
    await eventually("the first pass is seen", () => nodes.get("node-1")?.status?.conditions?.length === 1);
    const version = scene.change("node-1", change, subresource).metadata?.resourceVersion;
    await eventually("the change is seen", () => nodes.get("node-1")?.metadata?.resourceVersion === version);
    const queued = (): Promise<number | undefined> =>
      scene.cluster.metric("workqueue_retries_total", { name: "Routes" });
    if (enqueued) await eventually("it is queued", async () => (await queued()) === 2);
    else await new Promise((resolve) => void setTimeout(resolve, 0));
    // The bucket's second token comes after ten seconds.
    await scene.clock.advance(10_000);
    await scene.passes(enqueued ? 2 : 1);
    expect(await queued()).toBe(enqueued ? 2 : 1);
  });

  test("pod CIDR updated: an API server lets it change just once, from none", async () => {
    await using scene = await open();
    scene.node(aNode("node-1", [], "10.0.1.1"));
    await scene.run(gated);
    await scene.passes(1);
    const cidr = "10.120.0.0/24";
    scene.change("node-1", (now) => ({ ...now, spec: { ...now.spec, podCIDR: cidr, podCIDRs: [cidr] } }));
    await eventually(
      "it is queued",
      async () => (await scene.cluster.metric("workqueue_retries_total", { name: "Routes" })) === 2,
    );
    await scene.clock.advance(10_000);
    await scene.passes(2);
    expect(changesRoutes(node1, aNode("node-1", ["10.121.0.0/24"], "10.0.1.1"))).toBe(true);
  });

  test("node object not updated: a resync triggers a pass, because it finds stale routes", () => {
    const node = { ...node1, metadata: { name: "node-1", resourceVersion: "7" } };
    expect(changesRoutes(node, node)).toBe(true);
    expect(changesRoutes(node, { ...node, metadata: { name: "node-1", resourceVersion: "8" } })).toBe(false);
  });
});

describe("the watch gate", () => {
  test("no pass runs without a node; with one, a route that was deleted by hand is back within five minutes", async () => {
    await using scene = await open();
    hold(scene.memory, [aRoute("gone", "10.120.9.0/24")]);
    await scene.run(gated);
    await scene.clock.advance(3_600_000);
    expect(scene.memory.calls).toEqual([]);
    scene.node(node1);
    await scene.passes(1);
    const line = "node-1 10.120.0.0/24 10.0.1.1";
    await eventually("the stale route is gone", () => linesOf(scene.memory).join() === line);
    // Another pass follows a deletion.
    await scene.clock.advance(10_000);
    await scene.passes(2);
    for (let checks = 1; checks <= 3; checks++) {
      scene.memory.routes.clear();
      await scene.clock.advance(checks === 1 ? 289_999 : 299_999);
      expect(scene.memory.callsOf("listRoutes")).toHaveLength(checks + 1);
      await scene.clock.advance(1);
      await eventually("the route is back", () => linesOf(scene.memory).join() === line);
      await scene.passes(checks + 2);
    }
  });

  test("a burst of changes causes one more pass, and no later delay", async () => {
    await using scene = await open();
    await scene.run(gated);
    scene.node(node1);
    await scene.passes(1);
    for (let index = 0; index < 50; index++) scene.node(aNode(`n${index}`, [`10.121.${index}.0/24`]));
    await eventually("they are all seen", () => scene.seen() === 51);
    await scene.clock.advance(9_999);
    expect(scene.memory.callsOf("listRoutes")).toHaveLength(1);
    await scene.clock.advance(1);
    await eventually("all have their routes", () => scene.memory.routes.size === 51);
    expect(scene.memory.callsOf("listRoutes")).toHaveLength(2);
    await scene.clock.advance(10_000);
    // The token is there: the next change is followed at once.
    scene.cluster.api.delete(kinds.Node, { name: "n7" });
    await eventually("its route is gone", () => scene.memory.routes.size === 50);
    expect(scene.memory.callsOf("listRoutes")).toHaveLength(3);
  });

  test("a change during a pass is not lost", async () => {
    await using scene = await open();
    const creating = scene.memory.hold("createRoute");
    await scene.run(gated);
    scene.node(node1);
    await eventually("a creation is under way", () => creating.waiting > 0);
    scene.node(aNode("late", ["10.121.0.0/24"]));
    await eventually("it is seen", () => scene.seen() === 2);
    creating.release();
    await scene.passes(1);
    await scene.clock.advance(10_000);
    await eventually("both have their routes", () => scene.memory.routes.size === 2);
  });

  test.each(["createRoute", "listRoutes"] as const)(
    "a pass that failed in %s is repeated, ten seconds apart",
    async (method) => {
      await using scene = await open();
      scene.memory.fail(method, new Error("quota"), { times: 3 });
      await scene.run(gated);
      scene.node(node1);
      for (let pass = 1; pass <= 4; pass++) {
        await scene.passes(pass);
        expect(scene.memory.routes.size).toBe(pass < 4 ? 0 : 1);
        await eventually("it is scheduled, or done", async () => {
          const scheduled = (await scene.cluster.metric("workqueue_retries_total", { name: "Routes" })) ?? 0;
          return scheduled === Math.min(pass + 1, 4);
        });
        await scene.clock.advance(9_999);
        expect(scene.memory.callsOf("listRoutes")).toHaveLength(pass);
        await scene.clock.advance(1);
      }
      await scene.clock.advance(60_000);
      expect(scene.memory.callsOf("listRoutes")).toHaveLength(4);
    },
  );

  test("a route that cannot be deleted is retried with exponential backoff, and a change of nodes does not wait for it", async () => {
    await using scene = await open();
    hold(scene.memory, [aRoute("gone", "10.120.9.0/24")]);
    scene.memory.fail("deleteRoute", new Error("locked"), { times: Number.POSITIVE_INFINITY });
    await scene.run(gated);
    scene.node(node1);
    await scene.passes(1);
    let passes = 1;
    for (const delay of [10_000, 20_000, 40_000]) {
      await eventually("the retry is scheduled", async () => {
        return ((await scene.cluster.metric("workqueue_retries_total", { name: "Routes" })) ?? 0) === passes + 1;
      });
      await scene.clock.advance(delay - 1);
      expect(scene.memory.callsOf("listRoutes")).toHaveLength(passes);
      await scene.clock.advance(1);
      await scene.passes(++passes);
    }
    scene.node(aNode("late", ["10.121.0.0/24"]));
    await eventually("it is seen", () => scene.seen() === 2);
    await scene.clock.advance(10_000);
    await eventually("its route is created", () => scene.memory.callsOf("createRoute").length === 2);
  });

  test("a route that was deleted at the second attempt is not retried", async () => {
    await using scene = await open();
    hold(scene.memory, [aRoute("gone", "10.120.9.0/24")]);
    scene.memory.fail("deleteRoute", new Error("locked"), { times: 1 });
    await scene.run(gated);
    scene.node(node1);
    await scene.passes(1);
    await eventually("the route is gone", async () => {
      await scene.clock.advance(10_000);
      return scene.memory.routes.size === 1;
    });
    await eventually("the pass after a deletion is over", async () => {
      await scene.clock.advance(10_000);
      return scene.memory.callsOf("listRoutes").length === 3;
    });
    for (let step = 0; step < 8; step++) await scene.clock.advance(10_000);
    await scene.passes(3);
  });

  test("its handler is resynced every 12 to 24 hours", async () => {
    await using scene = await open();
    const { cluster, memory, clock } = scene;
    const { resyncs } = await initCounted(cluster, plugin, {
      cloud: memory.cloud,
      clock,
      flags: { ...flags, ...gated },
    });
    const hour = 3_600_000;
    expect(resyncs()).toHaveLength(1);
    expect(resyncs()[0]).toBeGreaterThanOrEqual(12 * hour);
    expect(resyncs()[0]).toBeLessThan(24 * hour);
  });

  test("removes its handler and its queued keys when it stops", async () => {
    await using scene = await open();
    const { cluster, memory, clock } = scene;
    memory.fail("listRoutes", new Error("denied"));
    scene.node(node1);
    const { controller, handlers } = await initCounted(cluster, plugin, {
      cloud: memory.cloud,
      clock,
      flags: { ...flags, ...gated },
    });
    expect(handlers()).toBe(1);
    const stop = new AbortController();
    const running = controller.run(stop.signal);
    await eventually("a pass has failed", () => cluster.worked("Routes", 1));
    expect(clock.sleepers).toBeGreaterThan(0);
    stop.abort();
    await running;
    expect(handlers()).toBe(0);
    expect(clock.sleepers).toBe(0);
  });
});
