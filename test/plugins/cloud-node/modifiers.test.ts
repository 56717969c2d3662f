import { describe, expect, test } from "bun:test";

import { type InstanceMetadata, labels, type Node, taints } from "cloud-controller-host/sdk";

import { initialized } from "../../../plugins/cloud-node/modifiers.ts";

const silent: InstanceMetadata = { providerID: "", instanceType: "", nodeAddresses: [], zone: "", region: "" };
const taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };

describe("an initialized node", () => {
  test("has lost the taint whatever its effect or value, and kept all others", () => {
    const other = { key: "other", effect: "NoSchedule" };
    const node: Node = { spec: { taints: [taint, other, { key: taints.uninitialized, effect: "NoExecute" }] } };
    expect(initialized(node, silent).node.spec?.taints).toEqual([other]);
  });

  test("keeps the labels of which the cloud says nothing", () => {
    const node: Node = { metadata: { labels: { [labels.zone]: "by-hand" } }, spec: { taints: [taint] } };
    expect(initialized(node, { ...silent, region: "r1" }).node.metadata?.labels).toEqual({
      [labels.zone]: "by-hand",
      [labels.region]: "r1",
      [labels.regionBeta]: "r1",
    });
  });

  test("has type, zone and region as the cloud says, whatever it said before", () => {
    const node: Node = { metadata: { labels: { [labels.zone]: "old", [labels.zoneBeta]: "older" } } };
    const { node: after } = initialized(node, { ...silent, zone: "new" });
    expect(after.metadata?.labels).toEqual({ [labels.zone]: "new", [labels.zoneBeta]: "new" });
  });

  test("keeps the provider ID that it has", () => {
    const node: Node = { spec: { providerID: "mine" } };
    expect(initialized(node, { ...silent, providerID: "theirs" }).node.spec?.providerID).toBe("mine");
  });

  test("is told which labels of the cloud it was spared, and why", () => {
    const node: Node = { metadata: { labels: { "my.label/a": "1", "my.label/b": "2" } } };
    const additionalLabels = { "my.label/a": "1", "my.label/b": "3", "x.k8s.io/c": "4" };
    expect(initialized(node, { ...silent, additionalLabels }).refused).toEqual([
      { label: "my.label/b", reason: 'the node already has it with the value "2"' },
      { label: "x.k8s.io/c", reason: "its domain is reserved for Kubernetes" },
    ]);
  });

  test("leaves the node that it was made from as it was", () => {
    const node: Node = Object.freeze({
      metadata: Object.freeze({ name: "n" }),
      spec: Object.freeze({ taints: [taint] }),
    });
    initialized(node, { ...silent, zone: "z" });
    expect(node).toEqual({ metadata: { name: "n" }, spec: { taints: [taint] } });
  });
});
