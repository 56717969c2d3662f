import { describe, expect, test } from "bun:test";

import type { LoadBalancerStatus } from "cloud-controller-host/sdk";

import { hasFinalizer, serviceSelection } from "../../../plugins/service-lb/predicates.ts";
import {
  asServed,
  finalizerAdded,
  finalizerRemoved,
  sameStatus,
  statusOf,
} from "../../../plugins/service-lb/service-writes.ts";
import { aService, finalizer } from "./objects.ts";

const { needsCleanup, wantsLoadBalancer } = serviceSelection({});

const withFinalizers = (...finalizers: readonly string[]) => aService({ meta: { finalizers } });
const gone = { deletionTimestamp: "2026-01-01T00:00:00Z" };
const ours = { finalizers: [finalizer] };

describe("the finalizer of a Service", () => {
  test.each([
    ["service without finalizer", [], false],
    ["service with unrelated finalizer", ["unrelated"], false],
    ["service with one finalizer", [finalizer], true],
    ["service with multiple finalizers", [finalizer, "unrelated"], true],
  ] as const)("%s", (_name, finalizers, expected) => {
    expect(hasFinalizer(withFinalizers(...finalizers))).toBe(expected);
  });
});

describe("a Service that needs a cleanup", () => {
  test.each([
    ["service without finalizer", aService(), false],
    ["service with finalizer without timestamp without LB", aService({ meta: ours, spec: { type: "NodePort" } }), true],
    ["service with finalizer without timestamp with LB", aService({ meta: ours }), false],
    ["service with finalizer with timestamp", aService({ meta: { ...ours, ...gone } }), true],
  ] as const)("%s", (_name, service, expected) => {
    expect(needsCleanup(service)).toBe(expected);
  });

  test("a Service with a class is cleaned up only once it is deleted", () => {
    const spec = { loadBalancerClass: "other" };
    expect(needsCleanup(aService({ meta: ours, spec }))).toBe(false);
    expect(needsCleanup(aService({ meta: { ...ours, ...gone }, spec }))).toBe(true);
  });
});

test("a class, even an empty one, gives the Service to another controller", () => {
  expect(wantsLoadBalancer(aService())).toBe(true);
  expect(wantsLoadBalancer(aService({ spec: { loadBalancerClass: "" } }))).toBe(false);
  expect(wantsLoadBalancer(aService({ spec: { type: "NodePort" } }))).toBe(false);
});

describe("the patch of a Service", () => {
  test("adds our finalizer after an existing one and patches nothing else", () => {
    expect(finalizerAdded(withFinalizers("foo"))).toEqual({
      metadata: { "$setElementOrder/finalizers": ["foo", finalizer], finalizers: [finalizer] },
    });
  });

  test("adds the first finalizer without an order directive", () => {
    expect(finalizerAdded(aService())).toEqual({ metadata: { finalizers: [finalizer] } });
  });

  test("removes our finalizer from among others with the same patch body as upstream", () => {
    expect(finalizerRemoved(withFinalizers("foo", finalizer, "bar"))).toEqual({
      metadata: {
        "$deleteFromPrimitiveList/finalizers": [finalizer],
        "$setElementOrder/finalizers": ["foo", "bar"],
      },
    });
  });

  test("removes the last known finalizer by name, never by emptying the list", () => {
    expect(finalizerRemoved(withFinalizers(finalizer))).toEqual({
      metadata: { "$deleteFromPrimitiveList/finalizers": [finalizer] },
    });
  });

  test("patches the ingress of a status, and null when it is empty", () => {
    const ingress = [{ ip: "20.0.0.1" }];
    expect(statusOf({ ingress })).toEqual({ loadBalancer: { ingress } });
    for (const empty of [{}, { ingress: [] }]) expect(statusOf(empty)).toEqual({ loadBalancer: { ingress: null } });
  });
});

const ip = (of: string, more: object = {}): LoadBalancerStatus => ({ ingress: [{ ip: of, ...more }] });
const port = (protocol: string) => ({ port: 80, protocol });

describe("equal statuses", () => {
  test.each([
    ["empty", {}, {}, true],
    ["same ip", ip("10.0.0.1"), ip("10.0.0.1"), true],
    ["different ip", ip("10.0.0.1"), ip("10.0.0.2"), false],
    ["same ipmode", ip("10.0.0.1", { ipMode: "VIP" }), ip("10.0.0.1", { ipMode: "VIP" }), true],
    ["only one ipmode set", ip("10.0.0.1", { ipMode: "VIP" }), ip("10.0.0.1"), false],
    ["different ipmode", ip("10.0.0.1", { ipMode: "VIP" }), ip("10.0.0.1", { ipMode: "Proxy" }), false],
    ["same ports", ip("10.0.0.1", { ports: [port("TCP")] }), ip("10.0.0.1", { ports: [port("TCP")] }), true],
    [
      "same ports different protocol",
      ip("10.0.0.1", { ports: [port("TCP")] }),
      ip("10.0.0.1", { ports: [port("UDP")] }),
      false,
    ],
    ["only one port", ip("10.0.0.1", { ports: [port("TCP")] }), ip("10.0.0.1"), false],
  ] as const)("%s", (_name, left, right, expected) => {
    expect(sameStatus(left, right)).toBe(expected);
    expect(sameStatus(right, left)).toBe(expected);
  });

  test("treats an absent list as empty, nested lists included", () => {
    expect(sameStatus({}, { ingress: [] })).toBe(true);
    expect(sameStatus(ip("10.0.0.1"), ip("10.0.0.1", { ports: [] }))).toBe(true);
  });

  test("detects a changed hostname, port error or order", () => {
    expect(sameStatus({ ingress: [{ hostname: "a" }] }, { ingress: [{ hostname: "b" }] })).toBe(false);
    const failing = ip("10.0.0.1", { ports: [{ ...port("TCP"), error: "Example" }] });
    expect(sameStatus(ip("10.0.0.1", { ports: [port("TCP")] }), failing)).toBe(false);
    const [a, b] = [{ ip: "10.0.0.1" }, { ip: "10.0.0.2" }];
    expect(sameStatus({ ingress: [a, b] }, { ingress: [b, a] })).toBe(false);
  });

  test("ignores the ipMode that the API server defaults, not one that the cloud sets", () => {
    const served = ip("10.0.0.1", { ipMode: "VIP" });
    expect(sameStatus(asServed(ip("10.0.0.1")), asServed(served))).toBe(true);
    expect(sameStatus(asServed(ip("10.0.0.1", { ipMode: "Proxy" })), asServed(served))).toBe(false);
    expect(asServed({ ingress: [{ hostname: "a" }] })).toEqual({ ingress: [{ hostname: "a" }] });
  });
});
