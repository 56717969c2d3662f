import { describe, expect, setDefaultTimeout, test } from "bun:test";

import {
  type ControllerContext,
  defineController,
  isConflict,
  kinds,
  type KubeClient,
} from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { ControllerRunner } from "../../../../host/sandbox/testing/runner.ts";
import { describeOnRealApiServer } from "../../../envtest/shared.ts";
import { TestCluster } from "../../../kit/harness.ts";
import { realRunner } from "../../../kit/real.ts";
import { errorOf } from "../../../kit/rejection.ts";

setDefaultTimeout(120_000);

const plugin = defineController({
  name: "writing-controller",
  kinds: [kinds.PodDisruptionBudget],
  permissions: [
    { apiGroup: "", resources: ["configmaps"], verbs: ["patch", "create", "list", "watch", "deletecollection"] },
    { apiGroup: "", resources: ["pods/eviction"], verbs: ["create"] },
  ],
  construct: () => () => ({ run: () => Promise.resolve() }),
});

interface Rig extends AsyncDisposable {
  readonly runner: ControllerRunner;
  readonly admin: KubeClient;
}

/** The same on both API servers: what a plugin can write beside plain objects. */
function suite(open: () => Promise<Rig>): void {
  const inRig = async (work: (context: ControllerContext, rig: Rig, synced: () => Promise<void>) => Promise<void>) => {
    await using rig = await open();
    const generation = rig.runner.generation(plugin);
    await work(generation.context, rig, () => generation.synced());
  };
  const namespace = "default";
  const place = { name: "shared", namespace };
  const config = (data: Readonly<Record<string, string>>) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: place,
    data,
  });

  test("applies under a field manager of its own, and takes over a field of another one only by force", () =>
    inRig(async ({ client }) => {
      const apply = (fieldManager: string, data: Readonly<Record<string, string>>, force?: boolean) =>
        client.patch(kinds.ConfigMap, place, "apply", config(data), {
          fieldManager,
          ...(force !== undefined && { force }),
        });
      await apply("first", { color: "blue", size: "1" });
      expect(isConflict(await errorOf(apply("second", { color: "red" }, false)))).toBe(true);
      const taken = await apply("second", { color: "red" });
      expect(taken.data).toEqual({ color: "red", size: "1" });
      expect(taken.metadata?.managedFields?.map(({ manager }) => manager).toSorted()).toEqual(["first", "second"]);
    }));

  test("names the field manager of a merge patch", () =>
    inRig(async ({ client }, { runner }) => {
      await client.patch(kinds.ConfigMap, place, "apply", config({ a: "1" }), { fieldManager: "first" });
      await client.patch(kinds.ConfigMap, place, "merge", { data: { b: "2" } }, { fieldManager: "merger" });
      expect(runner.writes().map(({ query }) => query)).toEqual([
        { fieldManager: "first", force: "true" },
        { fieldManager: "merger" },
      ]);
    }));

  test("deletes the selected objects of a collection by one request", () =>
    inRig(async ({ client }, { admin }) => {
      for (const [name, color] of [
        ["a", "red"],
        ["b", "red"],
        ["c", "blue"],
      ] as const)
        await admin.create(kinds.ConfigMap, { metadata: { name, namespace, labels: { color } } });
      await client.deleteCollection(kinds.ConfigMap, { namespace, labelSelector: "color=red" });
      const left = await admin.list(kinds.ConfigMap, { namespace, labelSelector: "color" });
      expect(left.map(({ metadata }) => metadata?.name)).toEqual(["c"]);
    }));

  test("evicts a Pod, and is refused with 429 while a disruption budget protects it", () =>
    inRig(async ({ client }, { admin }) => {
      const pod = { name: "web-0", namespace };
      const metadata = { ...pod, labels: { app: "web" } };
      await admin.create(kinds.Pod, { metadata, spec: { containers: [{ name: "c", image: "example.com/i" }] } });
      const budget = { name: "web", namespace };
      const spec = { minAvailable: 1, selector: { matchLabels: { app: "web" } } };
      await admin.create(kinds.PodDisruptionBudget, { metadata: budget, spec });
      const write = (status: object) =>
        admin.patch(kinds.PodDisruptionBudget, budget, "merge", { status }, { subresource: "status" });
      const counts = { currentHealthy: 1, desiredHealthy: 1, expectedPods: 1 };
      const ready = { status: { phase: "Running", conditions: [{ type: "Ready", status: "True" }] } };
      await admin.patch(kinds.Pod, pod, "merge", ready, { subresource: "status" });
      await write({ ...counts, disruptionsAllowed: 0, observedGeneration: 1 });
      expect(await errorOf(client.evict(pod))).toMatchObject({ status: 429 });
      expect(await admin.get(kinds.Pod, pod)).toMatchObject({ metadata: { name: "web-0" } });
      await write({ ...counts, disruptionsAllowed: 1, observedGeneration: 1 });
      await client.evict(pod);
      const gone = async () =>
        (await admin.list(kinds.Pod, { namespace })).every(
          ({ metadata: { deletionTimestamp } = {} }) => deletionTimestamp,
        );
      await eventually("the Pod is deleted", gone);
    }));

  test("watches metadata only: objects without their data, with apiVersion and kind", () =>
    inRig(async ({ client, informers }, { admin }, synced) => {
      await client.create(kinds.ConfigMap, { metadata: { ...place, labels: { color: "red" } }, data: { big: "x" } });
      const partial = informers.of(kinds.ConfigMap, { namespace, labelSelector: "color", metadataOnly: true });
      const whole = informers.of(kinds.ConfigMap, { namespace, labelSelector: "color" });
      await synced();
      const [listed] = partial.store.list();
      expect(listed).toMatchObject({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "shared" } });
      expect(listed?.data).toBeUndefined();
      expect(whole.store.list()[0]?.data).toEqual({ big: "x" });
      await admin.create(kinds.ConfigMap, {
        metadata: { name: "later", namespace, labels: { color: "red" } },
        data: { big: "y" },
      });
      const later = await eventually("the watch brings it", () => partial.store.get("default/later"));
      expect([later.kind, later.data]).toEqual(["ConfigMap", undefined]);
      const items = await client.list(kinds.ConfigMap, { namespace, labelSelector: "color", metadataOnly: true });
      expect(items.map(({ kind, data }) => [kind, data])).toEqual([
        ["ConfigMap", undefined],
        ["ConfigMap", undefined],
      ]);
    }));
}

describe("the client of a plugin, on the sandbox", () => {
  suite(async () => {
    const cluster = await TestCluster.start();
    return { runner: cluster, admin: cluster.admin, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
  });
});

describeOnRealApiServer("the client of a plugin, on a real API server", (cluster) => {
  suite(async () => {
    await cluster.cleanSlate();
    const runner = await realRunner(cluster, plugin);
    return { runner, admin: cluster.admin, [Symbol.asyncDispose]: () => runner[Symbol.asyncDispose]() };
  });
});
