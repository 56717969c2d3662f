import { describe, expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import { WriteLog } from "../../../../host/process/writes/write-log.ts";

const service = (name: string, more: Partial<Service> = {}): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "default", uid: `${name}-uid` },
  spec: { type: "LoadBalancer" },
  ...more,
});

function log() {
  let now = 0;
  const writes = new WriteLog({ clock: { now: () => now } });
  for (const name of ["web", "api"]) writes.services.added(service(name));
  const put = (generation: number, about: string, operation = "PUT"): readonly string[] => {
    const change = { before: {}, after: { tags: { service: about } } };
    writes.add(
      { controller: "azure", generation, system: "cloud" },
      { operation, resource: "/lb", change, milliseconds: 0 },
    );
    return writes.records.at(-1)?.causes ?? [];
  };
  return { writes, put, pass: (ms: number) => void (now += ms) };
}

describe("a key of the cloud config that a reload has changed", () => {
  test("is a cause of the writes of its generation, before the Services behind them, and of no other generation's", () => {
    const { writes, put } = log();
    expect(put(2, "default/web")).toEqual(["Service default/web"]);
    writes.configChanged(2, ["tags", "vmType"]);
    expect(put(2, "default/web")).toEqual(["config key tags", "config key vmType", "Service default/web"]);
    expect(put(2, "nobody")).toEqual(["config key tags", "config key vmType"]);
    expect(put(1, "default/web")).toEqual(["Service default/web"]);
  });

  test("causes no write about a Service that has changed since, nor of a drift", () => {
    const { writes, put } = log();
    writes.configChanged(2, ["tags"]);
    writes.services.updated(
      service("web"),
      service("web", { spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" } }),
    );
    expect(put(2, "default/web")).toEqual(["Service default/web"]);
    expect(put(2, "default/api")).toEqual(["config key tags", "Service default/api"]);
    expect(put(2, "default/api", "drift")).toEqual(["Service default/api"]);
    writes.configChanged(3, ["tags"]);
    expect(put(3, "default/web")).toEqual(["config key tags", "Service default/web"]);
  });

  test("stays a cause where only the status of a Service has changed, and for ten minutes", () => {
    const { writes, put, pass } = log();
    writes.configChanged(2, ["tags"]);
    writes.services.updated(
      service("web"),
      service("web", { status: { loadBalancer: { ingress: [{ ip: "1.2.3.4" }] } } }),
    );
    pass(600_000);
    expect(put(2, "default/web")).toEqual(["config key tags", "Service default/web"]);
    pass(1);
    expect(put(2, "default/web")).toEqual(["Service default/web"]);
  });

  test("does not cause what a new, a changed or a deleted Service or Node needs", () => {
    const { writes, put } = log();
    const nodeNamed = (name: string) => ({ apiVersion: "v1", kind: "Node", metadata: { name } });
    const node = nodeNamed("vm-0");
    for (const known of [node, nodeNamed("vm-2")]) writes.nodes.added(known);
    writes.configChanged(2, ["tags"]);
    expect(put(2, "vm-0")).toEqual(["config key tags", "Node vm-0"]);
    writes.services.deleted(service("web"));
    writes.services.added(service("new"));
    writes.nodes.updated(node, { ...node, metadata: { name: "vm-0", labels: { a: "b" } } });
    writes.nodes.added(nodeNamed("vm-1"));
    writes.nodes.deleted(nodeNamed("vm-2"));
    expect(["default/web", "default/new", "vm-0", "vm-1", "vm-2"].map((about) => put(2, about))).toEqual([
      ["Service default/web"],
      ["Service default/new"],
      ["Node vm-0"],
      ["Node vm-1"],
      ["Node vm-2"],
    ]);
  });

  test("stays a cause where a node has only reported its status, and a node is found by its new address", () => {
    const { writes, put } = log();
    const nodeAt = (address: string, more: object = {}) => ({
      metadata: { name: "vm-0" },
      status: { addresses: [{ type: "InternalIP", address }], ...more },
    });
    writes.nodes.added(nodeAt("10.0.0.4"));
    writes.configChanged(2, ["tags"]);
    writes.nodes.updated(nodeAt("10.0.0.4"), nodeAt("10.0.0.4", { phase: "Running" }));
    expect(put(2, "10.0.0.4")).toEqual(["config key tags", "Node vm-0"]);
    writes.nodes.updated(nodeAt("10.0.0.4"), nodeAt("10.0.0.5"));
    expect(put(2, "10.0.0.5")).toEqual(["Node vm-0"]);
  });
});
