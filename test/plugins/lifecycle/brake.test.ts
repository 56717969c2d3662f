import { describe, expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { tooManyMissing } from "../../../plugins/lifecycle/brake.ts";
import { Scene } from "./scene.ts";

const limits = { maxMissingNodes: 3, maxMissingPercent: 10 };
const gone = { ready: "Unknown" } as const;
const held = "cloud_node_lifecycle_controller_held_deletions";

describe("too many are missing", () => {
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

  test("never with one fewer where it was not with one more", () => {
    fc.assert(
      fc.property(fc.nat({ max: 500 }), fc.nat({ max: 500 }), (missing, others) => {
        const all = missing + others + 1;
        return !tooManyMissing(missing, all, limits) || tooManyMissing(missing + 1, all, limits);
      }),
      { seed: 20260802, numRuns: 500 },
    );
  });
});

describe("when too many nodes are missing at once", () => {
  test("none is deleted, and event, metric, log and health check say so", async () => {
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
    expect(events[0]?.message).toContain("4 of 8 nodes are missing from the cloud at once");
    expect(events[0]?.message).toContain("--cloud-node-lifecycle-controller-max-missing-nodes");
    expect(await scene.cluster.metric(held)).toBe(4);
    expect(() => controller.check?.()).toThrow("4 of 8 nodes are missing from the cloud at once");
    expect(
      scene.cluster.log.filter((line) => line.includes("4 of 8 nodes are missing") && line.includes("warn")),
    ).toHaveLength(1);
  });

  test("a further loss is logged, and no event is repeated", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 4; index++) scene.node(`node${index}`, gone, "missing");
    scene.node("node4", gone);
    await scene.run();
    await scene.rest();
    scene.memory.machines.delete("node4");
    await scene.pass();
    const warned = (line: string): boolean => line.includes("nodes are missing from the cloud at once");
    await eventually("the log tells of both", () => {
      const lines = scene.cluster.log.filter((line) => warned(line) && line.includes('"level":"warn"'));
      return lines.length === 2;
    });
    await eventually("the events", () => scene.cluster.events("DeletionHeld").length === 4);
    expect(scene.cluster.events("DeletionHeld").map(({ count }) => count)).toEqual([1, 1, 1, 1]);
  });

  test("the cloud is asked on, but not past its caches", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    await scene.run();
    await scene.pass();
    await scene.pass();
    const reads = scene.memory.callsOf("instanceExists").map(({ args: [, options] }) => options);
    expect(reads.length).toBeGreaterThanOrEqual(10);
    for (const options of reads) expect(options).not.toHaveProperty("read");
  });

  test("it is let go once the machines are back, and what is then missing is deleted", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    const { controller } = await scene.run();
    await scene.rest();
    expect(scene.names()).toHaveLength(5);
    for (let index = 0; index < 4; index++) scene.memory.machines.set(`node${index}`, {});
    await scene.pass();
    expect(scene.names()).toEqual(["node0", "node1", "node2", "node3"]);
    expect(await scene.cluster.metric(held)).toBe(0);
    expect(() => controller.check?.()).not.toThrow();
  });

  test("shutdown taints are still given", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    scene.node("down", gone, "shut down");
    await scene.run();
    await scene.rest();
    expect(scene.cluster.writes().map(({ method, path }) => `${method} ${path}`)).toEqual(["PATCH /api/v1/nodes/down"]);
  });

  test("young nodes do not count", async () => {
    await using scene = await Scene.open({ ageSeconds: 30 });
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    const { controller } = await scene.run();
    await scene.pass();
    expect(() => controller.check?.()).not.toThrow();
  });

  test("more may go when the options say so", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 5; index++) scene.node(`node${index}`, gone, "missing");
    await scene.run({ maxMissingPercent: 100 });
    await scene.rest();
    expect(scene.names()).toEqual([]);
  });
});
