import { describe, expect, test } from "bun:test";

import { kinds, readyStatus, type Taint, taints } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { isInGrace } from "../../../plugins/lifecycle/deletion.ts";
import { Scene } from "./scene.ts";

const uninitialized: Taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };
const gone = { ready: "Unknown" } as const;

const reasons = (scene: Scene): readonly (string | undefined)[] => scene.cluster.events().map(({ reason }) => reason);

describe("a node is deleted", () => {
  test("a node is deleted after an event, with its UID and version as preconditions", async () => {
    await using scene = await Scene.open();
    const node = scene.node("node0", gone, "missing");
    await scene.run();
    await scene.rest();
    const { uid, resourceVersion } = node.metadata ?? {};
    expect(scene.cluster.writes()).toMatchObject([
      { method: "DELETE", path: "/api/v1/nodes/node0", body: { preconditions: { uid, resourceVersion } } },
    ]);
    const event = await eventually("the event", () => scene.cluster.event("DeletingNode"));
    expect(event).toMatchObject({
      type: "Normal",
      message: "Deleting node node0 because it does not exist in the cloud provider",
      source: { component: "cloud-node-lifecycle-controller" },
      involvedObject: { apiVersion: "v1", kind: "Node", name: "node0", uid },
    });
  });

  test("a node is deleted after two reads of the cloud, the second one fresh", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone, "missing");
    await scene.run();
    await scene.rest();
    const reads = scene.memory.callsOf("instanceExists").map(({ args: [, options] }) => options);
    expect(reads).toMatchObject([{}, { read: "fresh" }]);
    expect(reads[0]).not.toHaveProperty("read");
    expect(scene.names()).toEqual([]);
  });

  test("a node is deleted in a later pass when the API server rejects the first request, with an event", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone, "missing");
    scene.cluster.api.faults.add({ match: { verb: "delete" }, effect: { status: 500, message: "not today" } });
    await scene.run();
    await scene.rest();
    expect(scene.names()).toEqual(["node0"]);
    const event = await eventually("the event", () => scene.cluster.event("DeletingNodeFailed"));
    expect(event).toMatchObject({ type: "Warning", message: "Failed deleting node node0: not today" });
    await scene.pass();
    expect(scene.names()).toEqual([]);
  });

  test("only once when another client deletes it first", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone, "missing");
    scene.memory.intercept("instanceExists", async ({ args: [, options] }) => {
      if (options?.read === "fresh" && scene.get("node0") !== undefined) {
        scene.cluster.api.watches.pause();
        scene.cluster.api.delete(kinds.Node, { name: "node0" });
      }
      return false;
    });
    await scene.run();
    await scene.pass();
    expect(scene.cluster.writes().map(({ status }) => status)).toEqual([404]);
    await eventually("the event", () => scene.cluster.event("DeletingNode"));
    expect(reasons(scene)).not.toContain("DeletingNodeFailed");
  });
});

describe("a node is kept", () => {
  test("a node is kept when a fresh read of the cloud finds its instance", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone);
    scene.memory.intercept("instanceExists", async ({ args: [, options] }) => options?.read === "fresh");
    await scene.run();
    await scene.pass();
    expect(scene.names()).toEqual(["node0"]);
    expect(scene.cluster.writes()).toEqual([]);
    expect(reasons(scene)).toEqual([]);
  });

  test("a node is kept when a fresh read of the cloud fails", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone, "missing");
    scene.memory.intercept("instanceExists", async ({ args: [, options], proceed }) => {
      if (options?.read === "fresh") throw new Error("the cloud is out of order");
      return await proceed();
    });
    await scene.run();
    await scene.pass();
    expect(scene.cluster.writes()).toEqual([]);
  });

  test("a node is kept when the first read of the cloud fails: an error is not an absence", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone, "missing");
    scene.memory.intercept("instanceExists", async ({ args: [, options], proceed }) => {
      if (options?.read !== "fresh") throw new Error("the cloud is out of order");
      return await proceed();
    });
    await scene.run();
    await scene.pass();
    expect(scene.cluster.writes()).toEqual([]);
  });

  test("a node is kept when it becomes ready before its deletion", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone, "missing");
    scene.node("node1", gone, "missing");
    const hold = scene.memory.hold("instanceExists");
    const running = await scene.run();
    await eventually("the cloud is called", () => hold.waiting === 2);
    scene.becomesReady("node0");
    const { store } = running.generation.context.informers.of(kinds.Node);
    await eventually("the cache has it ready", () => readyStatus(store.get("node0") ?? {}) === "True");
    hold.release();
    await scene.rest();
    expect(scene.cluster.writes().map(({ path }) => path)).toEqual(["/api/v1/nodes/node1"]);
    const reads = scene.memory.callsOf("instanceExists").filter(({ target }) => target === "node0");
    expect(reads).toHaveLength(1);
  });

  for (const [promise, change] of [
    ["when it was recreated under its name", "recreated"],
    ["when it became ready during its check", "ready"],
  ] as const)
    test(promise, async () => {
      await using scene = await Scene.open();
      const first = scene.node("node0", gone, "missing");
      const hold = scene.memory.hold("instanceExists");
      await scene.run();
      await eventually("the cloud is called", () => hold.waiting === 1);
      scene.memory.intercept("instanceExists", async ({ args: [, options], proceed }) => {
        if (options?.read === "fresh") {
          scene.cluster.api.watches.pause();
          if (change === "recreated") scene.cluster.api.delete(kinds.Node, { name: "node0" });
          if (change === "recreated") scene.node("node0", gone, "missing");
          else scene.becomesReady("node0");
        }
        return await proceed();
      });
      hold.release();
      await scene.rest();
      expect(scene.cluster.writes().map(({ method, status }) => [method, status])).toEqual([["DELETE", 409]]);
      const kept = scene.get("node0");
      expect(kept?.metadata?.uid === first.metadata?.uid).toBe(change === "ready");
      expect(reasons(scene)).not.toContain("DeletingNodeFailed");
    });

  test("a node is kept when the controller stops during a read of the cloud, whatever its result", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone, "missing");
    const reading = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    scene.memory.intercept("instanceExists", async ({ args: [, options] }) => {
      if (options?.read === "fresh") {
        reading.resolve();
        await answer.promise;
      }
      return false;
    });
    const running = await scene.run();
    await reading.promise;
    const stopped = running.stop();
    answer.resolve();
    await stopped;
    expect(scene.cluster.writes()).toEqual([]);
    expect(reasons(scene)).not.toContain("DeletingNode");
  });

  test("a node is kept when the controller stops before its deletion, which is then not a failure", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone, "missing");
    scene.cluster.api.faults.add({ match: { verb: "delete" }, effect: { status: 500 } });
    scene.cluster.api.faults.latency(100);
    const running = await scene.run();
    await eventually("the deletion is sent", () => scene.cluster.sent({ method: "DELETE" }).length > 0);
    await running.stop();
    expect(reasons(scene)).not.toContain("DeletingNodeFailed");
    expect(scene.cluster.log.filter((line) => line.includes("Unable to delete node"))).toEqual([]);
  });

  test("a node is kept after a fresh read has found its instance, which is repeated only when the cloud reports it missing again", async () => {
    await using scene = await Scene.open();
    scene.node("node0", gone);
    const reads: string[] = [];
    scene.memory.intercept("instanceExists", async ({ args: [, options] }) => {
      reads.push(options?.read ?? "cached");
      return options?.read === "fresh";
    });
    await scene.run();
    await scene.pass();
    await scene.pass();
    expect(reads).toEqual(["cached", "fresh", "cached", "fresh", "cached", "fresh"]);
  });

  test("a node is kept when it was ready meanwhile: an earlier answer of the cloud is forgotten", async () => {
    await using scene = await Scene.open({ ageSeconds: 30 });
    scene.node("node0", gone, "missing");
    const reads: string[] = [];
    scene.memory.intercept("instanceExists", async ({ args: [, options], proceed }) => {
      reads.push(options?.read ?? "cached");
      return proceed();
    });
    const running = await scene.run();
    await scene.rest();
    const { store } = running.generation.context.informers.of(kinds.Node);
    const observed = (ready: string): Promise<unknown> =>
      eventually(`the cache has it ${ready}`, () => readyStatus(store.get("node0") ?? {}) === ready);
    scene.becomes("node0", "True");
    await observed("True");
    await scene.clock.advance(60_000);
    await scene.rest();
    scene.memory.machines.set("node0", {});
    scene.becomes("node0", "Unknown");
    await observed("Unknown");
    await scene.pass();
    expect(new Set(reads)).toEqual(new Set(["cached"]));
  });

  test("a node is kept without a creation time, as if it had just been created", () => {
    const ages = { gracePeriodSeconds: 60, uninitializedGracePeriodSeconds: 300 };
    expect(isInGrace({ metadata: { name: "node0" } }, Date.now(), ages)).toBe(true);
    expect(isInGrace({ metadata: { name: "node0" } }, Date.now(), { ...ages, gracePeriodSeconds: 0 })).toBe(false);
  });

  test("a node is kept before its initialization for the longer of the two grace periods", () => {
    const node = { metadata: { creationTimestamp: new Date(0).toISOString() }, spec: { taints: [uninitialized] } };
    for (const [gracePeriodSeconds, uninitializedGracePeriodSeconds] of [
      [60, 300],
      [300, 60],
    ] as const) {
      const ages = { gracePeriodSeconds, uninitializedGracePeriodSeconds };
      expect([299_000, 300_000].map((nowMs) => isInGrace(node, nowMs, ages))).toEqual([true, false]);
    }
  });

  test("a node is kept for the grace period and no longer by a process whose wall clock is an hour behind", async () => {
    await using scene = await Scene.open({ ageSeconds: -3_600 });
    scene.node("node0", gone, "missing");
    await scene.run();
    await scene.rest();
    await scene.clock.advance(50_000);
    await scene.rest();
    expect(scene.names()).toEqual(["node0"]);
    await scene.clock.advance(20_000);
    await scene.rest();
    expect(scene.names()).toEqual([]);
  });

  test("a node is kept for the whole grace period again after it was ready, where the wall clock is an hour behind", async () => {
    await using scene = await Scene.open({ ageSeconds: -3_600 });
    scene.node("node0", gone, "missing");
    const { generation } = await scene.run();
    await scene.rest();
    await scene.clock.advance(50_000);
    const { store } = generation.context.informers.of(kinds.Node);
    for (const ready of ["True", "Unknown"] as const) {
      scene.becomes("node0", ready);
      await eventually(`the cache has it ${ready}`, () => readyStatus(store.get("node0") ?? {}) === ready);
      await scene.clock.advance(10_000);
      await scene.rest();
    }
    await scene.clock.advance(10_000);
    await scene.rest();
    expect(scene.names()).toEqual(["node0"]);
  });

  test("a node is kept while it is younger than the grace period", async () => {
    await using scene = await Scene.open({ ageSeconds: 30 });
    scene.node("node0", gone, "missing");
    await scene.run();
    await scene.pass();
    expect(scene.names()).toEqual(["node0"]);
    expect(scene.memory.callsOf("instanceExists").length).toBeGreaterThan(1);
    await scene.clock.advance(60_000);
    await scene.pass();
    expect(scene.names()).toEqual([]);
  });

  test("a node is kept for longer while it has the uninitialized taint", async () => {
    await using scene = await Scene.open({ ageSeconds: 120 });
    scene.node("waiting", { ...gone, taints: [uninitialized] }, "missing");
    scene.node("initialized", gone, "missing");
    await scene.run();
    await scene.pass();
    expect(scene.names()).toEqual(["waiting"]);
    await scene.clock.advance(240_000);
    await scene.pass();
    expect(scene.names()).toEqual([]);
  });

  test("a node is kept for as long as the options configure", async () => {
    await using scene = await Scene.open({ ageSeconds: 10 });
    scene.node("node0", { ...gone, taints: [uninitialized] }, "missing");
    await scene.run({ gracePeriodSeconds: 0, uninitializedGracePeriodSeconds: "5" });
    await scene.rest();
    expect(scene.names()).toEqual([]);
  });
});
