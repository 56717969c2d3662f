import { describe, expect, test } from "bun:test";

import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { serviceWarnings } from "../../../../../plugins/azure-cloud/load-balancer/plan/warnings.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { nodesNamed, world } from "../world.ts";

const standard = plannerConfigOf();
const basic = plannerConfigOf({ loadBalancerSku: "basic" });
const several = plannerConfigOf({
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
});
const nodes = nodesNamed("node-0");
const prefix = "service.beta.kubernetes.io/";
const internal = { "azure-load-balancer-internal": "true" };

const warningsOf = (shape: ServiceShape, config = standard): readonly string[] =>
  serviceWarnings(intentOf(shape).service, config).map(({ reason, message }) => `${reason}: ${message}`);

const invalid = (annotations: Readonly<Record<string, string>>, config = standard) =>
  warningsOf({ annotations }, config);

describe("a warning about a setting", () => {
  test.each<[string, ServiceShape, string]>([
    [
      "of a source range in the spec",
      { spec: { loadBalancerSourceRanges: ["10.0.0.0/8", "10.0.0.1/8"] } },
      'Found invalid spec.LoadBalancerSourceRanges ["10.0.0.1/8"], ignoring and adding a default DenyAll rule in security group',
    ],
    [
      "of an allowed range",
      { annotations: { "azure-allowed-ip-ranges": "foo,bar,10.0.0.0/8" } },
      `Found invalid ${prefix}azure-allowed-ip-ranges ["foo", "bar"], ignoring and adding a default DenyAll rule`,
    ],
    [
      "of a source range in an annotation",
      { annotations: { "load-balancer-source-ranges": "foo" } },
      `Found invalid ${prefix}load-balancer-source-ranges ["foo"], ignoring and adding a default DenyAll rule`,
    ],
    [
      "of a flag that is neither true nor false",
      { annotations: { "azure-disable-load-balancer-floating-ip": "yes" } },
      '"yes" is neither true nor false and is treated as false',
    ],
    [
      "of an internal load balancer that is public, because its annotation is not exactly true",
      { annotations: { "azure-load-balancer-internal": "yes" } },
      'azure-load-balancer-internal: "yes" does not make the load balancer internal; only true, in lower case, does',
    ],
    [
      "of an approval of all subscriptions",
      { annotations: { ...internal, "azure-pls-create": "true", "azure-pls-auto-approval": "*" } },
      "azure-pls-auto-approval: * approves the endpoints of every subscription",
    ],
  ])("%s is part of the plan and of the Service's events", (_title, shape, message) => {
    const { results } = plan([intentOf({ nodes, ...shape })], world({ nodes }), standard);
    expect(results.get("default/web")?.warnings).toEqual([expect.stringContaining(message)]);
    expect(warningsOf(shape)).toEqual([expect.stringContaining(`InvalidConfiguration: `)]);
    expect(warningsOf(shape)).toEqual([expect.stringContaining(message)]);
  });

  test("is none of a Service that is deleted", () => {
    const gone = intentOf({ action: "delete", annotations: { "azure-load-balancer-internal": "yes" } });
    expect(plan([gone], world(), standard).results.get("default/web")?.warnings).toEqual([]);
  });

  test("is given for a refused Service as well", () => {
    const annotations = { "azure-pip-name": "..", "azure-load-balancer-internal": "yes" };
    const { problem, warnings } = plan([intentOf({ annotations })], world(), standard).results.get("default/web") ?? {};
    expect([problem?.code, warnings?.length]).toEqual(["InvalidService", 1]);
  });
});

describe("an annotation that does not exist", () => {
  test.each([
    ["azure-loadbalancer-internal", "azure-load-balancer-internal"],
    ["Azure-load-balancer-internal", "azure-load-balancer-internal"],
    ["azur-load-balancer-internal", "azure-load-balancer-internal"],
    ["load-balancer-source-range", "load-balancer-source-ranges"],
    ["azure-pip-names", "azure-pip-name"],
    ["port_80_no_lb_rules", "port_<port>_no_lb_rule"],
    ["port_80_health_probe_port", "port_<port>_health-probe_port"],
  ])("%s is reported with the one that was probably meant", (key, meant) => {
    expect(invalid({ [key]: "true" })).toEqual([
      `InvalidConfiguration: annotation ${prefix}${key} is unknown (did you mean ${prefix}${meant}?)`,
    ]);
  });

  test("an annotation that does not exist of this cloud is reported without one where none is near", () => {
    expect(invalid({ "azure-x": "true" })).toEqual([`InvalidConfiguration: annotation ${prefix}azure-x is unknown`]);
  });

  test("an annotation that does not exist of this cloud and a port that the Service does not have is reported", () => {
    expect(invalid({ port_81_no_lb_rule: "true" })).toEqual([
      `InvalidConfiguration: annotation ${prefix}port_81_no_lb_rule has no effect: the Service has no port 81`,
    ]);
  });

  test.each([
    { "aws-load-balancer-type": "nlb" },
    { "do-loadbalancer-name": "x" },
    { "openstack-internal-load-balancer": "true" },
    { "Azure-Load-Balancer-Configurations": "kubernetes" },
  ])("an annotation that does not exist of another cloud, or in a case that is read, is not: %j", (annotations) => {
    expect(invalid(annotations, several)).toEqual([]);
  });

  test("is named up to ten times, and with its first characters", () => {
    const many = Object.fromEntries(
      Array.from({ length: 500 }, (_, index) => [`azure-${index}-${"x".repeat(300)}`, "true"] as const),
    );
    expect(invalid(many)).toHaveLength(10);
    expect(invalid(many).join("").length).toBeLessThan(3_000);
  });
});

describe("an annotation without effect on its load balancer", () => {
  const noPublicIP = "an internal load balancer has no public IP";
  const prefixId = "/subscriptions/s/resourceGroups/r/providers/Microsoft.Network/publicIPPrefixes/p";
  const noLink = `${prefix}azure-pls-create is not true`;
  const noIPv6 = "the Service has no IPv6 family";

  test.each<[key: string, value: string, more: Readonly<Record<string, string>>, reason: string]>([
    ["azure-load-balancer-internal-subnet", "lb-subnet", {}, "the load balancer is not internal"],
    ["azure-load-balancer-enable-high-availability-ports", "true", {}, "the load balancer is not internal"],
    ["azure-load-balancer-mode", "__auto__", {}, "the cluster's load balancers have the standard SKU"],
    ["azure-load-balancer-configurations", "a", {}, "the cluster has one load balancer of each kind"],
    ["azure-load-balancer-resource-group", "ips", internal, noPublicIP],
    ["azure-dns-label-name", "web", internal, noPublicIP],
    ["azure-pip-name", "web", internal, noPublicIP],
    ["azure-pip-name-ipv6", "web", {}, noIPv6],
    ["azure-pip-prefix-id", prefixId, internal, noPublicIP],
    ["azure-pip-prefix-id-ipv6", prefixId, {}, noIPv6],
    ["azure-pip-tags", "a=b", internal, noPublicIP],
    ["azure-pip-ip-tags", "a=b", internal, noPublicIP],
    ["azure-load-balancer-ipv6", "2603::1", {}, noIPv6],
    ["azure-pls-name", "x", internal, noLink],
    ["azure-pls-resource-group", "x", internal, noLink],
    ["azure-pls-ip-configuration-subnet", "x", internal, noLink],
    ["azure-pls-ip-configuration-ip-address-count", "2", internal, noLink],
    ["azure-pls-ip-configuration-ip-address", "10.0.0.1", internal, noLink],
    ["azure-pls-fqdns", "a.b", internal, noLink],
    ["azure-pls-proxy-protocol", "true", internal, noLink],
    ["azure-pls-visibility", "*", internal, noLink],
    ["azure-pls-auto-approval", "x", internal, noLink],
  ])("is reported with the reason: %s", (key, value, more, reason) => {
    expect(invalid({ ...more, [key]: value })).toEqual([
      `AnnotationIgnored: annotation ${prefix}${key} has no effect: ${reason}`,
    ]);
  });

  test("is reported for the IPv4 address of an IPv6 Service", () => {
    const shape = { annotations: { "azure-load-balancer-ipv4": "20.1.1.1" }, spec: { ipFamilies: ["IPv6"] } };
    expect(warningsOf(shape)).toEqual([expect.stringContaining("the Service has no IPv4 family")]);
  });

  test("is reported where the SKU is basic and not", () => {
    expect(invalid({ "azure-load-balancer-mode": "__auto__" }, basic)).toEqual([]);
    const haPorts = { ...internal, "azure-load-balancer-enable-high-availability-ports": "true" };
    expect(invalid(haPorts, basic)).toEqual([
      expect.stringContaining("the cluster's load balancers have the basic SKU"),
    ]);
    expect(invalid(haPorts)).toEqual([]);
  });

  test("is not reported where it has an effect, nor where it asks for nothing", () => {
    for (const annotations of [
      { ...internal, "azure-load-balancer-internal-subnet": "lb-subnet" },
      { "azure-pip-name": "x", "azure-pip-tags": "a=b", "azure-dns-label-name": "web" },
      { ...internal, "azure-pls-create": "true", "azure-pls-name": "x", "azure-pls-visibility": "*" },
      { ...internal, "azure-dns-label-name": "", "azure-pls-proxy-protocol": "false", "azure-pip-name": " " },
    ])
      expect(invalid(annotations)).toEqual([]);
    const six = { annotations: { "azure-pip-name": "x", "azure-pip-name-ipv6": "y" }, spec: { ipFamilies: ["IPv6"] } };
    expect(warningsOf(six)).toEqual([]);
    expect(invalid({ "azure-load-balancer-configurations": "kubernetes" }, several)).toEqual([]);
  });
});
