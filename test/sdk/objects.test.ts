import { describe, expect, test } from "bun:test";

import {
  compareResourceVersion,
  type Condition,
  type ConfigMap,
  controllerOf,
  defineController,
  ensureFinalizer,
  findStatusCondition,
  hasFinalizer,
  isBeingDeleted,
  isConflict,
  isControlledBy,
  isStatusConditionTrue,
  kinds,
  removeFinalizer,
  removeStatusCondition,
  setStatusCondition,
  withControllerReference,
  withOwnerReference,
} from "cloud-controller-host/sdk";

import { TestCluster } from "../kit/harness.ts";

const finalizer = "example.com/cleanup";
const place = { namespace: "default", name: "web" };
const owning = defineController({
  name: "owner-controller",
  construct: () => () => ({ run: () => Promise.resolve() }),
});

async function openCluster(finalizers: readonly string[] = []) {
  const cluster = await TestCluster.start();
  const config = await cluster.admin.create(kinds.ConfigMap, { metadata: { ...place, finalizers } });
  const { client } = cluster.generation(owning).context;
  const stored = () => cluster.api.get(kinds.ConfigMap, place);
  return { cluster, client, config, stored, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
}

describe("a finalizer", () => {
  test("is added by one request beside those of others, and by none where it is", async () => {
    await using world = await openCluster(["example.com/other"]);
    const once = await ensureFinalizer(world.client, kinds.ConfigMap, world.config, finalizer);
    expect(once.metadata?.finalizers).toEqual(["example.com/other", finalizer]);
    expect(await ensureFinalizer(world.client, kinds.ConfigMap, once, finalizer)).toBe(once);
    expect(world.cluster.writes()).toHaveLength(1);
  });

  test("is not added to an object that is being deleted", async () => {
    await using world = await openCluster(["example.com/other"]);
    await world.cluster.admin.delete(kinds.ConfigMap, place);
    const deleted = world.stored() ?? {};
    expect(isBeingDeleted(deleted)).toBe(true);
    expect(hasFinalizer(await ensureFinalizer(world.client, kinds.ConfigMap, deleted, finalizer), finalizer)).toBe(
      false,
    );
    expect(world.cluster.writes()).toEqual([]);
  });

  test("a finalizer of another writer is not lost: a stale object is a conflict", async () => {
    await using world = await openCluster();
    await ensureFinalizer(world.cluster.admin, kinds.ConfigMap, world.config, "example.com/other");
    const late = ensureFinalizer(world.client, kinds.ConfigMap, world.config, finalizer);
    expect(isConflict(await late.catch((error: unknown) => error))).toBe(true);
    expect(world.stored()?.metadata?.finalizers).toEqual(["example.com/other"]);
  });

  test("is removed alone, once, and without an error where the object is gone", async () => {
    await using world = await openCluster([finalizer, "example.com/other"]);
    await removeFinalizer(world.client, kinds.ConfigMap, world.config, finalizer);
    expect(world.stored()?.metadata?.finalizers).toEqual(["example.com/other"]);
    await removeFinalizer(world.client, kinds.ConfigMap, world.stored() ?? {}, finalizer);
    expect(world.cluster.writes()).toHaveLength(1);
    const gone = { metadata: { ...place, name: "gone", finalizers: [finalizer] } };
    await removeFinalizer(world.client, kinds.ConfigMap, gone, finalizer);
  });
});

describe("an owner reference", () => {
  const owner = { metadata: { namespace: "default", name: "web", uid: "u1" } };
  const owned: ConfigMap = { metadata: { namespace: "default", name: "web-list" } };

  test("names the owner by its uid and blocks its deletion where it is the controller", () => {
    const object = withControllerReference(owned, kinds.Deployment, owner);
    expect(object.metadata?.ownerReferences).toEqual([
      { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "u1", controller: true, blockOwnerDeletion: true },
    ]);
    expect(isControlledBy(object, owner)).toBe(true);
    expect(isControlledBy(object, { metadata: { uid: "u2" } })).toBe(false);
    expect(withControllerReference(object, kinds.Deployment, owner)).toEqual(object);
  });

  test("stands beside those of other owners, without a controller", () => {
    const other = { metadata: { ...owner.metadata, name: "other", uid: "u2" } };
    const object = withOwnerReference(withOwnerReference(owned, kinds.Service, owner), kinds.Service, other);
    expect(object.metadata?.ownerReferences?.map(({ uid }) => uid)).toEqual(["u1", "u2"]);
    expect(controllerOf(object)).toBeUndefined();
  });

  test("an owner reference keeps its place, so that two owners that each set theirs write it once", () => {
    const other = { metadata: { ...owner.metadata, name: "other", uid: "u2" } };
    const object = withOwnerReference(withControllerReference(owned, kinds.Deployment, owner), kinds.Service, other);
    expect(withControllerReference(object, kinds.Deployment, owner)).toEqual(object);
    expect(withOwnerReference(object, kinds.Service, other)).toEqual(object);
  });

  test("an owner reference to an owner that was recreated, or whose kind has another version, replaces the former one", () => {
    const former = withControllerReference(owned, { ...kinds.Deployment, version: "v1beta1" }, owner);
    const recreated = { metadata: { ...owner.metadata, uid: "u2" } };
    const object = withControllerReference(former, kinds.Deployment, recreated);
    expect(object.metadata?.ownerReferences).toEqual([
      { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "u2", controller: true, blockOwnerDeletion: true },
    ]);
    expect(isControlledBy(object, recreated)).toBe(true);
    const both = withOwnerReference(object, kinds.Service, owner);
    expect(both.metadata?.ownerReferences?.map(({ kind, uid }) => `${kind} ${uid}`)).toEqual([
      "Deployment u2",
      "Service u1",
    ]);
  });

  test("an owner reference to a second controller, to another namespace or to an owner without a uid is refused", () => {
    const object = withControllerReference(owned, kinds.Deployment, owner);
    const second = { metadata: { ...owner.metadata, name: "second", uid: "u2" } };
    expect(() => withControllerReference(object, kinds.Deployment, second)).toThrow(
      "default/web-list is already controlled by Deployment web",
    );
    const ofOtherGroup = { ...kinds.Deployment, group: "example.com" };
    expect(() => withControllerReference(object, ofOtherGroup, { metadata: { ...owner.metadata, uid: "u2" } })).toThrow(
      "default/web-list is already controlled by Deployment web",
    );
    const elsewhere = { metadata: { ...owner.metadata, namespace: "other" } };
    expect(() => withOwnerReference(owned, kinds.Deployment, elsewhere)).toThrow("is in another namespace: other/web");
    expect(() => withOwnerReference(owned, kinds.Node, { metadata: { name: "n" } })).toThrow("no name or no uid");
    const node = { metadata: { name: "n", uid: "u3" } };
    expect(withOwnerReference(owned, kinds.Node, node).metadata?.ownerReferences).toHaveLength(1);
  });
});

describe("a condition", () => {
  const [start, later] = [Date.UTC(2026, 0, 2, 3, 4, 5, 678), Date.UTC(2026, 0, 2, 4)];
  const value = { type: "Ready", status: "False", reason: "Waiting", message: "for nodes" } as const;
  const before: readonly Condition[] = setStatusCondition(undefined, value, start);

  test("keeps its transition time while its status is the same, and takes a new one when it changes", () => {
    expect(before).toEqual([{ ...value, lastTransitionTime: "2026-01-02T03:04:05Z" }]);
    const [reworded] = setStatusCondition(before, { ...value, message: "for one node" }, later);
    expect(reworded).toMatchObject({ message: "for one node", lastTransitionTime: "2026-01-02T03:04:05Z" });
    const [changed] = setStatusCondition(before, { ...value, status: "True" }, later);
    expect(changed).toMatchObject({ status: "True", lastTransitionTime: "2026-01-02T04:00:00Z" });
  });

  test("a condition that does not change returns the same array, so that nothing has to be written", () => {
    expect(setStatusCondition(before, value, later)).toBe(before);
    expect(setStatusCondition(before, { ...value, observedGeneration: 2 }, later)).not.toBe(before);
    expect(removeStatusCondition(before, "Other")).toBe(before);
  });

  test("is found, tested and removed by its type, and stands beside others", () => {
    const both = setStatusCondition(before, { ...value, type: "Synced", status: "True" }, later);
    expect(both.map(({ type }) => type)).toEqual(["Ready", "Synced"]);
    expect([isStatusConditionTrue(both, "Synced"), isStatusConditionTrue(both, "Ready")]).toEqual([true, false]);
    expect(findStatusCondition(both, "None")).toBeUndefined();
    expect(removeStatusCondition(both, "Ready").map(({ type }) => type)).toEqual(["Synced"]);
  });
});

test.each([
  ["9", "10", -1],
  ["18446744073709551616", "18446744073709551615", 1],
  ["7", "7", 0],
  ["7", "7a", undefined],
  ["", "7", undefined],
  [undefined, undefined, undefined],
] as const)("resourceVersions are compared as integers: %p with %p is %p", (one, other, order) => {
  expect(compareResourceVersion(one, other)).toBe(order);
});
