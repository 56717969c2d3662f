import { describe, expect, test } from "bun:test";

import type { LoadBalancerStatus } from "cloud-controller-host/sdk";

import { hasFinalizer, needsCleanup, wantsLoadBalancer } from "../../../plugins/service-lb/predicates.ts";
import {
  asServed,
  finalizerAdded,
  finalizerRemoved,
  sameStatus,
  statusWritten,
} from "../../../plugins/service-lb/service-writes.ts";
import { aService, finalizer } from "./objects.ts";

const withFinalizers = (...finalizers: readonly string[]) => aService({ meta: { finalizers } });
const gone = { deletionTimestamp: "2026-01-01T00:00:00Z" };
const ours = { finalizers: [finalizer] };

describe("TestHasLBFinalizer", () => {
  test.each([
    ["service without finalizer", [], false],
    ["service with unrelated finalizer", ["unrelated"], false],
    ["service with one finalizer", [finalizer], true],
    ["service with multiple finalizers", [finalizer, "unrelated"], true],
  ] as const)("%s", (_name, finalizers, expected) => {
    expect(hasFinalizer(withFinalizers(...finalizers))).toBe(expected);
  });
});

describe("TestNeedsCleanup", () => {
  test.each([
    ["service without finalizer", aService(), false],
    ["service with finalizer without timestamp without LB", aService({ meta: ours, spec: { type: "NodePort" } }), true],
    ["service with finalizer without timestamp with LB", aService({ meta: ours }), false],
    ["service with finalizer with timestamp", aService({ meta: { ...ours, ...gone } }), true],
  ] as const)("%s", (_name, service, expected) => {
    expect(needsCleanup(service)).toBe(expected);
  });

  test("a class spares a Service until it is deleted, and then it is let go all the same", () => {
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

describe("Test_getPatchBytes", () => {
  test("a finalizer beside another is put last, and nothing else is said", () => {
    expect(finalizerAdded(withFinalizers("foo"))).toEqual({
      metadata: { "$setElementOrder/finalizers": ["foo", finalizer], finalizers: [finalizer] },
    });
  });

  test("the first finalizer is said without an order", () => {
    expect(finalizerAdded(aService())).toEqual({ metadata: { finalizers: [finalizer] } });
  });

  test("ours is taken from among others with upstream's body", () => {
    expect(finalizerRemoved(withFinalizers("foo", finalizer, "bar"))).toEqual({
      metadata: {
        "$deleteFromPrimitiveList/finalizers": [finalizer],
        "$setElementOrder/finalizers": ["foo", "bar"],
      },
    });
  });

  test("the last known finalizer is taken by name, never by emptying the list", () => {
    expect(finalizerRemoved(withFinalizers(finalizer))).toEqual({
      metadata: { "$deleteFromPrimitiveList/finalizers": [finalizer] },
    });
  });

  test("a status is its ingress, and an empty one is null", () => {
    const ingress = [{ ip: "20.0.0.1" }];
    expect(statusWritten({ ingress })).toEqual({ status: { loadBalancer: { ingress } } });
    for (const empty of [{}, { ingress: [] }])
      expect(statusWritten(empty)).toEqual({ status: { loadBalancer: { ingress: null } } });
  });
});

const ip = (of: string, more: object = {}): LoadBalancerStatus => ({ ingress: [{ ip: of, ...more }] });
const port = (protocol: string) => ({ port: 80, protocol });

describe("TestLoadBalancerStatusEqual", () => {
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

  test("an absent list is an empty one, inside as well", () => {
    expect(sameStatus({}, { ingress: [] })).toBe(true);
    expect(sameStatus(ip("10.0.0.1"), ip("10.0.0.1", { ports: [] }))).toBe(true);
  });

  test("sees another host name, another error of a port and another order", () => {
    expect(sameStatus({ ingress: [{ hostname: "a" }] }, { ingress: [{ hostname: "b" }] })).toBe(false);
    const failing = ip("10.0.0.1", { ports: [{ ...port("TCP"), error: "Example" }] });
    expect(sameStatus(ip("10.0.0.1", { ports: [port("TCP")] }), failing)).toBe(false);
    const [a, b] = [{ ip: "10.0.0.1" }, { ip: "10.0.0.2" }];
    expect(sameStatus({ ingress: [a, b] }, { ingress: [b, a] })).toBe(false);
  });

  test("the mode that the API server fills in makes no difference, one that the cloud asks for does", () => {
    const served = ip("10.0.0.1", { ipMode: "VIP" });
    expect(sameStatus(asServed(ip("10.0.0.1")), asServed(served))).toBe(true);
    expect(sameStatus(asServed(ip("10.0.0.1", { ipMode: "Proxy" })), asServed(served))).toBe(false);
    expect(asServed({ ingress: [{ hostname: "a" }] })).toEqual({ ingress: [{ hostname: "a" }] });
  });
});
