import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { bundleOf } from "../../../host/plan/capture.ts";

test("a bundle has the time of an object's deletion where it has one, and no version of the object", () => {
  const objects = [
    { metadata: { name: "b", resourceVersion: "7", deletionTimestamp: "2026-01-02T00:00:00Z" } },
    { metadata: { name: "a", resourceVersion: "8" } },
  ];
  const bundle = bundleOf("azure", [], { cloudConfig: {}, kinds: [{ kind: kinds.Node, objects }], resources: [] });
  expect(bundle.kinds.flatMap((one) => one.objects)).toEqual([
    { metadata: { name: "a" } },
    { metadata: { name: "b", deletionTimestamp: "2026-01-02T00:00:00Z" } },
  ]);
});
