import { describe, expect, test } from "bun:test";

import { finalizers, labels, taints } from "cloud-controller-host/sdk";

import { serviceFacts } from "../../../host/console/object-facts.ts";
import { nodeRow, serviceRow } from "../../../host/console/object-rows.ts";

const spec = { type: "LoadBalancer" } as const;
const failed = (message: string) => ({
  type: "LoadBalancerReady",
  status: "False",
  reason: "SyncLoadBalancerFailed",
  message,
  lastTransitionTime: "2026-11-22T12:00:00Z",
});

describe("the row of a Service", () => {
  test("shows a class as not managed until the Service has the finalizer of a load balancer", () => {
    const classed = { spec: { ...spec, loadBalancerClass: "other" } };
    expect(serviceRow(classed)).toMatchObject({ state: "not managed", cause: "loadBalancerClass other" });
    expect(serviceRow({ ...classed, metadata: { finalizers: [finalizers.loadBalancerCleanup] } }).state).toBe(
      "waiting",
    );
  });

  test("has the reason of a condition without a message, and failing comes before deleting", () => {
    const metadata = { deletionTimestamp: "2026-11-22T12:00:00Z", finalizers: [finalizers.loadBalancerCleanup] };
    expect(serviceRow({ spec, status: { conditions: [failed("")] } }).cause).toBe("SyncLoadBalancerFailed");
    expect(serviceRow({ spec, metadata, status: { conditions: [failed("denied")] } }).state).toBe("failing");
    expect(serviceRow({ spec, metadata })).toMatchObject({
      state: "deleting",
      cause: `waits for ${finalizers.loadBalancerCleanup}`,
    });
  });
});

test("a Service whose type has changed shows its load balancer until that is removed", () => {
  const metadata = { finalizers: [finalizers.loadBalancerCleanup] };
  const changed = { spec: { type: "ClusterIP" } };
  expect(serviceRow(changed)).toMatchObject({ state: "not managed", cause: "type ClusterIP" });
  expect(serviceRow({ ...changed, status: { conditions: [failed("denied")] } }).state).toBe("not managed");
  const removing = { state: "deleting", cause: "its type is ClusterIP, and its load balancer is removed" };
  expect(serviceRow({ ...changed, metadata })).toMatchObject(removing);
  const failing = { state: "failing", cause: "denied" };
  expect(serviceRow({ ...changed, metadata, status: { conditions: [failed("denied")] } })).toMatchObject(failing);
  const facts = serviceFacts({ ...changed, metadata });
  expect(facts).toContainEqual({ name: "waits for", value: "its load balancer to be removed" });
  expect(serviceFacts(changed).map(({ name }) => name)).not.toContain("waits for");
});

test("a Service waits for the removal of its load balancer only while it has the finalizer, and for its creation until it fails", () => {
  const waits = (service: Parameters<typeof serviceFacts>[0]) =>
    serviceFacts(service).find(({ name }) => name === "waits for")?.value;
  const deletionTimestamp = "2026-11-22T12:00:00Z";
  const metadata = { finalizers: [finalizers.loadBalancerCleanup] };
  expect(waits({ spec, metadata: { deletionTimestamp, ...metadata } })).toBe("its load balancer to be removed");
  expect(waits({ spec, metadata: { deletionTimestamp, finalizers: ["another"] } })).toBeUndefined();
  expect(waits({ spec, metadata })).toBe("its load balancer to be created");
  expect(waits({ spec })).toBe("a controller to pick it up");
  expect(waits({ spec, status: { conditions: [failed("denied")] } })).toBeUndefined();
});

test("the row of a node has the state of its route", () => {
  const routes = (status: string, message?: string) =>
    nodeRow({ status: { conditions: [{ type: "NetworkUnavailable", status, ...(message && { message }) }] } }).routes;
  expect(routes("False", "RouteController created a route")).toBe("ready");
  expect(routes("True", "no route")).toBe("no route");
  expect(routes("True")).toBe("not ready");
  expect(nodeRow({}).routes).toBe("");
});

test("the row of a node says why it is not in a pool", () => {
  const why = (node: Parameters<typeof nodeRow>[0]) => nodeRow(node).notInPool;
  const providerID = "test://vm";
  expect(why({ spec: { providerID: "" } })).toBe("no provider ID");
  expect(why({})).toBe("no provider ID");
  expect(why({ spec: { providerID } })).toBe("");
  expect(why({ metadata: { labels: { [labels.excludeFromLoadBalancers]: "" } }, spec: { providerID } })).toContain(
    labels.excludeFromLoadBalancers,
  );
  const taint = { key: taints.toBeDeletedByAutoscaler, effect: "NoSchedule" };
  expect(why({ spec: { providerID, taints: [taint] } })).toBe("the autoscaler deletes it");
});
