import { describe, expect, test } from "bun:test";

import {
  allowsAll,
  defaultLoadBalancerName,
  loadBalancerSourceRanges,
  messageOf,
  needsHealthCheck,
  requestsOnlyLocalTraffic,
  type Service,
  serviceHealthCheck,
} from "cloud-controller-host/sdk";

const annotationKey = "service.beta.kubernetes.io/load-balancer-source-ranges";
const bySpec = (text: string): Service => ({ spec: { loadBalancerSourceRanges: text.split(",") } });
const byAnnotation = (text: string): Service => ({ metadata: { annotations: { [annotationKey]: text } } });
const sources = [
  ["spec", bySpec, "spec.loadBalancerSourceRanges"],
  ["annotation", byAnnotation, annotationKey],
] as const;

describe("the source ranges of a Service", () => {
  describe.each(sources)("through the %s", (_name, serviceWith, where) => {
    test.each(["10.0.0.1/33", "foo.bar", "10.0.0.1/32,*", "10.0.0.1/32,", "10.0.0.1/32, ", "10.0.0.1"])(
      "rejects %s with a message that names its source",
      (text) => {
        let problem = "";
        try {
          loadBalancerSourceRanges(serviceWith(text));
        } catch (error) {
          problem = messageOf(error);
        }
        expect(problem).toContain(where);
      },
    );

    test.each([
      ["192.168.0.1/32", ["192.168.0.1/32"]],
      ["192.168.0.1/32,192.168.0.1/32", ["192.168.0.1/32"]],
      ["192.168.0.1/32,192.168.0.2/32", ["192.168.0.1/32", "192.168.0.2/32"]],
      ["  192.168.0.1/32 , 192.168.0.2/32   ", ["192.168.0.1/32", "192.168.0.2/32"]],
      ["10.1.2.3/8,fd00::1/64", ["10.0.0.0/8", "fd00::/64"]],
    ])("accepts %s", (text, ranges) => {
      expect(loadBalancerSourceRanges(serviceWith(text))).toEqual(ranges);
    });
  });

  test.each([
    ["a Service without source ranges", {}],
    ["an empty annotation", byAnnotation(" ")],
    ["an empty list", { spec: { loadBalancerSourceRanges: [] } }],
  ])("%s allows all source addresses", (_name, service) => {
    expect(loadBalancerSourceRanges(service)).toEqual(["0.0.0.0/0"]);
    expect(allowsAll(loadBalancerSourceRanges(service))).toBe(true);
  });

  test("the annotation is ignored when the spec has ranges, even when it is invalid", () => {
    expect(loadBalancerSourceRanges({ ...byAnnotation("foo.bar"), ...bySpec("10.0.0.0/8") })).toEqual(["10.0.0.0/8"]);
  });
});

describe("ranges that allow all", () => {
  test.each([
    ["10.0.0.1/32", false],
    ["10.0.0.1/32,10.0.0.2/32", false],
    ["10.0.0.1/32,10.0.0.1/32", false],
    ["0.0.0.0/0", true],
    ["192.168.0.0/0", true],
    ["192.168.0.1/32,0.0.0.0/0", true],
    ["::/0", false],
  ])("%s", (text, all) => {
    expect(allowsAll(loadBalancerSourceRanges(bySpec(text)))).toBe(all);
  });
});

const of = (type?: string, externalTrafficPolicy?: string): Service => ({
  spec: {
    ...(type === undefined ? {} : { type }),
    ...(externalTrafficPolicy === undefined ? {} : { externalTrafficPolicy }),
  },
});

describe("a Service of local traffic only", () => {
  test.each([
    [undefined, undefined, false],
    ["ClusterIP", undefined, false],
    ["NodePort", undefined, false],
    ["NodePort", "Cluster", false],
    ["NodePort", "Local", true],
    ["LoadBalancer", "Cluster", false],
    ["LoadBalancer", "Local", true],
    ["ClusterIP", "Local", false],
  ])("%s, %s", (type, policy, local) => {
    expect(requestsOnlyLocalTraffic(of(type, policy))).toBe(local);
  });
});

describe("a Service that needs a health check", () => {
  test.each([
    ["ClusterIP", undefined, false],
    ["NodePort", "Cluster", false],
    ["NodePort", "Local", false],
    ["LoadBalancer", "Cluster", false],
    ["LoadBalancer", "Local", true],
  ])("%s, %s", (type, policy, needed) => {
    expect(needsHealthCheck(of(type, policy))).toBe(needed);
  });
});

test("the health check uses /healthz on the health check node port, when required and set", () => {
  const local = of("LoadBalancer", "Local");
  const withPort = (service: Service, healthCheckNodePort: number): Service => ({
    spec: { ...service.spec, healthCheckNodePort },
  });
  expect(serviceHealthCheck(withPort(local, 30_123))).toEqual({ path: "/healthz", port: 30_123 });
  expect(serviceHealthCheck(withPort(local, 0))).toBeUndefined();
  expect(serviceHealthCheck(local)).toBeUndefined();
  expect(serviceHealthCheck(withPort(of("LoadBalancer", "Cluster"), 30_123))).toBeUndefined();
});

test("a load balancer's default name comes from the Service's UID, at most 32 characters long", () => {
  const uid = "5be79eb7-fc7f-4e0a-9de6-841691e8d6b2";
  expect(defaultLoadBalancerName({ metadata: { uid } })).toBe("a5be79eb7fc7f4e0a9de6841691e8d6b");
  expect(defaultLoadBalancerName({ metadata: { uid: "short" } })).toBe("ashort");
});
