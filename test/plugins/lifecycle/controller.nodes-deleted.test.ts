import { describe, expect, test } from "bun:test";

import { type ControllerPlugin, type Informers, kinds } from "cloud-controller-host/sdk";
import { type MemoryCloud } from "cloud-controller-host/sdk/testing";

import lifecycle from "../../../plugins/lifecycle/plugin.ts";
import { type NodeFacts, Scene } from "./scene.ts";

interface Row {
  readonly name: string;
  /** How upstream marks the row for the newer interface, where not `[instancev2]`. */
  readonly mark?: string;
  readonly ready: NodeFacts["ready"];
  readonly exists: boolean | "error";
  readonly deleted: boolean;
}

const rows: readonly Row[] = [
  {
    name: "node is not ready and does not exist",
    mark: "[instance2]",
    ready: "False",
    exists: false,
    deleted: true,
  },
  { name: "node is not ready and provider returns err", ready: "False", exists: "error", deleted: false },
  { name: "node is not ready but still exists", ready: "False", exists: true, deleted: false },
  { name: "node ready condition is unknown, node doesn't exist", ready: "Unknown", exists: false, deleted: true },
  { name: "node ready condition is unknown, node exists", ready: "Unknown", exists: true, deleted: false },
  {
    name: "node is ready, but provider said it is deleted (maybe a bug in provider)",
    ready: "True",
    exists: false,
    deleted: false,
  },
  { name: "node has no ready condition, node doesn't exist", ready: undefined, exists: false, deleted: true },
];

const failing = (memory: MemoryCloud, exists: Row["exists"]): void => {
  if (exists === "error") memory.fail("instanceExists", new Error("the cloud is out of order"));
};

describe("nodes whose instance is deleted", () => {
  for (const { name, mark = "[instancev2]", ready, exists, deleted } of rows)
    for (const prefix of ["", `${mark} `])
      test(`${prefix}${name}`, async () => {
        await using scene = await Scene.open();
        const before = scene.node("node0", { ready }, exists === false ? "missing" : "running");
        failing(scene.memory, exists);
        await scene.run();
        await scene.pass();
        expect(scene.get("node0")).toEqual(deleted ? undefined : before);
        expect(scene.cluster.writes().map(({ method }) => method)).toEqual(deleted ? ["DELETE"] : []);
        if (ready === "True") expect(scene.memory.calls).toEqual([]);
      });
});

/** The controller with informers whose stores have every object, and of which no handler has heard yet. */
const beforeDeliveries: ControllerPlugin = {
  ...lifecycle,
  bind: (own) => {
    const bound = lifecycle.bind(own);
    if (!bound.ok) return bound;
    const value: typeof bound.value = (config, cloud) => (context) => {
      const of: Informers["of"] = (kind) => {
        const { store } = context.informers.of(kind);
        return { store, hasSynced: () => true, handle: () => ({ remove: () => undefined }) };
      };
      return bound.value(config, cloud)({ ...context, informers: { of } });
    };
    return { ...bound, value };
  },
};

test("a node that was gone before the controller started is deleted before any change of it is delivered", async () => {
  await using scene = await Scene.open();
  scene.node("node0", { ready: "Unknown" }, "missing");
  await scene.run({}, beforeDeliveries);
  await scene.rest();
  expect(scene.names()).toEqual([]);
});

test("nodes that are ready count among all nodes of which too many may be missing", async () => {
  await using scene = await Scene.open();
  const ready = Array.from({ length: 7 }, (_, index) => `ready-${index}`);
  for (const name of ready) scene.node(name, { ready: "True" });
  for (const name of ["gone-0", "gone-1", "gone-2"]) scene.node(name, { ready: "Unknown" }, "missing");
  await scene.run({ maxMissingNodes: 2, maxMissingPercent: 50 });
  await scene.pass();
  expect(scene.names().toSorted()).toEqual(ready);
});

test("a node whose instance the cloud's caches still have is deleted once it has been unready for 20 s", async () => {
  await using scene = await Scene.open();
  scene.node("node0", { ready: "Unknown" });
  scene.memory.intercept("instanceExists", async ({ args: [, options], proceed }) =>
    options?.read === "fresh" ? await proceed() : true,
  );
  await scene.run();
  await scene.rest();
  scene.memory.machines.clear();
  for (let pass = 0; pass < 3; pass++) await scene.pass();
  expect(scene.names()).toEqual(["node0"]);
  await scene.pass();
  expect(scene.names()).toEqual([]);
});

const freshReads = ({ memory }: Scene): number =>
  memory.callsOf("instanceExists").filter(({ args }) => Bun.deepMatch({ read: "fresh" }, args[1])).length;

test("an unready node that was ready in between is looked up past the caches 20 s after that", async () => {
  await using scene = await Scene.open();
  scene.node("node0", { ready: "Unknown" });
  await scene.run();
  for (let pass = 0; pass < 3; pass++) await scene.pass();
  scene.becomesReady("node0");
  await scene.pass();
  scene.becomes("node0", "Unknown");
  for (let pass = 0; pass < 3; pass++) await scene.pass();
  expect(freshReads(scene)).toBe(0);
  for (let pass = 0; pass < 2; pass++) await scene.pass();
  expect(freshReads(scene)).toBe(1);
});

test("the instances of many nodes that become unready together are looked up past the caches 16 per pass", async () => {
  await using scene = await Scene.open();
  for (let index = 0; index < 40; index++) scene.node(`node${index}`, { ready: "Unknown" });
  await scene.run();
  const after: number[] = [];
  for (let pass = 0; pass < 7; pass++) {
    await scene.pass();
    after.push(freshReads(scene));
  }
  expect(after).toEqual([0, 0, 0, 16, 32, 40, 40]);
});

test("a node that is being deleted is not deleted again, and does not hold the deletions of others", async () => {
  await using scene = await Scene.open();
  const { api } = scene.cluster;
  const terminating = Array.from({ length: 5 }, (_, index) => `terminating-${index}`);
  for (const name of terminating) {
    scene.node(name, { ready: "Unknown" }, "missing");
    const finalizers = ["example.com/termination"];
    api.update(kinds.Node, { name }, (node) => ({ ...node, metadata: { ...node.metadata, finalizers } }));
    api.delete(kinds.Node, { name });
  }
  scene.node("gone", { ready: "Unknown" }, "missing");
  const { controller } = await scene.run();
  for (let pass = 0; pass < 2; pass++) await scene.pass();
  expect(scene.names().toSorted()).toEqual(terminating);
  expect(scene.cluster.writes().map(({ method, path }) => [method, path])).toEqual([["DELETE", "/api/v1/nodes/gone"]]);
  expect(controller.warnings?.()).toEqual([]);
});
