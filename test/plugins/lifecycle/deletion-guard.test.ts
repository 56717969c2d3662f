import { describe, expect, test } from "bun:test";

import { keyOf, type Node, taints } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { MetricsRegistry } from "../../../host/process/metrics/metrics.ts";
import { DeletionGuard, tooManyMissing } from "../../../plugins/lifecycle/deletion-guard.ts";
import lifecycle from "../../../plugins/lifecycle/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { warningLines } from "../../kit/warnings.ts";
import { periodMs, Scene } from "./scene.ts";

const limits = { maxMissingNodes: 3, maxMissingPercent: 10 };
const gone = { ready: "Unknown" } as const;
const held = "cloud_node_lifecycle_controller_held_deletions";

describe("the limit of missing nodes", () => {
  for (const [missing, all, want] of [
    [1, 1, false],
    [3, 3, false],
    [4, 4, true],
    [4, 39, true],
    [4, 40, false],
    [10, 100, false],
    [11, 100, true],
  ] as const)
    test(`${missing} of ${all}: ${want ? "yes" : "no"}`, () => expect(tooManyMissing(missing, all, limits)).toBe(want));

  test("is monotonic in the number of missing nodes", () => {
    fc.assert(
      fc.property(fc.nat({ max: 500 }), fc.nat({ max: 500 }), (missing, others) => {
        const all = missing + others + 1;
        return !tooManyMissing(missing, all, limits) || tooManyMissing(missing + 1, all, limits);
      }),
      { seed: 20260802, numRuns: 500 },
    );
  });
});

describe("too many nodes that are missing at once", () => {
  test("none is deleted; event, metric, log and /statusz report it, and the controller stays healthy", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 4; index++) scene.node(`node${index}`, gone, "missing");
    for (let index = 4; index < 8; index++) scene.node(`node${index}`, { ready: "True" });
    const { controller } = await scene.run();
    await scene.pass();
    await scene.pass();
    expect(scene.names()).toHaveLength(8);
    expect(scene.cluster.writes()).toEqual([]);

    const events = await eventually("the events", () => {
      const found = scene.cluster.events("DeletionHeld");
      return found.length === 4 && found;
    });
    expect(events.map(({ count }) => count)).toEqual([1, 1, 1, 1]);
    expect(events[0]).toMatchObject({ type: "Warning", involvedObject: { kind: "Node" } });
    expect(events[0]?.message).toContain("4 of 8 nodes are missing from the cloud");
    expect(events[0]?.message).toContain("--cloud-node-lifecycle-controller-max-missing-nodes");
    expect(await scene.cluster.metric(held)).toBe(4);
    expect(controller.warnings?.()).toEqual([
      {
        kind: "NodeDeletionsHeld",
        text: expect.stringMatching(
          /^deletions of nodes have been held since \d{4}-[\d:T.-]+Z: 4 of 8 nodes are missing from the cloud/u,
        ),
        since: expect.stringMatching(/^\d{4}-[\d:T.-]+Z$/u),
      },
    ]);
    expect("check" in controller).toBe(false);
    expect(
      scene.cluster.log.filter(
        (line) =>
          line.includes("4 of 8 nodes are missing") && line.includes("warn") && !line.includes("Event occurred"),
      ),
    ).toHaveLength(1);
  });

  test("the metric is 0 before the first pass of a generation", async () => {
    await using cluster = await TestCluster.start();
    const { context } = cluster.generation(lifecycle, { clock: manualClock() });
    const registry = new MetricsRegistry();
    const metrics = registry.generation();
    const guard = new DeletionGuard({ ...context, metrics }, { ...limits, deletionWindowSeconds: 3_600 });
    metrics.start();
    expect(guard.warnings).toEqual([]);
    expect((await registry.render()).body).toContain(`${held} 0`);
  });

  test("a pass without missing nodes does not report that deletions resume", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "True" });
    await scene.run();
    await scene.pass();
    expect(scene.cluster.log.filter((line) => line.includes("no longer held"))).toEqual([]);
  });

  test("a further loss is logged without repeating the events", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 4; index++) scene.node(`node${index}`, gone, "missing");
    scene.node("node4", gone);
    await scene.run();
    await scene.rest();
    scene.memory.machines.delete("node4");
    await scene.pass();
    const warned = (line: string): boolean =>
      line.includes("nodes are missing from the cloud") && !line.includes("Event occurred");
    await eventually("both are logged", () => {
      const lines = scene.cluster.log.filter((line) => warned(line) && line.includes('"level":"warn"'));
      return lines.length === 2;
    });
    await eventually("the events", () => scene.cluster.events("DeletionHeld").length === 4);
    expect(scene.cluster.events("DeletionHeld").map(({ count }) => count)).toEqual([1, 1, 1, 1]);
  });

  test("the cloud is still called, but not for fresh reads", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    await scene.run();
    await scene.pass();
    await scene.pass();
    const reads = scene.memory.callsOf("instanceExists").map(({ args: [, options] }) => options);
    expect(reads.length).toBeGreaterThanOrEqual(10);
    for (const options of reads) expect(options).not.toHaveProperty("read");
  });

  test("deletions resume once the instances are back, and what is then missing is deleted", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    const { controller } = await scene.run();
    await scene.rest();
    expect(scene.names()).toHaveLength(5);
    for (let index = 0; index < 4; index++) scene.memory.machines.set(`node${index}`, {});
    await scene.pass();
    expect(scene.names()).toEqual(["node0", "node1", "node2", "node3"]);
    expect(await scene.cluster.metric(held)).toBe(0);
    expect(warningLines(controller)).toEqual([]);
  });

  test("shutdown taints are still added", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    scene.node("down", gone, "shut down");
    await scene.run();
    await scene.rest();
    expect(scene.cluster.writes().map(({ method, path }) => `${method} ${path}`)).toEqual(["PATCH /api/v1/nodes/down"]);
  });

  test("nodes in their grace period are not counted", async () => {
    await using scene = await Scene.open({ ageSeconds: 30 });
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    const { controller } = await scene.run();
    await scene.pass();
    expect(warningLines(controller)).toEqual([]);
  });

  test("options raise the limits", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    await scene.run({ maxMissingPercent: 100 });
    await scene.rest();
    expect(scene.names()).toEqual([]);
  });
});

/** Twelve passes of the monitor are a minute. */
async function passes(scene: Scene, count: number): Promise<void> {
  for (let pass = 0; pass < count; pass++) await scene.pass();
}
const fails = (scene: Scene, names: readonly string[]): void => {
  for (const name of names) scene.becomes(name, "Unknown");
};

describe("a cloud that loses its instances a few at a time", () => {
  test("loses no more nodes than one that loses them at once", async () => {
    await using scene = await Scene.open();
    const names = Array.from({ length: 30 }, (_, index) => `node${index}`);
    for (const name of names) scene.node(name, { ready: "True" }, "missing");
    const { controller } = await scene.run();
    for (let index = 0; index < names.length; index += 3) {
      fails(scene, names.slice(index, index + 3));
      await passes(scene, 2);
    }
    expect(scene.names()).toHaveLength(27);
    expect(warningLines(controller)).toEqual([
      expect.stringContaining("30 of 30 nodes are missing from the cloud, 3 of them deleted within 3600 s"),
    ]);
    expect(await scene.cluster.metric(held)).toBe(27);
  });

  test("gets a new allowance once the window has passed without a hold", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 6; index++) scene.node(`node${index}`, { ready: "True" }, "missing");
    await scene.run({ deletionWindowSeconds: 60 });
    fails(scene, ["node0", "node1", "node2"]);
    await passes(scene, 2);
    expect(scene.names()).toEqual(["node3", "node4", "node5"]);
    await passes(scene, 13);
    fails(scene, ["node3", "node4", "node5"]);
    await passes(scene, 2);
    expect(scene.names()).toEqual([]);
  });

  test("gets none while deletions are held, however long that is", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 6; index++) scene.node(`node${index}`, { ready: "True" }, "missing");
    await scene.run({ deletionWindowSeconds: 10 });
    fails(scene, ["node0", "node1", "node2"]);
    await passes(scene, 1);
    fails(scene, ["node3", "node4"]);
    await passes(scene, 8);
    expect(scene.names()).toEqual(["node3", "node4", "node5"]);
  });

  test("is not counted for nodes that the cluster autoscaler removes", async () => {
    await using scene = await Scene.open();
    const removed = [{ key: taints.toBeDeletedByAutoscaler, effect: "NoSchedule" }];
    for (let index = 0; index < 5; index++) scene.node(`removed${index}`, { ...gone, taints: removed }, "missing");
    for (let index = 0; index < 4; index++) scene.node(`lost${index}`, gone, "missing");
    await scene.run();
    await passes(scene, 2);
    expect(scene.names()).toEqual(["lost0", "lost1", "lost2", "lost3"]);
  });
});

test("no node is deleted while most answers of a pass are outstanding, whatever the cloud answered before", async () => {
  await using scene = await Scene.open();
  for (let index = 0; index < 30; index++) scene.node(`node${index}`, gone);
  const { controller } = await scene.run();
  await scene.pass();
  scene.memory.machines.clear();
  const slow = Promise.withResolvers<void>();
  scene.memory.intercept("instanceExists", async ({ target, proceed }) => {
    if (!["node0", "node1", "node2"].includes(target)) await slow.promise;
    return await proceed();
  });
  const calls = (): number => scene.memory.calls.filter(({ ended }) => !ended).length;
  await scene.clock.advance(periodMs);
  await eventually("all but three answers are outstanding", () => calls() === 27);
  for (let step = 0; step < 4; step++) {
    await scene.clock.advance(periodMs);
    await Bun.sleep(20);
  }
  expect(scene.names()).toHaveLength(30);
  slow.resolve();
  await scene.rest();
  await scene.pass();
  expect(scene.names()).toHaveLength(30);
  expect(warningLines(controller)).toEqual([expect.stringContaining("30 of 30 nodes are missing")]);
});

test("no node is deleted before the cloud has answered about as many as would hold the deletions", async () => {
  await using scene = await Scene.open();
  for (let index = 0; index < 8; index++) scene.node(`lost${index}`, gone, "missing");
  for (let index = 8; index < 40; index++) scene.node(`node${index}`, { ready: "True" });
  scene.memory.intercept("instanceExists", async ({ signal, proceed }) => {
    await scene.clock.sleep(0.98 * periodMs, signal);
    return await proceed();
  });
  const { controller } = await scene.run({ concurrentChecks: 4 });
  for (let step = 0; step < 40; step++) {
    await scene.clock.advance(periodMs / 4);
    await Bun.sleep(2);
  }
  expect(scene.names()).toHaveLength(40);
  const reads = scene.memory.callsOf("instanceExists").map(({ args: [, options = {}] }) => options);
  for (const options of reads) expect(options).not.toHaveProperty("read");
  expect(warningLines(controller)).toEqual([expect.stringContaining("8 of 40 nodes are missing")]);
});

describe("the deletions that count toward the limits", () => {
  const nodesNamed = (prefix: string, count: number, spec: Node["spec"] = {}): readonly Node[] =>
    Array.from({ length: count }, (_, index) => ({
      metadata: { name: `${prefix}${index}`, uid: `${prefix}${index}` },
      spec,
    }));
  const scaleDown = { taints: [{ key: taints.toBeDeletedByAutoscaler, effect: "NoSchedule" }] };
  const ready = nodesNamed("ready", 20);

  async function open() {
    const cluster = await TestCluster.start();
    const { context } = cluster.generation(lifecycle, { clock: manualClock() });
    const reported: string[] = [];
    const events: typeof context.events = { event: ({ metadata }) => void reported.push(metadata?.name ?? "") };
    const guard = new DeletionGuard({ ...context, events }, { ...limits, deletionWindowSeconds: 3_600 });
    const release = (missing: readonly Node[]): readonly Node[] =>
      guard.release({ missing, unanswered: [], all: [...ready, ...missing] });
    return { guard, release, reported, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
  }

  test("leave out those of nodes that the cluster autoscaler removes", async () => {
    await using opened = await open();
    const removed = nodesNamed("removed", 10, scaleDown);
    expect(opened.release(removed)).toEqual(removed);
    for (const node of removed) await opened.guard.track(node, () => Promise.resolve(true));
    const lost = nodesNamed("lost", 3);
    expect(opened.release(lost)).toEqual(lost);
  });

  test("include those in flight", async () => {
    await using opened = await open();
    const first = nodesNamed("first", 3);
    expect(opened.release(first)).toEqual(first);
    const answer = Promise.withResolvers<boolean>();
    const deletions = first.map((node) => opened.guard.track(node, () => answer.promise));
    expect(opened.release(nodesNamed("second", 1))).toEqual([]);
    answer.resolve(true);
    await Promise.all(deletions);
  });

  test("are reported by events about the first ten nodes by name", async () => {
    await using opened = await open();
    const lost = nodesNamed("lost", 10).concat(nodesNamed("gone", 2));
    expect(opened.release(lost)).toEqual([]);
    const expected = nodesNamed("gone", 2).concat(nodesNamed("lost", 8)).map(keyOf);
    expect(opened.reported).toEqual(expected);
  });

  test("are held no longer once all instances are back", async () => {
    await using opened = await open();
    expect(opened.release(nodesNamed("lost", 10))).toEqual([]);
    expect(opened.guard.warnings).toHaveLength(1);
    expect(opened.release([])).toEqual([]);
    expect(opened.guard.warnings).toEqual([]);
  });

  test("leave out those that failed", async () => {
    await using opened = await open();
    const first = nodesNamed("first", 3);
    for (const node of first) await opened.guard.track(node, () => Promise.resolve(false));
    expect(opened.release(first)).toEqual(first);
  });
});
