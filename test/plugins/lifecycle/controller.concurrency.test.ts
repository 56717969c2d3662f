import { describe, expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { periodMs, Scene } from "./scene.ts";

const gone = { ready: "Unknown" } as const;

describe("the checks of one pass", () => {
  test("run concurrently, up to the option's limit", async () => {
    await using scene = await Scene.open();
    for (let index = 0; index < 10; index++) scene.node(`node${index}`, gone);
    const hold = scene.memory.hold("instanceExists");
    await scene.run({ concurrentChecks: 4 });
    await eventually("four calls are in flight", () => hold.waiting === 4);
    expect(scene.memory.callsOf("instanceExists")).toHaveLength(4);
    hold.release();
    await scene.rest();
    expect(scene.memory.callsOf("instanceExists")).toHaveLength(10);
  });

  test("a node whose check does not end delays no other, and is not checked twice at a time", async () => {
    await using scene = await Scene.open();
    scene.node("stuck", gone);
    scene.node("lost", gone, "missing");
    scene.node("down", gone, "shut down");
    const stuck = Promise.withResolvers<void>();
    scene.memory.intercept("instanceExists", async ({ target, signal, proceed }) => {
      if (target !== "stuck") return await proceed();
      signal?.addEventListener("abort", () => stuck.resolve(), { once: true });
      await stuck.promise;
      return await proceed();
    });
    const running = await scene.run();
    await eventually("the other nodes are dealt with", async () => {
      await scene.clock.advance(periodMs);
      return scene.cluster.sent({ status: 200 }).filter(({ method }) => method !== "GET").length === 2;
    });
    expect(scene.names()).toEqual(["down", "stuck"]);
    scene.node("late", gone, "missing");
    await eventually("a later pass deletes another node", async () => {
      await scene.clock.advance(periodMs);
      return !scene.names().includes("late");
    });
    const about = (): number =>
      scene.memory.callsOf("instanceExists").filter(({ target }) => target === "stuck").length;
    expect(about()).toBe(1);
    stuck.resolve();
    await eventually("the node is checked again", async () => {
      await scene.clock.advance(periodMs);
      return about() > 1;
    });
    await running.stop();
  });

  test("checks that have not ended count toward the limit", async () => {
    await using scene = await Scene.open();
    for (const name of ["a-stuck", "b-stuck", "node0", "node1", "node2", "node3"]) scene.node(name, gone);
    let inFlight = 0;
    let maxInFlight = 0;
    scene.memory.intercept("instanceExists", async ({ target, signal, proceed }) => {
      if (target.endsWith("-stuck")) {
        await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve(), { once: true }));
        return true;
      }
      maxInFlight = Math.max(maxInFlight, ++inFlight);
      await Bun.sleep(1);
      inFlight--;
      return await proceed();
    });
    await scene.run({ concurrentChecks: 3 });
    await eventually("the others are checked three times", async () => {
      await scene.clock.advance(periodMs);
      return scene.memory.callsOf("instanceExists").length >= 2 + 3 * 4;
    });
    expect(maxInFlight).toBe(1);
  });

  test("a node that keeps failing delays no other", async () => {
    await using scene = await Scene.open();
    scene.node("failing", gone);
    scene.node("lost", gone, "missing");
    scene.memory.fail("instanceExists", new Error("the cloud is out of order"), { target: "failing" });
    await scene.run({ concurrentChecks: 1 });
    await scene.pass();
    expect(scene.names()).toEqual(["failing"]);
  });

  test("a late answer is used in the next pass", async () => {
    await using scene = await Scene.open();
    scene.node("slow", gone, "missing");
    const slow = Promise.withResolvers<void>();
    const interception = scene.memory.intercept("instanceExists", async ({ proceed }) => {
      await slow.promise;
      return await proceed();
    });
    await scene.run();
    await eventually("the cloud is called", () => scene.memory.calls.length === 1);
    await scene.clock.advance(2 * periodMs);
    interception.remove();
    slow.resolve();
    await eventually("the node is deleted", async () => {
      await scene.clock.advance(periodMs);
      return scene.names().length === 0;
    });
  });

  test("a cloud that always takes longer than a period does not keep a missing node forever", async () => {
    await using scene = await Scene.open();
    scene.node("lost", gone, "missing");
    scene.memory.intercept("instanceExists", async ({ signal, proceed }) => {
      await scene.clock.sleep(1.5 * periodMs, signal);
      return await proceed();
    });
    await scene.run();
    for (let pass = 0; pass < 20 && scene.names().length > 0; pass++) {
      await scene.clock.advance(periodMs / 2);
      await Bun.sleep(5);
    }
    expect(scene.names()).toEqual([]);
  });

  test("all end before run() resolves", async () => {
    await using scene = await Scene.open();
    scene.node("slow", gone, "missing");
    const hold = scene.memory.hold("instanceExists", { stubborn: true });
    const running = await scene.run();
    await eventually("the cloud is called", () => hold.waiting === 1);
    await scene.clock.advance(3 * periodMs);
    let ended = false;
    const stopping = running.stop().then(() => (ended = true));
    await Bun.sleep(20);
    expect(ended).toBe(false);
    hold.release();
    await stopping;
    expect(scene.cluster.writes()).toEqual([]);
  });
});
