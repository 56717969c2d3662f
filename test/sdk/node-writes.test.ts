import { describe, expect, test } from "bun:test";

import {
  conditionPatch,
  type ConditionState,
  defineController,
  kinds,
  type Node,
  type NodeWriter,
  type Taint,
  taintsOf,
  taintsPatch,
  updateCondition,
  updateTaints,
} from "cloud-controller-host/sdk";

import { TestCluster } from "../kit/harness.ts";

const first: Taint = { key: "first", effect: "NoSchedule" };
const second: Taint = { key: "second", effect: "NoExecute" };
const quick = { now: () => Date.UTC(2026, 0, 2, 3, 4, 5, 678), monotonic: () => 0, sleep: () => Promise.resolve() };
const { signal } = new AbortController();

const writer = defineController({ name: "node-writer", construct: () => () => ({ run: () => Promise.resolve() }) });

/** A cluster with one node, and a client whose requests are recorded. */
async function openCluster(taints: readonly Taint[]) {
  const cluster = await TestCluster.start();
  const node = await cluster.admin.create(kinds.Node, { metadata: { name: "n" }, spec: { taints } });
  const { client } = cluster.generation(writer).context;
  return {
    cluster,
    node,
    context: { client, clock: quick },
    stored: () => cluster.admin.get(kinds.Node, { name: "n" }),
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

const add = (current: Node): readonly Taint[] => [...taintsOf(current), second];

describe("updating taints", () => {
  test("replaces the list in one patch guarded by the resourceVersion that it was read with", async () => {
    await using scene = await openCluster([first]);
    expect(await updateTaints(scene.context, scene.node, add, signal)).toBe(true);
    expect(scene.cluster.sent().map(({ method, query }) => [method, query.resourceVersion])).toEqual([
      ["GET", "0"],
      ["PATCH", undefined],
    ]);
    const { resourceVersion } = scene.node.metadata ?? {};
    expect(scene.cluster.writes()).toMatchObject([
      {
        contentType: "application/strategic-merge-patch+json",
        body: { metadata: { resourceVersion }, spec: { taints: [first, second] } },
      },
    ]);
  });

  test("writes null for an empty list, and the node has no taints afterwards", async () => {
    await using scene = await openCluster([first]);
    expect(await updateTaints(scene.context, scene.node, () => [], signal)).toBe(true);
    expect(scene.cluster.writes()).toMatchObject([{ body: { spec: { taints: null } } }]);
    expect(taintsOf(await scene.stored())).toEqual([]);
  });

  test("updating taints after a conflict reads with a quorum and keeps the taint that another writer added", async () => {
    await using scene = await openCluster([]);
    scene.cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 409 } });
    const change = (current: Node): readonly Taint[] => {
      if (scene.cluster.sent().length === 1)
        scene.cluster.api.update(kinds.Node, { name: "n" }, (node) => ({ ...node, spec: { taints: [first] } }));
      return add(current);
    };
    expect(await updateTaints(scene.context, scene.node, change, signal)).toBe(true);
    expect(scene.cluster.sent().map(({ method, status, query }) => [method, status, query.resourceVersion])).toEqual([
      ["GET", 200, "0"],
      ["PATCH", 409, undefined],
      ["GET", 200, undefined],
      ["PATCH", 200, undefined],
    ]);
    expect(taintsOf(await scene.stored())).toEqual([first, second]);
  });

  test("updating taints sees a change that the watch has shown, although another API server's cache has not", async () => {
    await using scene = await openCluster([]);
    const { client } = scene.context;
    const needing = await scene.cluster.admin.patch(kinds.Node, { name: "n" }, "merge", { spec: { taints: [first] } });
    const reads: (string | undefined)[] = [];
    const lagging: NodeWriter["client"] = {
      async get(kind, name, options) {
        reads.push(options?.read);
        const latest = await client.get(kind, name, options);
        return options?.read === "cached" ? { ...latest, ...scene.node } : latest;
      },
      patch: (...call) => client.patch(...call),
    };
    const change = (current: Node): readonly Taint[] | undefined =>
      taintsOf(current).length === 1 ? add(current) : undefined;
    expect(await updateTaints({ client: lagging, clock: quick }, needing, change, signal)).toBe(true);
    expect(taintsOf(await scene.stored())).toEqual([first, second]);
    expect(reads).toEqual(["cached", "latest"]);
  });

  test.each([
    ["9", "10", 2],
    ["10", "9", 1],
    ["10", "10", 1],
    ["unknown", "10", 1],
    ["10", "unknown", 1],
  ])(
    "updating taints of a node whose version a cache has as %s and the watch as %s takes %i reads",
    async (read, shown, reads) => {
      await using scene = await openCluster([first]);
      const { client } = scene.context;
      const at = (resourceVersion: string): Node => ({
        ...scene.node,
        metadata: { ...scene.node.metadata, resourceVersion },
      });
      const caching: NodeWriter["client"] = {
        get: async (...call) => ({ ...(await client.get(...call)), ...at(read) }),
        patch: (...call) => client.patch(...call),
      };
      expect(await updateTaints({ client: caching, clock: quick }, at(shown), () => undefined, signal)).toBe(false);
      expect(scene.cluster.sent()).toHaveLength(reads);
    },
  );

  test("leaves a node alone that was recreated under the same name", async () => {
    await using scene = await openCluster([]);
    const predecessor = { ...scene.node, metadata: { ...scene.node.metadata, uid: "the-one-before" } };
    expect(await updateTaints(scene.context, predecessor, add, signal)).toBe(false);
    expect(scene.cluster.writes()).toEqual([]);
  });

  test("leaves a deleted node alone, and one whose taints are as wanted", async () => {
    await using scene = await openCluster([first]);
    expect(await updateTaints(scene.context, scene.node, () => undefined, signal)).toBe(false);
    const deleted = { ...scene.node, metadata: { ...scene.node.metadata, name: "deleted" } };
    expect(await updateTaints(scene.context, deleted, add, signal)).toBe(false);
    expect(scene.cluster.writes()).toEqual([]);
  });

  test("gives up after five conflicts", async () => {
    await using scene = await openCluster([]);
    const conflict = { match: { verb: "patch", resource: "nodes" }, effect: { status: 409 } } as const;
    for (let times = 0; times < 6; times++) scene.cluster.api.faults.add(conflict);
    const outcome = updateTaints(scene.context, scene.node, add, signal).catch((error: unknown) => error);
    expect(await outcome).toMatchObject({ status: 409 });
    expect(scene.cluster.writes()).toHaveLength(5);
  });
});

describe("updating a condition", () => {
  const state: ConditionState = { type: "NetworkUnavailable", status: "False", reason: "RouteCreated", message: "m" };

  test("sets one condition of the status, timed in whole seconds, and repeats the write after a conflict", async () => {
    await using scene = await openCluster([]);
    scene.cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 409 } });
    await updateCondition(scene.context, scene.node, state, signal);
    const at = "2026-01-02T03:04:05Z";
    expect(scene.cluster.writes().map(({ path, status }) => [path, status])).toEqual([
      ["/api/v1/nodes/n/status", 409],
      ["/api/v1/nodes/n/status", 200],
    ]);
    expect((await scene.stored()).status?.conditions).toMatchObject([
      { ...state, lastHeartbeatTime: at, lastTransitionTime: at },
    ]);
  });

  test("ignores a node that was deleted, and reports any other failure", async () => {
    await using scene = await openCluster([]);
    const deleted = { ...scene.node, metadata: { ...scene.node.metadata, name: "deleted" } };
    await updateCondition(scene.context, deleted, state, signal);
    for (const status of [403, 422]) {
      scene.cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status } });
      const outcome = updateCondition(scene.context, scene.node, state, signal).catch((error: unknown) => error);
      expect(await outcome).toMatchObject({ status });
    }
  });
});

test("a condition is not set on a node that was recreated under the name, whose own writer sets it", async () => {
  await using scene = await openCluster([]);
  const state = { type: "NetworkUnavailable", status: "False", reason: "RouteCreated", message: "m" };
  const predecessor = { ...scene.node, metadata: { ...scene.node.metadata, uid: "the-one-before" } };
  await updateCondition(scene.context, predecessor, state, signal);
  expect(scene.cluster.writes()).toMatchObject([{ body: { metadata: { uid: "the-one-before" } }, status: 422 }]);
  expect((await scene.stored()).status?.conditions).toBeUndefined();
});

test("a condition is set by the name of a node alone, whichever node has that", async () => {
  await using scene = await openCluster([]);
  const state = { type: "NetworkUnavailable", status: "False", reason: "RouteCreated", message: "m" };
  await updateCondition(scene.context, "n", state, signal);
  expect(scene.cluster.writes()).toMatchObject([{ body: { status: { conditions: [state] } }, status: 200 }]);
  expect(Object.keys(Object(scene.cluster.writes()[0]?.body))).toEqual(["status"]);
  expect((await scene.stored()).status?.conditions).toMatchObject([state]);
});

test("the patch bodies are plain functions of what is to be written", () => {
  const node: Node = { metadata: { name: "n", uid: "u", resourceVersion: "7" } };
  expect(taintsPatch(node, [])).toEqual({ metadata: { resourceVersion: "7" }, spec: { taints: null } });
  const state = { type: "T", status: "True", reason: "R", message: "M" };
  const at = "1970-01-01T00:00:00Z";
  const status = { conditions: [{ ...state, lastHeartbeatTime: at, lastTransitionTime: at }] };
  expect(conditionPatch(state, 0)).toEqual({ status });
  expect(conditionPatch(state, 0, "u")).toEqual({ metadata: { uid: "u" }, status });
});
