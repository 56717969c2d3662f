import { describe, expect, test } from "bun:test";

import type { LoadBalancingRule, Probe } from "@azure/arm-network";

import type { Family } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { equalProbes } from "../../../../../../plugins/azure-cloud/load-balancer/plan/balancer/probes.ts";
import { desiredRules, equalRules } from "../../../../../../plugins/azure-cloud/load-balancer/plan/balancer/rules.ts";
import { readSubject } from "../../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";

type Config = ReturnType<typeof plannerConfigOf>;

const standard = plannerConfigOf();
const basic = plannerConfigOf({ loadBalancerSku: "basic" });
const targets = { loadBalancer: "/lb", frontend: "/lb/frontendIPConfigurations/f", pool: "/lb/backendAddressPools/p" };
const tcp = (port: number, more = {}) => ({
  name: `port-tcp-${port}`,
  protocol: "TCP",
  port,
  nodePort: port + 10_000,
  ...more,
});

function desired(shape: ServiceShape, config: Config = standard, family: Family = "IPv4") {
  const { service } = intentOf({ name: "test1", ...shape, spec: { ports: [tcp(80)], ...shape.spec } });
  return desiredRules(readSubject(service, config).subject, family, targets, config);
}

const internal = { "azure-load-balancer-internal": "true" };
const allPorts = { ...internal, "azure-load-balancer-enable-high-availability-ports": "true" };
const direct = { "azure-disable-load-balancer-floating-ip": "true" };
const probe = (port: number, more = {}) => ({
  protocol: "Tcp",
  port,
  intervalInSeconds: 5,
  probeThreshold: 2,
  ...more,
});
const only = (shape: ServiceShape, config?: Config, family?: Family) => {
  const { rules, probes, problems } = desired(shape, config, family);
  return { rule: rules[0], probe: probes[0], rules: rules.length, probes: probes.length, problems };
};

describe("load balancing rules and probes", () => {
  test("a basic load balancer has a Tcp probe and rules without enableTcpReset", () => {
    const { rule, probe: found } = only({}, basic);
    expect(found).toMatchObject(probe(10_080));
    expect(rule).not.toHaveProperty("enableTcpReset");
  });

  test.each([["Mongodb"], ["Https"]])("appProtocol `%s` on a basic load balancer has a Tcp probe", (appProtocol) => {
    expect(only({ spec: { ports: [tcp(80, { appProtocol })] } }, basic).probe).toMatchObject(probe(10_080));
  });

  test("external SCTP on a standard load balancer is an error", () => {
    const { problems } = desired({ spec: { ports: [{ protocol: "SCTP", port: 80, nodePort: 10_080 }] } });
    expect(problems).toEqual([expect.stringContaining("SCTP is only supported on standard loadbalancer")]);
  });

  test("a standard load balancer has a Tcp probe and rules with enableTcpReset", () => {
    const { rule, probe: found } = only({});
    expect(found).toMatchObject(probe(10_080));
    expect(rule).toMatchObject({
      name: "atest1-TCP-80",
      protocol: "Tcp",
      frontendPort: 80,
      backendPort: 80,
      enableFloatingIP: true,
      enableTcpReset: true,
      idleTimeoutInMinutes: 4,
      loadDistribution: "Default",
      disableOutboundSnat: false,
      probe: { id: "/lb/probes/atest1-TCP-80" },
    });
  });

  test("appProtocol Http with the path annotation `/healthy` has an Http probe of `/healthy`", () => {
    const shape = { annotations: { "azure-load-balancer-health-probe-request-path": "/healthy" } };
    const { probe: found } = only({ ...shape, spec: { ports: [tcp(80, { appProtocol: "Http" })] } });
    expect(found).toMatchObject(probe(10_080, { protocol: "Http", requestPath: "/healthy" }));
  });

  test("appProtocol Https with the path `/healthy1` has an Https probe", () => {
    const shape = { annotations: { "azure-load-balancer-health-probe-request-path": "/healthy1" } };
    const { probe: found } = only({ ...shape, spec: { ports: [tcp(80, { appProtocol: "Https" })] } });
    expect(found).toMatchObject(probe(10_080, { protocol: "Https", requestPath: "/healthy1" }));
  });

  test("an internal single-stack IPv6 Service uses nodePort 10080 as backend port, without floating IP", () => {
    const { rule } = only({ annotations: internal, spec: { ipFamilies: ["IPv6"] } }, standard, "IPv6");
    expect(rule).toMatchObject({ name: "atest1-TCP-80", backendPort: 10_080, enableFloatingIP: false });
  });

  test("HA ports of an internal Service have one rule of protocol All with port 0, and one Tcp probe of the first port", () => {
    const { rule, rules, probes, probe: found } = only({ annotations: allPorts });
    expect([rules, probes]).toEqual([1, 1]);
    expect(rule).toMatchObject({
      protocol: "All",
      frontendPort: 0,
      backendPort: 0,
      enableFloatingIP: true,
      enableTcpReset: true,
    });
    expect(found).toMatchObject(probe(10_080, { name: "atest1-TCP-80" }));
  });

  test("HA ports of an internal SCTP Service have a rule of protocol All and no probe", () => {
    const { rule, probes } = only({
      annotations: allPorts,
      spec: { ports: [{ protocol: "SCTP", port: 80, nodePort: 10_080 }] },
    });
    expect([rule?.protocol, probes]).toEqual(["All", 0]);
    expect(rule).not.toHaveProperty("probe");
  });

  test("HA ports of an internal Service with ports 80 and 8080 have one rule", () => {
    expect(only({ annotations: allPorts, spec: { ports: [tcp(80), tcp(8080)] } }).rules).toBe(1);
  });

  test("HA is ignored by external and by basic load balancers", () => {
    const external = { "azure-load-balancer-enable-high-availability-ports": "true" };
    expect(only({ annotations: external }).rule?.frontendPort).toBe(80);
    expect(only({ annotations: allPorts }, basic).rule?.frontendPort).toBe(80);
  });

  test("an appProtocol that is a property of every object has a Tcp probe, as any unknown one", () => {
    expect(only({ spec: { ports: [tcp(80, { appProtocol: "constructor" })] } }).probe).toMatchObject(probe(10_080));
  });

  test("appProtocol Tcp has no probe path", () => {
    expect(only({ spec: { ports: [tcp(80, { appProtocol: "Tcp" })] } }).probe).not.toHaveProperty("requestPath");
  });

  test.each([
    ["standard", standard],
    ["basic", basic],
  ])("a path of a port with the protocol `TCP1` has a Tcp probe: %s", (_sku, config) => {
    const annotations = { "port_80_health-probe_protocol": "TCP1", "port_80_health-probe_request-path": "/healthy" };
    expect(only({ annotations }, config).probe).toMatchObject(probe(10_080));
  });

  test.each([
    ["https", "Https", "/healthy1"],
    ["http", "Http", "/healthy1"],
    ["tcp", "Tcp", undefined],
  ])(
    "the global protocol `%s` with the path `/healthy1` of a port has a matching probe",
    (word, protocol, requestPath) => {
      const annotations = {
        "azure-load-balancer-health-probe-protocol": word,
        "port_80_health-probe_request-path": "/healthy1",
      };
      const { probe: found } = only({ annotations });
      expect([found?.protocol, found?.requestPath]).toEqual([protocol, requestPath]);
    },
  );

  test("the path `/healthy2` of a port overrides the global path `/healthy1`", () => {
    const annotations = {
      "azure-load-balancer-health-probe-protocol": "http",
      "azure-load-balancer-health-probe-request-path": "/healthy1",
      "port_80_health-probe_request-path": "/healthy2",
    };
    expect(only({ annotations }).probe?.requestPath).toBe("/healthy2");
  });

  test.each([["https"], ["tcp"]])("an interval of 10 with a threshold of 20 is an error with %s", (protocol) => {
    const annotations = {
      "azure-load-balancer-health-probe-protocol": protocol,
      "azure-load-balancer-health-probe-interval": "10",
      "azure-load-balancer-health-probe-num-of-probe": "20",
    };
    expect(desired({ annotations }).problems).toEqual([expect.stringContaining("total probe should be less than 120")]);
  });

  test("an interval of 20 with a threshold of 5 is accepted for Https `/healthy1`", () => {
    const annotations = {
      "azure-load-balancer-health-probe-protocol": "Https",
      "azure-load-balancer-health-probe-request-path": "/healthy1",
      "azure-load-balancer-health-probe-interval": "20",
      "azure-load-balancer-health-probe-num-of-probe": "5",
    };
    expect(only({ annotations }).probe).toMatchObject({
      protocol: "Https",
      requestPath: "/healthy1",
      intervalInSeconds: 20,
      probeThreshold: 5,
    });
  });

  test("Http default path `/`", () => {
    expect(only({ annotations: { "azure-load-balancer-health-probe-protocol": "http" } }).probe?.requestPath).toBe("/");
  });

  test("disable-floating-ip on a basic load balancer sets backendPort to nodePort, without floating IP", () => {
    const { rule } = only({ annotations: { "azure-disable-load-balancer-floating-ip": "true" } }, basic);
    expect(rule).toMatchObject({ backendPort: 10_080, enableFloatingIP: false });
  });

  test("`port_80_health-probe_protocol: HtTp` overrides `appProtocol` and the global protocol", () => {
    const annotations = {
      "port_80_health-probe_protocol": "HtTp",
      "azure-load-balancer-health-probe-protocol": "https",
    };
    expect(only({ annotations, spec: { ports: [tcp(80, { appProtocol: "tcp" })] } }).probe?.protocol).toBe("Http");
    const global = { "azure-load-balancer-health-probe-protocol": "https" };
    expect(only({ annotations: global, spec: { ports: [tcp(80, { appProtocol: "tcp" })] } }).probe?.protocol).toBe(
      "Tcp",
    );
  });

  test("disable-tcp-reset turns off enableTcpReset", () => {
    expect(only({ annotations: { "azure-load-balancer-disable-tcp-reset": "true" } }).rule?.enableTcpReset).toBe(false);
  });

  test("the unknown protocol `FooBar` of a port has a Tcp probe", () => {
    expect(only({ annotations: { "port_80_health-probe_protocol": "FooBar" } }).probe?.protocol).toBe("Tcp");
  });

  test("a blank protocol of the port is Tcp, whatever the others are", () => {
    const annotations = { "port_80_health-probe_protocol": " ", "azure-load-balancer-health-probe-protocol": "http" };
    expect(only({ annotations, spec: { ports: [tcp(80, { appProtocol: "https" })] } }).probe?.protocol).toBe("Tcp");
  });

  test("a path is sent as it is, even when it is empty", () => {
    const global = {
      "azure-load-balancer-health-probe-protocol": "http",
      "azure-load-balancer-health-probe-request-path": "",
    };
    expect(only({ annotations: global }).probe?.requestPath).toBe("");
    const ofPort = {
      ...global,
      "azure-load-balancer-health-probe-request-path": "/all",
      "port_80_health-probe_request-path": "",
    };
    expect(only({ annotations: ofPort }).probe?.requestPath).toBe("");
  });

  test.each([
    ["the name of a port in any case", "PORT-TCP-80", undefined, "port-tcp-80"],
    ["an empty name, which is that of a port without a name", "", undefined, undefined],
    ["an empty name when every port has one", "", "port_80_health-probe_port", "port-tcp-80"],
  ])("probe port: %s", (_what, given, problem, name) => {
    const annotations = { "port_80_health-probe_port": given };
    const { nodePort, port, protocol } = tcp(80);
    const named = name === undefined ? {} : { name };
    const { problems, probe: found } = only({ annotations, spec: { ports: [{ ...named, nodePort, port, protocol }] } });
    if (problem === undefined) expect(found).toMatchObject(probe(10_080));
    else expect(problems).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    ["ports 80 and 8000, `port_8000_health-probe_port: port-tcp-80`: probe of 8000 on 10080", "port-tcp-80", 10_080],
    ["`port_8000_health-probe_port: 80`: 10080", "80", 10_080],
    ["`5080`: 5080", "5080", 5080],
  ])("%s", (_title, port, expected) => {
    const annotations = { "port_8000_health-probe_port": port };
    const { probes } = desired({ annotations, spec: { ports: [tcp(80), tcp(8000)] } });
    expect(probes.find(({ name }) => name === "atest1-TCP-8000")?.port).toBe(expected);
  });

  test.each([
    ["its number", "53"],
    ["the name of the TCP port", "port-tcp-53"],
  ])("a TCP probe of a number that a UDP port has as well, given by %s, is sent to the TCP node port", (_how, port) => {
    const udpPort = { name: "dns", protocol: "UDP", port: 53, nodePort: 31_053 };
    const annotations = { "port_53_health-probe_port": port };
    const { probes } = desired({ annotations, spec: { ports: [udpPort, tcp(53, { protocol: undefined })] } });
    expect(probes.map(({ port: probed }) => probed)).toEqual([10_053]);
  });

  test("a probe port that only a UDP port has stands for that one's node port, as upstream", () => {
    const udpPort = { name: "dns", protocol: "UDP", port: 53, nodePort: 31_053 };
    const annotations = { "port_80_health-probe_port": "53" };
    const { probes } = desired({ annotations, spec: { ports: [udpPort, tcp(80)] } });
    expect(probes.map(({ port: probed }) => probed)).toEqual([31_053]);
  });

  test.each([["nowhere"], ["65536"], ["-1"], ["0"]])(
    "a probe port %p is an error that names the annotation",
    (port) => {
      const { problems } = desired({ annotations: { "port_80_health-probe_port": port } });
      expect(problems).toEqual([expect.stringContaining("port_80_health-probe_port")]);
    },
  );

  test("`port_8000_no_probe_rule: true` leaves rule 8000 without a probe", () => {
    const { rules, probes } = desired({
      annotations: { port_8000_no_probe_rule: "true" },
      spec: { ports: [tcp(80), tcp(8000)] },
    });
    expect([rules.length, probes.length]).toEqual([2, 1]);
    expect(rules.find(({ frontendPort }) => frontendPort === 8000)).not.toHaveProperty("probe");
  });

  test("`port_8000_no_lb_rule: true` leaves only port 80", () => {
    const { rules, probes } = desired({
      annotations: { port_8000_no_lb_rule: "true" },
      spec: { ports: [tcp(80), tcp(8000)] },
    });
    expect([rules.map(({ frontendPort }) => frontendPort), probes.length]).toEqual([[80], 1]);
  });

  test("an idle timeout of 5 minutes is set on a rule with interval 10 and threshold 10", () => {
    const annotations = {
      "azure-load-balancer-tcp-idle-timeout": "5",
      "azure-load-balancer-health-probe-interval": "10",
      "azure-load-balancer-health-probe-num-of-probe": "10",
    };
    const { rule, probe: found } = only({ annotations });
    expect([rule?.idleTimeoutInMinutes, found?.intervalInSeconds, found?.probeThreshold]).toEqual([5, 10, 10]);
  });

  const local = { externalTrafficPolicy: "Local", healthCheckNodePort: 34_567, ports: [tcp(80), tcp(443), tcp(421)] };

  test("local traffic with healthCheckNodePort 34567 has one HTTP `/healthz` probe `atest1-TCP-34567` for the rules of all ports", () => {
    const annotations = { "port_80_health-probe_protocol": "https", "port_80_health-probe_request-path": "/broken" };
    const { rules, probes } = desired({ annotations, spec: local });
    expect(probes).toEqual([
      {
        name: "atest1-TCP-34567",
        protocol: "Http",
        port: 34_567,
        requestPath: "/healthz",
        intervalInSeconds: 5,
        probeThreshold: 2,
      },
    ]);
    expect(new Set(rules.map((rule) => rule.probe?.id))).toEqual(new Set(["/lb/probes/atest1-TCP-34567"]));
  });

  const proxy = {
    "azure-pls-create": "true",
    "azure-pls-proxy-protocol": "true",
    "azure-load-balancer-health-probe-protocol": "Https",
    "azure-load-balancer-health-probe-request-path": "/broken/local/path",
    "azure-load-balancer-health-probe-interval": "7",
    "azure-load-balancer-health-probe-num-of-probe": "15",
  };

  test.each([
    ["ETP Local + PLS create + proxy protocol: Https probe `/broken/local/path`, 7 s × 15, on 10080", {}, 10_080],
    ["same with probe port 421: literal 421", { "port_80_health-probe_port": "421" }, 421],
  ])("%s", (_title, more, port) => {
    const { probe: found } = only({ annotations: { ...proxy, ...more }, spec: { ...local, ports: [tcp(80)] } });
    expect(found).toMatchObject({
      protocol: "Https",
      requestPath: "/broken/local/path",
      intervalInSeconds: 7,
      probeThreshold: 15,
      port,
    });
  });
});

describe("load balancing rules and probes", () => {
  const global = (key: string, value: string) => ({ [`azure-load-balancer-health-probe-${key}`]: value });

  test.each([
    ["threshold `5a`: error", global("num-of-probe", "5a"), "health-probe-num-of-probe"],
    ["interval 1: error", global("interval", "1"), "health-probe-interval"],
    ["threshold 1: error", global("num-of-probe", "1"), "health-probe-num-of-probe"],
    ["per-port interval 1: error", { "port_80_health-probe_interval": "1" }, "port_80_health-probe_interval"],
    ["per-port threshold 1: error", { "port_80_health-probe_num-of-probe": "1" }, "port_80_health-probe_num-of-probe"],
  ])("%s", (_title, annotations, key) => {
    const { service } = intentOf({ name: "test1", annotations: { ...annotations } });
    expect(readSubject(service, standard).problems).toEqual([expect.stringContaining(key)]);
  });

  test("an interval of 10 with a threshold of 12 is an error for a port, and one of 11 is accepted", () => {
    const annotations = (count: string) => ({
      "port_80_health-probe_interval": "10",
      "port_80_health-probe_num-of-probe": count,
    });
    expect(desired({ annotations: annotations("12") }).problems).toHaveLength(1);
    expect(only({ annotations: annotations("11") }).probe).toMatchObject({ intervalInSeconds: 10, probeThreshold: 11 });
  });

  test("appProtocol Https with a path of the port probes `/healthy1`", () => {
    const annotations = { "port_80_health-probe_request-path": "/healthy1" };
    const { probe: found } = only({ annotations, spec: { ports: [tcp(80, { appProtocol: "Https" })] } });
    expect(found).toMatchObject({ protocol: "Https", requestPath: "/healthy1" });
  });

  test("internal SCTP on a standard load balancer has a rule of protocol All and no probe", () => {
    const { rule, probes, problems } = only({
      annotations: internal,
      spec: { ports: [{ protocol: "SCTP", port: 80, nodePort: 10_080 }] },
    });
    expect([rule?.protocol, rule?.frontendPort, probes, problems]).toEqual(["All", 80, 0, []]);
    expect(rule).not.toHaveProperty("enableTcpReset");
  });

  test("ETP Local: a per-port probe port still makes an own probe", () => {
    const spec = { externalTrafficPolicy: "Local", healthCheckNodePort: 34_567, ports: [tcp(80), tcp(443)] };
    const { probes } = desired({ annotations: { "port_80_health-probe_port": "421" }, spec });
    expect(probes.map(({ name, port }) => [name, port])).toEqual([
      ["atest1-TCP-34567", 34_567],
      ["atest1-TCP-80", 421],
    ]);
  });
});

describe("a Service without node ports", () => {
  const without = (more: Partial<ServiceShape["spec"]> = {}) => ({
    allocateLoadBalancerNodePorts: false,
    ports: [{ protocol: "TCP", port: 80 }],
    ...more,
  });
  const toProbe = "port 80: has no node port to probe";
  const toReach = "port 80: traffic without floating IP needs a node port";

  test.each<[string, ServiceShape, string]>([
    ["whose port is to be probed", {}, toProbe],
    ["whose port is to be probed by its number", { annotations: { "port_80_health-probe_port": "80" } }, toProbe],
    ["with one rule for all ports", { annotations: allPorts }, toProbe],
    ["that has no floating IP", { annotations: { ...direct, port_80_no_probe_rule: "true" } }, toReach],
  ])("%s is refused", (_title, shape, problem) => {
    const { problems } = desired({ ...shape, spec: without() });
    expect(problems).toHaveLength(1);
    expect(problems.join()).toContain(problem);
  });

  test.each<[string, ServiceShape, Config]>([
    ["probes a port by annotation", { annotations: { "port_80_health-probe_port": "421" } }, standard],
    [
      "has all ports and probes one by annotation",
      { annotations: { ...allPorts, "port_80_health-probe_port": "421" } },
      standard,
    ],
    ["has no probe by annotation", { annotations: { port_80_no_probe_rule: "true" } }, standard],
    ["has no rule by annotation", { annotations: { port_80_no_lb_rule: "true" } }, standard],
    [
      "has the health check of ETP Local",
      { spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 34_567 } },
      standard,
    ],
    ["has the shared probe", {}, plannerConfigOf({ clusterServiceLoadBalancerHealthProbeMode: "shared" })],
    ["has UDP ports alone", { spec: { ports: [{ protocol: "UDP", port: 80 }] } }, standard],
    [
      "has all ports, and UDP ports alone",
      { annotations: allPorts, spec: { ports: [{ protocol: "UDP", port: 80 }] } },
      standard,
    ],
    ["has chosen one by itself", { annotations: direct, spec: { ports: [tcp(80)] } }, standard],
  ])("is accepted if it %s", (_title, { spec, ...shape }, config) => {
    expect(desired({ ...shape, spec: without(spec) }, config).problems).toEqual([]);
  });
});

test.each([
  ["all ports have probes of their own", { "port_80_health-probe_port": "421" }, ["atest1-TCP-80"]],
  ["no port has a probe", { port_80_no_probe_rule: "true" }, []],
  ["no port has a rule", { port_80_no_lb_rule: "true" }, []],
])("the health check of ETP Local is not probed when %s", (_title, annotations, expected) => {
  const spec = { externalTrafficPolicy: "Local", healthCheckNodePort: 34_567 };
  expect(desired({ annotations, spec }).probes.map(({ name }) => name)).toEqual(expected);
});

describe("the shared probe of rules", () => {
  const shared = plannerConfigOf({ clusterServiceLoadBalancerHealthProbeMode: "shared" });

  test("rules of two ports of a cluster Service refer to `cluster-service-shared-health-probe`", () => {
    const { rules, probes } = desired(
      { spec: { ports: [tcp(80), { protocol: "UDP", port: 53, nodePort: 10_053 }] } },
      shared,
    );
    expect(probes).toEqual([
      {
        name: "cluster-service-shared-health-probe",
        protocol: "Http",
        port: 10_256,
        requestPath: "/healthz",
        intervalInSeconds: 5,
        probeThreshold: 2,
      },
    ]);
    expect(rules.map((rule) => rule.probe?.id)).toEqual(
      Array(2).fill("/lb/probes/cluster-service-shared-health-probe"),
    );
  });

  test("a local Service keeps its own health check", () => {
    const spec = { externalTrafficPolicy: "Local", healthCheckNodePort: 34_567 };
    expect(desired({ spec }, shared).probes.map(({ name }) => name)).toEqual(["atest1-TCP-34567"]);
  });
});

describe("session affinity", () => {
  test.each([
    ["TestServiceDefaultsToNoSessionPersistence", undefined, "Default"],
    ["TestServiceRespectsNoSessionAffinity", "None", "Default"],
    ["TestServiceRespectsClientIPSessionAffinity", "ClientIP", "SourceIP"],
  ])("%s", (_title, sessionAffinity, expected) => {
    const spec = sessionAffinity === undefined ? {} : { sessionAffinity };
    expect(only({ spec }).rule?.loadDistribution).toBe(expected);
  });
});

describe("finding a rule", () => {
  const rule: LoadBalancingRule = {
    name: "rule",
    protocol: "Tcp",
    enableTcpReset: true,
    frontendPort: 80,
    backendPort: 80,
    idleTimeoutInMinutes: 4,
    loadDistribution: "Default",
    enableFloatingIP: true,
    frontendIPConfiguration: { id: "/F" },
    backendAddressPool: { id: "/P" },
    probe: { id: "/probe" },
  };

  test.each<[string, LoadBalancingRule, boolean]>([
    ["name differs: no", { ...rule, name: "other" }, false],
    ["protocol differs: no", { ...rule, protocol: "Udp" }, false],
    ["enableTcpReset differs (TCP): no", { ...rule, enableTcpReset: false }, false],
    ["frontendPort differs: no", { ...rule, frontendPort: 81 }, false],
    ["backendPort differs: no", { ...rule, backendPort: 81 }, false],
    ["floating IP differs: no", { ...rule, enableFloatingIP: false }, false],
    ["idle timeout differs, both set: no", { ...rule, idleTimeoutInMinutes: 5 }, false],
    ["outbound SNAT differs: no", { ...rule, disableOutboundSnat: true }, false],
    ["outbound SNAT false is the same as unset: yes", { ...rule, disableOutboundSnat: false }, true],
    ["loadDistribution differs: no", { ...rule, loadDistribution: "SourceIP" }, false],
    ["probe id differs: no", { ...rule, probe: { id: "/other" } }, false],
    ["name, properties and probe id equal: yes", { ...rule }, true],
    [
      "frontend id, pool id, probe id equal ignoring case: yes",
      {
        ...rule,
        name: "RULE",
        frontendIPConfiguration: { id: "/f" },
        backendAddressPool: { id: "/p" },
        probe: { id: "/PROBE" },
      },
      true,
    ],
    ["frontend id different: no", { ...rule, frontendIPConfiguration: { id: "/other" } }, false],
  ])("%s", (_title, other, expected) => {
    expect(equalRules(rule, other)).toBe(expected);
    expect(equalRules(other, rule)).toBe(expected);
  });

  test("a rule is equal where one side is nil", () => {
    const { idleTimeoutInMinutes: _minutes, ...unset } = rule;
    expect([equalRules(rule, unset), equalRules(unset, rule)]).toEqual([true, true]);
  });
});

describe("finding a probe", () => {
  const known: Probe = {
    name: "p",
    protocol: "Http",
    port: 80,
    requestPath: "/a",
    intervalInSeconds: 5,
    probeThreshold: 2,
  };

  test.each<[string, Probe, boolean]>([
    ["port differing: false", { ...known, port: 81 }, false],
    ["name differing: false", { ...known, name: "q" }, false],
    ["protocol differing: false", { ...known, protocol: "Tcp" }, false],
    ["path differing: false", { ...known, requestPath: "/b" }, false],
    ["interval differing: false", { ...known, intervalInSeconds: 6 }, false],
    ["threshold differing: false", { ...known, probeThreshold: 3 }, false],
    ["equal: true", { ...known, name: "P", requestPath: "/A" }, true],
  ])("%s", (_title, other, expected) => {
    expect(equalProbes(standard, known, other)).toBe(expected);
  });

  test("a reply without probeThreshold is equal only for Azure Stack, whose API version lacks it", () => {
    const { probeThreshold: _threshold, ...reply } = known;
    expect(equalProbes(standard, reply, known)).toBe(false);
    expect(equalProbes({ ...standard, hasProbeThreshold: false }, reply, known)).toBe(true);
    expect(equalProbes({ ...standard, hasProbeThreshold: false }, { ...known, probeThreshold: 3 }, known)).toBe(false);
  });
});
