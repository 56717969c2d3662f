import { describe, expect, test } from "bun:test";

import { kinds, type Taint, taints } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { aNode, type NodeFacts, Scene } from "./scene.ts";

const shutdown: Taint = { key: taints.shutdown, effect: "NoSchedule" };
const other: Taint = { key: "node.kubernetes.io/not-ready", effect: "NoSchedule" };

interface Row {
  readonly name: string;
  readonly node: NodeFacts;
  readonly machine: "running" | "shut down" | "missing";
  readonly shutdownFails?: boolean;
  readonly want: "tainted" | "kept" | "deleted";
}

const rows: readonly Row[] = [
  {
    name: "node is not ready and was shutdown, but exists",
    node: { ready: "False", providerID: "memory://node0" },
    machine: "shut down",
    want: "tainted",
  },
  {
    name: "node with empty spec providerID is not ready and was shutdown, but exists",
    node: { ready: "False" },
    machine: "shut down",
    want: "tainted",
  },
  {
    name: "node with non-existing providerID (missing in cloud provider) gets deleted",
    node: { ready: "False" },
    machine: "missing",
    want: "deleted",
  },
  {
    name: "node is not ready, but there is error checking if node is shutdown",
    node: { ready: "False", providerID: "memory://node0" },
    machine: "missing",
    shutdownFails: true,
    want: "deleted",
  },
  {
    name: "node is not ready and is not shutdown",
    node: { ready: "False", providerID: "memory://node0" },
    machine: "missing",
    want: "deleted",
  },
  {
    name: "node is ready but provider says it's shutdown (maybe a bug by provider)",
    node: { ready: "True", providerID: "memory://node0" },
    machine: "shut down",
    want: "kept",
  },
  {
    name: "node is shutdown but provider says it does not exist",
    node: { ready: "Unknown", providerID: "memory://node0" },
    machine: "missing",
    want: "deleted",
  },
  {
    name: "node exists, and the cloud cannot report whether it is shut down: it is left alone",
    node: { ready: "False", providerID: "memory://node0" },
    machine: "running",
    shutdownFails: true,
    want: "kept",
  },
  {
    name: "node exists and is not shut down: it is left alone",
    node: { ready: "False", providerID: "memory://node0" },
    machine: "running",
    want: "kept",
  },
];

describe("nodes whose instance is shut down", () => {
  for (const { name, node, machine, shutdownFails, want } of rows)
    test(name, async () => {
      await using scene = await Scene.open();
      const before = scene.node("node0", node, machine);
      if (shutdownFails) scene.memory.fail("instanceShutdown", new Error("the cloud is out of order"));
      await scene.run();
      await scene.pass();
      const after = scene.get("node0");
      if (want === "tainted") expect(after?.spec?.taints).toEqual([shutdown]);
      else expect(after).toEqual(want === "deleted" ? undefined : before);
      if (machine === "missing") expect(scene.memory.callsOf("instanceShutdown")).toEqual([]);
      for (const { involvedObject } of scene.cluster.events()) expect(involvedObject.apiVersion).toBe("v1");
    });
});

describe("the shutdown taint", () => {
  test("is added to the others in one patch guarded by the resource version", async () => {
    await using scene = await Scene.open();
    const before = scene.node("node0", { ready: "False", taints: [other] }, "shut down");
    await scene.run();
    await scene.rest();
    expect(scene.cluster.writes()).toMatchObject([
      {
        method: "PATCH",
        path: "/api/v1/nodes/node0",
        contentType: "application/strategic-merge-patch+json",
        body: {
          metadata: { resourceVersion: before.metadata?.resourceVersion },
          spec: { taints: [other, shutdown] },
        },
      },
    ]);
  });

  test("is neither written nor checked again while present", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "False" }, "shut down");
    await scene.run();
    await eventually("the cache has the taint", async () => {
      await scene.pass();
      return scene.memory.callsOf("instanceExists").length > scene.memory.callsOf("instanceShutdown").length;
    });
    const sent = scene.cluster.sent().length;
    await scene.pass();
    await scene.pass();
    expect(scene.cluster.sent()).toHaveLength(sent);
    expect(scene.cluster.writes()).toHaveLength(1);
  });

  test("is added only after a fresh read of the cloud", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "False" }, "shut down");
    scene.memory.intercept("instanceShutdown", async ({ args: [, options] }) => options?.read !== "fresh");
    await scene.run();
    await scene.pass();
    expect(scene.memory.callsOf("instanceShutdown").length).toBeGreaterThanOrEqual(2);
    expect(scene.cluster.writes()).toEqual([]);
  });

  test("stays while the node is not ready, even when its instance runs again", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "False", taints: [shutdown] });
    await scene.run();
    await scene.pass();
    expect(scene.get("node0")?.spec?.taints).toEqual([shutdown]);
    expect(scene.cluster.sent()).toEqual([]);
  });

  test("is removed when the node is ready; removing the last taint writes null", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "True", taints: [shutdown] });
    scene.node("node1", { ready: "True", taints: [shutdown, other] });
    await scene.run();
    await scene.rest();
    // Two nodes are written side by side.
    const bodies = scene.cluster.writes().map(({ path, body }) => [path, body] as const);
    expect(bodies).toHaveLength(2);
    expect(Object.fromEntries(bodies)).toMatchObject({
      "/api/v1/nodes/node0": { spec: { taints: null } },
      "/api/v1/nodes/node1": { spec: { taints: [other] } },
    });
    expect(scene.memory.calls).toEqual([]);
  });

  test("the shutdown taint of another effect is kept", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "True", taints: [{ key: taints.shutdown, effect: "NoExecute" }] });
    await scene.run();
    await scene.pass();
    expect(scene.cluster.sent()).toEqual([]);
  });

  test("keeps a concurrent change of the other taints", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "False" }, "shut down");
    scene.cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 409 } });
    scene.memory.intercept("instanceShutdown", async ({ proceed }) => {
      scene.cluster.api.update(kinds.Node, { name: "node0" }, (node) => ({
        ...node,
        spec: { ...node.spec, taints: [other] },
      }));
      return await proceed();
    });
    await scene.run();
    await eventually("the node is tainted", async () => {
      await scene.clock.advance(200);
      return scene.cluster.sent({ method: "PATCH", status: 200 }).length === 1;
    });
    expect(scene.get("node0")?.spec?.taints).toEqual([other, shutdown]);
    expect(scene.cluster.sent().map(({ method, status, query }) => [method, status, query.resourceVersion])).toEqual([
      ["GET", 200, "0"],
      ["PATCH", 409, undefined],
      ["GET", 200, undefined],
      ["PATCH", 200, undefined],
    ]);
  });

  test("is not added to a recreated node", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "False" }, "shut down");
    scene.memory.intercept("instanceShutdown", async ({ args: [, options], proceed }) => {
      if (options?.read === "fresh") {
        scene.cluster.api.watches.pause();
        await scene.cluster.admin.delete(kinds.Node, { name: "node0" });
        await scene.cluster.admin.create(kinds.Node, aNode("node0", { ready: "True" }));
      }
      return await proceed();
    });
    await scene.run();
    await scene.rest();
    expect(scene.cluster.writes()).toEqual([]);
  });

  test("is not added to a node that has become ready while the cloud was asked about its instance", async () => {
    await using scene = await Scene.open();
    scene.node("node0", { ready: "Unknown" }, "shut down");
    scene.memory.intercept("instanceShutdown", async ({ args: [, options], proceed }) => {
      const answer = await proceed();
      if (options?.read === "fresh") scene.becomesReady("node0");
      return answer;
    });
    await scene.run();
    await scene.rest();
    expect(scene.cluster.writes()).toEqual([]);
  });
});
