import { describe, expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { serviceSelection, triggers } from "../../../plugins/service-lb/predicates.ts";
import { aService, type ServiceFields } from "./objects.ts";

const { changeToFollow } = serviceSelection({});
const needsUpdate = (before: Service, after: Service): boolean => changeToFollow(before, after) !== undefined;

const ports = (...numbers: readonly number[]): ServiceFields => ({
  spec: { ports: numbers.map((port) => ({ name: `port-${port}`, port, protocol: "TCP" })) },
});
const target = (targetPort: number | string): ServiceFields => ({ spec: { ports: [{ port: 80, targetPort }] } });
const appProtocol = (word?: string): ServiceFields => ({
  spec: { ports: [{ port: 80, ...(word === undefined ? {} : { appProtocol: word }) }] },
});
const ips = (...externalIPs: readonly string[]): ServiceFields => ({ spec: { externalIPs } });
const families = (...ipFamilies: readonly string[]): ServiceFields => ({ spec: { ipFamilies } });
const uid = (of: string): ServiceFields => ({ meta: { uid: of } });

interface Row {
  readonly name: string;
  readonly before: ServiceFields;
  readonly after: ServiceFields;
  readonly needs: boolean;
}

const upstream: readonly Row[] = [
  {
    name: "If the service type is changed from LoadBalancer to ClusterIP",
    before: {},
    after: { spec: { type: "ClusterIP" } },
    needs: true,
  },
  {
    name: "If the Ports are different",
    before: ports(8000, 9000, 10_000),
    after: ports(8001, 9001, 10_001),
    needs: true,
  },
  {
    name: "If external ip counts are different",
    before: ips("34.1.1.1"),
    after: ips("34.1.1.1", "34.2.2.2"),
    needs: true,
  },
  { name: "If external ips are different", before: ips("34.1.1.1"), after: ips("34.2.2.2"), needs: true },
  { name: "If UID is different", before: uid("UID1"), after: uid("UID2"), needs: true },
  {
    name: "If ExternalTrafficPolicy is different",
    before: {},
    after: { spec: { externalTrafficPolicy: "Local" } },
    needs: true,
  },
  {
    name: "If HealthCheckNodePort is different",
    before: { spec: { healthCheckNodePort: 0 } },
    after: { spec: { healthCheckNodePort: 30_123 } },
    needs: true,
  },
  { name: "If TargetGroup is different 1", before: target(20), after: target(21), needs: true },
  { name: "If TargetGroup is different 2", before: target(22), after: target("dns"), needs: true },
  { name: "If appProtocol is the same", before: appProtocol("http"), after: appProtocol("http"), needs: false },
  {
    name: "If service IPFamilies from single stack to dual stack",
    before: families("IPv4"),
    after: families("IPv4", "IPv6"),
    needs: true,
  },
  {
    name: "If service IPFamilies from dual stack to single stack",
    before: families("IPv4", "IPv6"),
    after: families("IPv4"),
    needs: true,
  },
  { name: "If service IPFamilies not change", before: families("IPv4"), after: families("IPv4"), needs: false },
  {
    name: "If appProtocol is set when previously unset",
    before: appProtocol(),
    after: appProtocol("http"),
    needs: true,
  },
  {
    name: "If appProtocol is set to a different value",
    before: appProtocol("http"),
    after: appProtocol("tcp"),
    needs: true,
  },
];

describe("a Service that needs an update", () => {
  test.each(upstream.map((row) => [row.name, row] as const))("%s", (_name, { before, after, needs }) => {
    expect(needsUpdate(aService(before), aService(after))).toBe(needs);
  });
});

/** One change for each row of the decision table, and those outside of it. */
const followed: Readonly<Record<string, ServiceFields>> = {
  type: { spec: { type: "NodePort" } },
  loadBalancerSourceRanges: { spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] } },
  ports: { spec: { ports: [{ port: 80, protocol: "UDP" }] } },
  sessionAffinity: { spec: { sessionAffinity: "ClientIP" } },
  sessionAffinityConfig: { spec: { sessionAffinityConfig: { clientIP: { timeoutSeconds: 5 } } } },
  loadBalancerIP: { spec: { loadBalancerIP: "20.0.0.1" } },
  externalIPs: ips("34.1.1.1"),
  annotations: { meta: { annotations: { "example.com/any": "" } } },
  uid: uid("other"),
  externalTrafficPolicy: { spec: { externalTrafficPolicy: "Cluster" } },
  healthCheckNodePort: { spec: { healthCheckNodePort: 30_123 } },
  "number of ipFamilies": families("IPv6"),
};

const ignored: Readonly<Record<string, ServiceFields>> = {
  labels: { meta: { labels: { app: "web" } } },
  selector: { spec: { selector: { app: "web" } } },
  finalizers: { meta: { finalizers: ["example.com/any"] } },
  status: { status: { loadBalancer: { ingress: [{ ip: "20.0.0.1" }] } } },
  clusterIPs: { spec: { clusterIP: "10.0.0.1", clusterIPs: ["10.0.0.1"] } },
  internalTrafficPolicy: { spec: { internalTrafficPolicy: "Local" } },
  allocateLoadBalancerNodePorts: { spec: { allocateLoadBalancerNodePorts: false } },
  publishNotReadyAddresses: { spec: { publishNotReadyAddresses: true } },
  trafficDistribution: { spec: { trafficDistribution: "PreferClose" } },
  ipFamilyPolicy: { spec: { ipFamilyPolicy: "PreferDualStack" } },
  deletionTimestamp: { meta: { deletionTimestamp: "2026-01-01T00:00:00Z" } },
  resourceVersion: { meta: { resourceVersion: "2" } },
};

const clusterIP = ({ meta, spec }: ServiceFields): Service =>
  aService({ ...(meta === undefined ? {} : { meta }), spec: { ...spec, type: "ClusterIP" } });
const ranges = (...of: readonly string[]): Service => aService({ spec: { loadBalancerSourceRanges: of } });

describe("a change of a Service", () => {
  test("every row of the decision table has an example in this test", () => {
    expect(Object.keys(followed)).toEqual(["type", ...triggers.map(({ change }) => change)]);
  });

  test.each(Object.entries(followed))("requires an update, named in the log, when it affects %s", (change, fields) => {
    expect(changeToFollow(aService(), aService(fields))).toBe(change);
  });

  test.each(Object.entries(ignored))("requires no update when it affects %s", (_change, fields) => {
    expect(changeToFollow(aService(), aService(fields))).toBeUndefined();
  });

  test.each(Object.entries(followed))("is ignored for a Service that never was a load balancer: %s", (_c, fields) => {
    expect(changeToFollow(clusterIP({}), clusterIP(fields))).toBeUndefined();
  });

  test("requires an update when a class is set or cleared together with the type", () => {
    const classed = aService({ spec: { loadBalancerClass: "" } });
    expect(changeToFollow(aService(), classed)).toBe("type");
    expect(changeToFollow(classed, aService())).toBe("type");
  });

  test("compares lists in order, and IP families by their number only", () => {
    expect(changeToFollow(ranges("10.0.0.0/8", "11.0.0.0/8"), ranges("11.0.0.0/8", "10.0.0.0/8"))).toBe(
      "loadBalancerSourceRanges",
    );
    expect(changeToFollow(aService(families("IPv4")), aService(families("IPv6")))).toBeUndefined();
  });

  test.each(["name", "protocol", "port", "nodePort", "targetPort", "appProtocol"])(
    "detects a change to the %s of a port",
    (field) => {
      const other = { name: "x", protocol: "SCTP", port: 81, nodePort: 30_000, targetPort: "80", appProtocol: "" };
      const changed = Object.entries(other).filter(([key]) => key === field);
      const port = { port: 80, protocol: "TCP", targetPort: 80 };
      const after = { ...port, ...Object.fromEntries(changed) };
      expect(changeToFollow(aService({ spec: { ports: [port] } }), aService({ spec: { ports: [after] } }))).toBe(
        "ports",
      );
    },
  );
});

const seed = 20_260_101;

/** Any mixture of the examples above, on one of a few types. */
const anyService = fc
  .tuple(
    fc.constantFrom("LoadBalancer", "ClusterIP", "NodePort"),
    fc.boolean(),
    fc.subarray(Object.values({ ...followed, ...ignored })),
  )
  .map(([type, classed, parts]) =>
    aService({
      meta: Object.assign({}, ...parts.map(({ meta }) => meta)),
      spec: Object.assign({}, ...parts.map(({ spec }) => spec), { type }, classed ? { loadBalancerClass: "x" } : {}),
    }),
  );

describe(`whatever the Services are (seed ${seed})`, () => {
  test("a Service needs no update against itself", () => {
    fc.assert(
      fc.property(anyService, (service) => !needsUpdate(service, structuredClone(service))),
      { seed },
    );
  });

  test("a change that needs an update also needs one in reverse", () => {
    fc.assert(
      fc.property(anyService, anyService, (a, b) => needsUpdate(a, b) === needsUpdate(b, a)),
      { seed, numRuns: 1000 },
    );
  });

  test("fields outside the table never require an update", () => {
    fc.assert(
      fc.property(
        anyService,
        anyService,
        fc.constantFrom(...Object.values(ignored)),
        (a, b, { meta, spec, status }) => {
          const changed: Service = {
            ...b,
            metadata: { ...b.metadata, ...meta },
            spec: { ...b.spec, ...spec },
            ...(status === undefined ? {} : { status }),
          };
          expect(changeToFollow(a, changed)).toBe(changeToFollow(a, b));
        },
      ),
      { seed, numRuns: 1000 },
    );
  });
});

test("a Service that another deployment has marked wants no load balancer from a process that serves all others", () => {
  const { wantsLoadBalancer, isLeftAlone } = serviceSelection({}, { own: "a" });
  const markedBy = (mark: string): Service =>
    aService({ meta: { annotations: { "cloud-controller-host/served-by": mark } } });
  const services = [aService(), markedBy("a"), markedBy("b"), markedBy("")];
  expect(services.map(wantsLoadBalancer)).toEqual([true, true, false, true]);
  expect(services.map(isLeftAlone)).toEqual([false, false, true, false]);
});
