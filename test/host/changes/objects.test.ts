import { describe, expect, test } from "bun:test";

import { objectChanges, patchChanges } from "../../../host/changes/objects.ts";

const service = {
  metadata: { name: "web", namespace: "default", resourceVersion: "7", finalizers: ["a", "b"], labels: { app: "web" } },
  spec: { type: "LoadBalancer", ports: [{ port: 80, nodePort: 30_080 }] },
};

describe("what a write changes in an object", () => {
  test("the changes of a patch are the fields that it changes, not those that it repeats", () => {
    const patch = {
      metadata: { "$deleteFromPrimitiveList/finalizers": ["a"], resourceVersion: "8" },
      spec: { type: "LoadBalancer", loadBalancerIP: "10.0.0.4" },
      status: { loadBalancer: { ingress: [{ ip: "10.0.0.4" }] } },
    };
    expect(patchChanges(service, "strategic", patch)).toEqual([
      { path: "metadata.finalizers", before: ["a", "b"], after: ["b"] },
      { path: "spec.loadBalancerIP", after: "10.0.0.4" },
      { path: "status.loadBalancer.ingress", after: [{ ip: "10.0.0.4" }] },
    ]);
    expect(patchChanges(service, "json", [{ op: "remove", path: "/metadata/labels/app" }])).toEqual([
      { path: "metadata.labels.app", before: "web" },
    ]);
  });

  test("the changes of a whole object are the fields that differ, without those that the API server fills", () => {
    const after = { ...service, metadata: { ...service.metadata, resourceVersion: "9", labels: { app: "other" } } };
    expect(objectChanges(service, after)).toEqual([{ path: "metadata.labels.app", before: "web", after: "other" }]);
    expect(objectChanges(undefined, { metadata: { name: "c", uid: "u" } })).toEqual([
      { path: "metadata.name", after: "c" },
    ]);
  });

  test("a patch that replaces an object changes also the fields that it does not name", () => {
    const patch = { metadata: { labels: { $patch: "replace", tier: "1" } } };
    expect(patchChanges(service, "strategic", patch)).toEqual([
      { path: "metadata.labels.app", before: "web" },
      { path: "metadata.labels.tier", after: "1" },
    ]);
  });

  test("the changes of a patch are found without a look into the fields that it leaves alone", () => {
    const images = {
      get all(): string {
        throw new Error("read");
      },
    };
    const node = { metadata: { name: "vm-0", labels: { a: "1" } }, status: { phase: "Running", images } };
    expect(patchChanges(node, "json", [{ op: "add", path: "/metadata/labels/b", value: "2" }])).toEqual([
      { path: "metadata.labels.b", after: "2" },
    ]);
    expect(patchChanges(node, "strategic", { status: { phase: null } })).toEqual([
      { path: "status.phase", before: "Running" },
    ]);
  });
});
