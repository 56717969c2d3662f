import { describe, expect, test } from "bun:test";

import { FailingObjects, type Taint } from "cloud-controller-host/sdk";
import { memoryCloud } from "cloud-controller-host/sdk/testing";

import { checkNode, hasTaint, withoutTaint, withTaint } from "../../../plugins/lifecycle/node-check.ts";
import lifecycle from "../../../plugins/lifecycle/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { aNode } from "./scene.ts";

const first: Taint = { key: "foo_1", value: "bar_1", effect: "NoExecute" };
const second: Taint = { key: "foo_2", value: "bar_2", effect: "NoSchedule" };
const list = [first, second];

describe("finding a taint", () => {
  test("taint exists", () => expect(hasTaint(list, { ...first, value: "another" })).toBe(true));
  test("different key", () => expect(hasTaint(list, { ...first, key: "no_such_key" })).toBe(false));
  test("different effect", () => expect(hasTaint(list, { ...first, effect: "NoSchedule" })).toBe(false));
});

describe("removing a taint", () => {
  test("remove taint unsuccessfully", () => expect(withoutTaint([first], { ...first, key: "foo_2" })).toBeUndefined());
  test("remove taint successfully", () => expect(withoutTaint([first], first)).toEqual([]));
  test("remove taint from node with no taint", () => expect(withoutTaint([], first)).toBeUndefined());
});

describe("deleting a taint from a list", () => {
  test("delete taint with different name", () =>
    expect(withoutTaint([first], { ...first, key: "foo_3" })).toBeUndefined());
  test("delete taint with different effect", () =>
    expect(withoutTaint([first], { ...first, effect: "NoSchedule" })).toBeUndefined());
  test("delete taint successfully", () => expect(withoutTaint(list, first)).toEqual([second]));
  test("delete taint from empty taint array", () => expect(withoutTaint([], first)).toBeUndefined());
});

describe("adding a taint", () => {
  test("appends it", () => expect(withTaint([first], second)).toEqual([first, second]));
  test("changes nothing when it is already present", () => expect(withTaint(list, { ...second })).toBeUndefined());
  test("replaces one with another value", () => {
    expect(withTaint(list, { ...first, value: "new" })).toEqual([{ ...first, value: "new" }, second]);
  });
});

test("an instance that was found exists, although its power state cannot be read", async () => {
  await using cluster = await TestCluster.start();
  const memory = memoryCloud();
  memory.machines.set("node0", {});
  memory.fail("instanceShutdown", new Error("the cloud is out of order"));
  const { instances } = memory.cloud;
  if (instances === undefined) throw new Error("the cloud has no instances");
  const { context } = cluster.generation(lifecycle);
  const failing = new FailingObjects("NodesFail", context.clock, 0);
  const { signal } = new AbortController();
  const check = { context, instances, failing, nextRead: () => ({}), signal };
  expect(await checkNode(check, aNode("node0", { ready: "Unknown" }))).toBe("exists");
  expect(failing.size).toBe(1);
});
