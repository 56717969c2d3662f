import { describe, expect, test } from "bun:test";

import { type InstanceMetadata, labels, type Node, taints } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { applyMetadata } from "../../../plugins/cloud-node/node-update.ts";
import { jsonPatch } from "../../../sdk/testing/api-server/patch/json-patch.ts";

const empty: InstanceMetadata = { providerID: "", instanceType: "", nodeAddresses: [], zone: "", region: "" };
const taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };

describe("applying metadata to a node", () => {
  test("removes the uninitialized taint whatever its effect or value, and keeps all others", () => {
    const other = { key: "other", effect: "NoSchedule" };
    const node: Node = { spec: { taints: [taint, other, { key: taints.uninitialized, effect: "NoExecute" }] } };
    expect(applyMetadata(node, empty).node.spec?.taints).toEqual([other]);
  });

  test("keeps labels for which the cloud has no value", () => {
    const node: Node = { metadata: { labels: { [labels.zone]: "by-hand" } }, spec: { taints: [taint] } };
    expect(applyMetadata(node, { ...empty, region: "r1" }).node.metadata?.labels).toEqual({
      [labels.zone]: "by-hand",
      [labels.region]: "r1",
      [labels.regionBeta]: "r1",
    });
  });

  test("overwrites the labels of type, zone and region", () => {
    const node: Node = { metadata: { labels: { [labels.zone]: "old", [labels.zoneBeta]: "older" } } };
    const { node: after } = applyMetadata(node, { ...empty, zone: "new" });
    expect(after.metadata?.labels).toEqual({ [labels.zone]: "new", [labels.zoneBeta]: "new" });
  });

  test("keeps the node's provider ID", () => {
    const node: Node = { spec: { providerID: "mine" } };
    const { node: after, patch } = applyMetadata(node, { ...empty, providerID: "theirs" });
    expect(after.spec?.providerID).toBe("mine");
    expect(patch.map(({ path }) => path)).not.toContain("/spec/providerID");
  });

  test("reports which of the cloud's labels were discarded, and why", () => {
    const node: Node = { metadata: { labels: { "my.label/a": "1", "my.label/b": "2" } } };
    const additionalLabels = { "my.label/a": "1", "my.label/b": "3", "x.k8s.io/c": "4", [labels.zone]: "5" };
    expect(applyMetadata(node, { ...empty, additionalLabels }).discarded).toEqual([
      { label: "my.label/b", reason: 'already present with the value "2"' },
      { label: "x.k8s.io/c", reason: "kubernetes namespace" },
      { label: labels.zone, reason: "kubernetes namespace" },
    ]);
  });

  test("sets labels of a domain that only ends like one of Kubernetes", () => {
    const additionalLabels = { "mykubernetes.io/a": "1", "my-k8s.io/b": "2" };
    const { node, discarded } = applyMetadata({}, { ...empty, additionalLabels });
    expect(node.metadata?.labels).toEqual(additionalLabels);
    expect(discarded).toEqual([]);
  });

  test("has in its patch only the labels that change", () => {
    const node: Node = { metadata: { uid: "u1", labels: { [labels.zone]: "z1", [labels.zoneBeta]: "z0" } } };
    expect(applyMetadata(node, { ...empty, zone: "z1" }).patch).toEqual([
      { op: "test", path: "/metadata/uid", value: "u1" },
      { op: "add", path: `/metadata/labels/${labels.zoneBeta.replace("/", "~1")}`, value: "z1" },
    ]);
  });

  test("does not change its input", () => {
    const node: Node = Object.freeze({
      metadata: Object.freeze({ name: "n" }),
      spec: Object.freeze({ taints: [taint] }),
    });
    applyMetadata(node, { ...empty, zone: "z" });
    expect(node).toEqual({ metadata: { name: "n" }, spec: { taints: [taint] } });
  });
});

const keys = ["my.label/a", "my.label/b", "slash/til~1de", labels.zone, labels.regionBeta];
const someLabels = fc.dictionary(fc.constantFrom(...keys), fc.constantFrom("1", "2"), { noNullPrototype: true });
const someTaints = fc.array(
  fc.constantFrom(taint, { key: "a", effect: "NoSchedule" }, { key: "b", effect: "NoExecute" }),
);

test("the patch of applyMetadata turns the node into the one that it returns", () => {
  fc.assert(
    fc.property(
      fc.option(someLabels, { nil: undefined }),
      someTaints,
      someLabels,
      fc.constantFrom("", "z1"),
      fc.constantFrom("", "azure://id"),
      fc.constantFrom(undefined, "azure://mine"),
      (present, list, additionalLabels, zone, providerID, own) => {
        const node: Node = {
          metadata: { name: "node0", uid: "u1", ...(present !== undefined && { labels: present }) },
          spec: { taints: [taint, ...list], ...(own !== undefined && { providerID: own }) },
        };
        const update = applyMetadata(node, { ...empty, zone, providerID, additionalLabels });
        const patched = jsonPatch(JSON.parse(JSON.stringify(node)), JSON.parse(JSON.stringify(update.patch)));
        const { labels: after = {}, ...metadata } = update.node.metadata ?? {};
        const wanted =
          Object.keys(after).length === 0 && present === undefined ? metadata : { ...metadata, labels: after };
        expect(patched).toEqual({ ...JSON.parse(JSON.stringify(update.node)), metadata: wanted });
      },
    ),
    { seed: 20261121, numRuns: 500 },
  );
});
