import { describe, expect, test } from "bun:test";

import { patched } from "../../../host/changes/patches.ts";

const node = {
  metadata: { labels: { a: "1", b: "2" }, finalizers: ["x"] },
  spec: { taints: [{ key: "old", effect: "NoSchedule" }] },
  status: {
    conditions: [
      { type: "Ready", status: "True" },
      { type: "DiskPressure", status: "False" },
    ],
  },
};

describe("a patch applied for a plan", () => {
  test("merges objects, removes what is null, and replaces lists as a merge patch", () => {
    const patch = { metadata: { labels: { a: null, c: "3" } }, status: { conditions: [] } };
    const result = patched(node, "merge", patch);
    expect(result).toEqual({
      metadata: { labels: { b: "2", c: "3" }, finalizers: ["x"] },
      spec: node.spec,
      status: { conditions: [] },
    });
  });

  test("merges list items by their key, adds finalizers, and replaces taints as a strategic merge patch", () => {
    const patch = {
      metadata: { finalizers: ["y"] },
      spec: { taints: [{ key: "new", effect: "NoExecute" }] },
      status: {
        conditions: [
          { type: "Ready", status: "False" },
          { type: "DiskPressure", $patch: "delete" },
        ],
      },
    };
    expect(patched(node, "strategic", patch)).toEqual({
      metadata: { labels: { a: "1", b: "2" }, finalizers: ["x", "y"] },
      spec: { taints: [{ key: "new", effect: "NoExecute" }] },
      status: { conditions: [{ type: "Ready", status: "False" }] },
    });
  });

  test("merges ports of Pods by containerPort, and replaces a list of plain values under the name of a merged one", () => {
    const pod = { spec: { ports: [{ containerPort: 80 }, { containerPort: 443, name: "tls" }], env: ["A=1"] } };
    const patch = { spec: { ports: [{ containerPort: 443, name: "https" }], env: ["B=2"] } };
    expect(patched(pod, "strategic", patch)).toEqual({
      spec: { ports: [{ containerPort: 80 }, { containerPort: 443, name: "https" }], env: ["B=2"] },
    });
  });

  test("removes values from a list, and the list with its last one, as a strategic merge patch asks for it", () => {
    const removing = (values: readonly string[]) => ({ metadata: { "$deleteFromPrimitiveList/finalizers": values } });
    const labels = { a: "1", b: "2" };
    const two = { metadata: { labels, finalizers: ["x", "y"] } };
    expect(patched(two, "strategic", removing(["x"]))).toEqual({ metadata: { labels, finalizers: ["y"] } });
    expect(patched(two, "strategic", removing(["x", "y"]))).toEqual({ metadata: { labels } });
    expect(patched(two, "strategic", removing(["z"]))).toEqual(two);
  });

  test("replaces an object or a list as a whole where a strategic merge patch asks for it", () => {
    const patch = {
      metadata: { labels: { $patch: "replace", only: "1" } },
      status: { conditions: [{ type: "Ready", status: "Unknown" }, { $patch: "replace" }] },
    };
    const result = patched(node, "strategic", patch);
    expect(result["metadata"]).toEqual({ labels: { only: "1" }, finalizers: ["x"] });
    expect(result["status"]).toEqual({ conditions: [{ type: "Ready", status: "Unknown" }] });
  });

  test("follows the operations of a JSON patch, with escaped paths and list positions", () => {
    const result = patched(node, "json", [
      { op: "test", path: "/metadata/labels/a", value: "1" },
      { op: "test", path: "/metadata/annotations", value: null },
      { op: "add", path: "/metadata/labels/example.com~1x", value: "y" },
      { op: "remove", path: "/spec/taints/0" },
      { op: "add", path: "/spec/taints/-", value: { key: "last" } },
      { op: "replace", path: "/status/conditions/1/status", value: "True" },
    ]);
    expect(result).toEqual({
      metadata: { labels: { a: "1", b: "2", "example.com/x": "y" }, finalizers: ["x"] },
      spec: { taints: [{ key: "last" }] },
      status: {
        conditions: [
          { type: "Ready", status: "True" },
          { type: "DiskPressure", status: "True" },
        ],
      },
    });
    expect(node.spec.taints).toEqual([{ key: "old", effect: "NoSchedule" }]);
  });

  test("inserts where a JSON patch adds at a position of a list", () => {
    const list = { taints: [{ key: "a" }, { key: "b" }] };
    const result = patched(list, "json", [{ op: "add", path: "/taints/1", value: { key: "new" } }]);
    expect(result).toEqual({ taints: [{ key: "a" }, { key: "new" }, { key: "b" }] });
  });

  test("fails when a JSON patch tests for another value", () => {
    const patch = [{ op: "test", path: "/metadata/labels/a", value: "2" }];
    expect(() => patched(node, "json", patch)).toThrow("the value at /metadata/labels/a has changed");
  });
});
