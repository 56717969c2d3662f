import { describe, expect, test } from "bun:test";

import type { NetworkSecurityGroup, SecurityRule } from "@azure/arm-network";

import type { Observed, ServiceIntent } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { RuleSet } from "../../../../../../plugins/azure-cloud/load-balancer/plan/security-group/rules.ts";
import { applied } from "../../applied.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../../world.ts";
import { accessFor, both, config, dualShape } from "./service-shapes.ts";

const nodes = nodesNamed("node-0", "node-1");
const internal = { "azure-load-balancer-internal": "true" };

describe("access from the Internet", () => {
  const spec = (...loadBalancerSourceRanges: readonly string[]) => ({
    loadBalancerSourceRanges: [...loadBalancerSourceRanges],
  });

  test.each<[string, ServiceShape, readonly string[]]>([
    ["public none: true", {}, ["Internet"]],
    ["internal none: false", { annotations: internal }, []],
    [
      "internal in another case is internal here: false",
      { annotations: { "azure-load-balancer-internal": "True" } },
      [],
    ],
    ["public invalid: false", { spec: spec("10.0.0.0") }, []],
    ["internal invalid: false", { annotations: { ...internal, "azure-allowed-ip-ranges": "foo" } }, []],
    ...["0.0.0.0/", "0.0.0.0/00", "10.0.0.0/08", "10.0.0.0/8.5", "10.0.0.0/0x8", "10.0.0.0/8/8"].map(
      (range): [string, ServiceShape, readonly string[]] => [
        `public invalid ${range}: false`,
        { spec: spec(range) },
        [],
      ],
    ),
    ["public source ranges specific: false", { spec: spec("10.0.0.0/8") }, []],
    ["public allowed ranges specific: false", { annotations: { "azure-allowed-ip-ranges": "10.0.0.0/8" } }, []],
    ["an allow-all range takes the place of the tag", { spec: spec("0.0.0.0/0") }, []],
    ["tags: those tags alone", { annotations: { "azure-allowed-service-tags": "A,B" } }, ["A", "B"]],
    [
      "ranges allow-all + tags: false",
      { spec: spec("0.0.0.0/0"), annotations: { "azure-allowed-service-tags": "A" } },
      ["A"],
    ],
  ])("%s", (title, shape, tags) => {
    expect(accessFor(shape).tags).toEqual(tags);
    if (title.includes("invalid")) expect(accessFor(shape).ranges).toEqual({ IPv4: [], IPv6: [] });
  });
});

describe("reading the access settings of a Service", () => {
  test("both annotations are an error", () => {
    const shape = {
      spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] },
      annotations: { "azure-allowed-ip-ranges": "10.0.0.0/8" },
    };
    expect(accessFor(shape).problems).toEqual([
      "cannot set both spec.LoadBalancerSourceRanges and service annotation service.beta.kubernetes.io/azure-allowed-ip-ranges",
    ]);
  });

  test("an invalid source range is a warning", () => {
    expect(accessFor({ spec: { loadBalancerSourceRanges: ["10.0.0.1/8"] } }).warnings.join()).toContain("10.0.0.1/8");
  });

  test("an invalid allowed range is a warning", () => {
    expect(accessFor({ annotations: { "azure-allowed-ip-ranges": "10.0.0.0/33" } }).warnings.join()).toContain(
      "10.0.0.0/33",
    );
  });
});

describe("denying all but the source ranges", () => {
  const deny = { "azure-deny-all-except-load-balancer-source-ranges": "true" };

  test.each<[string, ServiceShape, boolean]>([
    ["empty service no", {}, false],
    ["annotation without ranges no", { annotations: deny }, false],
    ["with source ranges yes", { annotations: deny, spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] } }, true],
    ["with allowed ranges yes", { annotations: { ...deny, "azure-allowed-ip-ranges": "10.0.0.0/8" } }, true],
    ["invalid allowed ranges without annotation yes", { annotations: { "azure-allowed-ip-ranges": "foo" } }, true],
    ["ranges without annotation no", { spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] } }, false],
  ])("%s", (_title, shape, expected) => {
    expect(accessFor(shape).denyAll).toBe(expected);
  });
});

describe("the allowed ranges", () => {
  test.each([
    ["one v4", "10.0.0.0/8", ["10.0.0.0/8"], []],
    [
      "many v4, contained ones disappear",
      "10.1.0.0/16,10.0.0.0/8,192.168.0.0/24",
      ["10.0.0.0/8", "192.168.0.0/24"],
      [],
    ],
    ["halves become one", "10.0.0.0/9,10.128.0.0/9,0.0.0.0/1,128.0.0.0/1", ["0.0.0.0/0"], []],
    ["v6", "2001:DB8:0::/33,2001:db8:8000::/33", [], ["2001:db8::/32"]],
    ["mixed with invalid entries", "10.0.0.0/8,foo,2001:db8::/32,10.0.0.1/8", ["10.0.0.0/8"], ["2001:db8::/32"]],
    ["an address without a length is not a range", "10.0.0.1", [], []],
  ])("%s", (_title, text, v4, v6) => {
    expect(accessFor({ annotations: { "azure-allowed-ip-ranges": text } }).ranges).toEqual({ IPv4: v4, IPv6: v6 });
    expect(accessFor({ annotations: { "load-balancer-source-ranges": text } }).ranges).toEqual({ IPv4: v4, IPv6: v6 });
    expect(accessFor({ spec: { loadBalancerSourceRanges: text.split(",") } }).ranges).toEqual({ IPv4: v4, IPv6: v6 });
  });
});

const usersRule = { name: "users-rule", priority: 501 };
const managed = ({ name = "" }: SecurityRule): boolean => name.startsWith("k8s-azure-lb");

/** Managed rules by priority: protocol, family, sources, destinations, ports. */
const summary = ({ securityGroup }: Observed): readonly string[] =>
  (securityGroup?.securityRules ?? [])
    .filter(managed)
    .toSorted((left, right) => (left.priority ?? 0) - (right.priority ?? 0))
    .map((rule) => {
      const sources = [rule.sourceAddressPrefix ?? rule.sourceAddressPrefixes].flat().join(",");
      const destinations = [rule.destinationAddressPrefix ?? rule.destinationAddressPrefixes].flat().join(",");
      const ports = [rule.destinationPortRange ?? rule.destinationPortRanges].flat().join(",");
      return `${rule.priority} ${rule.access} ${rule.protocol} ${sources} > ${destinations} : ${ports}`;
    });

const after = (shapes: readonly ServiceShape[], start = world({ nodes })): Observed => {
  const intents = shapes.map((shape) => intentOf({ nodes, ...shape }));
  return converge(intents, { ...start, services: intents.map(({ service }) => service) }, config).observed;
};

const pip = (name: string, address: string) => publicIP(name, address);
const dual = world({ nodes, publicIPs: [pip("v4", "20.1.1.1"), pip("v6", "2603::1")] });

describe("the security rules of a Service", () => {
  test("an internal Service without an allow list is unchanged", () => {
    expect(summary(after([{ annotations: internal }]))).toEqual([]);
  });

  test("an internal Service with `0.0.0.0/0` has rules TCP 500 and UDP 502 of IPv4 from 0.0.0.0/0, without the Internet tag", () => {
    const shape = {
      annotations: { ...internal, "azure-load-balancer-ipv4": "10.240.9.9" },
      spec: { ports: both, loadBalancerSourceRanges: ["0.0.0.0/0"] },
    };
    expect(summary(after([shape]))).toEqual([
      "500 Allow Tcp 0.0.0.0/0 > 10.240.9.9 : 80",
      "502 Allow Udp 0.0.0.0/0 > 10.240.9.9 : 53",
    ]);
  });

  test("a public Service without an allow list has 4 Internet rules in the order of protocols and families", () => {
    expect(summary(after([dualShape()], dual))).toEqual([
      "500 Allow Tcp Internet > 20.1.1.1 : 80",
      "502 Allow Tcp Internet > 2603::1 : 80",
      "503 Allow Udp Internet > 20.1.1.1 : 53",
      "504 Allow Udp Internet > 2603::1 : 53",
    ]);
  });

  test("ranges and a service tag make a tag rule and a range rule per protocol and family, for IPv6 only the tag rule", () => {
    const shape = dualShape(
      { "azure-allowed-service-tags": "Storage" },
      { loadBalancerSourceRanges: ["0.0.0.0/0", "8.8.8.8/32"], ports: both.slice(0, 1) },
    );
    expect(summary(after([shape], dual))).toEqual([
      "500 Allow Tcp Storage > 20.1.1.1 : 80",
      "502 Allow Tcp 0.0.0.0/0 > 20.1.1.1 : 80",
      "503 Allow Tcp Storage > 2603::1 : 80",
    ]);
  });

  test("additional public IPs are destinations beside the load balancer's", () => {
    const shape = { annotations: { "azure-pip-name": "my-pip", "azure-additional-public-ips": "198.51.100.8" } };
    expect(summary(after([shape]))).toEqual(["500 Allow Tcp Internet > 198.51.100.8,20.9.9.9 : 80"]);
  });

  test("pool IPs and node ports are the destinations without floating IP", () => {
    const shape = { annotations: { "azure-disable-load-balancer-floating-ip": "true" } };
    expect(summary(after([shape]))).toEqual([
      "500 Allow Tcp Internet > 10.240.0.4,10.240.0.5 : 30080",
      "502 Allow Tcp Internet > fd00::4,fd00::5 : 30080",
    ]);
  });

  test("a disabled rule without floating IP makes no rules", () => {
    const annotations = {
      "azure-disable-load-balancer-floating-ip": "true",
      "azure-disable-load-balancer-nsg-rule": "true",
    };
    expect(summary(after([{ annotations }]))).toEqual([]);
  });

  test("the deny-all annotation makes range rules, and rules that deny all from 4095", () => {
    const shape = dualShape(
      { "azure-deny-all-except-load-balancer-source-ranges": "true" },
      { loadBalancerSourceRanges: ["10.0.0.0/8"], ports: both.slice(0, 1) },
    );
    expect(summary(after([shape], dual))).toEqual([
      "500 Allow Tcp 10.0.0.0/8 > 20.1.1.1 : 80",
      "4094 Deny * * > 2603::1 : *",
      "4095 Deny * * > 20.1.1.1 : *",
    ]);
  });

  test("a source range that is not a CIDR opens nothing and denies everything", () => {
    expect(
      summary(after([{ annotations: { "azure-pip-name": "my-pip", "azure-allowed-ip-ranges": "banana" } }])),
    ).toEqual(["4095 Deny * * > 20.9.9.9 : *"]);
  });

  test("Services with the same protocol, sources and ports share one rule", () => {
    const start = world({ nodes, publicIPs: [pip("a", "20.1.1.1"), pip("b", "20.1.1.2")] });
    const shapes = ["a", "b"].map((name) => ({ name, annotations: { "azure-pip-name": name } }));
    expect(summary(after(shapes, start))).toEqual(["500 Allow Tcp Internet > 20.1.1.1,20.1.1.2 : 80"]);
  });

  const sharing = (name: string, port: number): ServiceShape => ({
    name,
    annotations: { "azure-pip-name": "my-pip" },
    spec: { ports: [{ protocol: "TCP", port, nodePort: 30_000 + port }] },
    ingress: ["20.9.9.9"],
  });

  test("retained ports: a rule for ports of two Services is split when one of them goes", () => {
    const started = after([sharing("a", 80), sharing("b", 443)]);
    const joined = rulesOf(started, [{ ...allowed(["443", "80"]), destinationAddressPrefix: "20.9.9.9" }]);
    const kept = intentOf(sharing("b", 443));
    const gone = { ...intentOf(sharing("a", 80)), action: "delete" as const };
    const end = converge([gone], { ...joined, services: [kept.service, gone.service] }, config).observed;
    expect(summary(end)).toEqual(["502 Allow Tcp Internet > 20.9.9.9 : 443"]);
  });

  test("a Service without status, as of another type, leaves no rule on the address that it shared", () => {
    const started = after([sharing("a", 80), sharing("b", 443)]);
    const { ingress: _cleared, ...cleared } = sharing("b", 443);
    const gone = { ...intentOf(cleared), action: "delete" as const };
    const services = [intentOf(sharing("a", 80)).service, gone.service];
    const end = converge([gone], { ...started, services }, config).observed;
    expect(summary(end)).toEqual(["500 Allow Tcp Internet > 20.9.9.9 : 80"]);
  });

  test("a port that another Service has on an additional address is not opened on the Service's own one, and not closed where upstream did", () => {
    const additional = { "azure-additional-public-ips": "198.51.100.8" };
    const ports = (...list: readonly number[]) => ({
      ports: list.map((port) => ({ name: `p${port}`, protocol: "TCP", port, nodePort: 30_000 + port })),
    });
    const start = world({ nodes, publicIPs: [pip("a", "20.1.1.1"), pip("b", "20.1.1.2")] });
    const shapes: readonly ServiceShape[] = [
      { name: "a", annotations: { ...additional, "azure-pip-name": "a" }, ingress: ["20.1.1.1"], spec: ports(80) },
      { name: "b", annotations: { ...additional, "azure-pip-name": "b" }, ingress: ["20.1.1.2"], spec: ports(80, 443) },
    ];
    const created = after(shapes, start);
    expect(summary(created)).toEqual([
      "500 Allow Tcp Internet > 198.51.100.8,20.1.1.1 : 80",
      "502 Allow Tcp Internet > 198.51.100.8,20.1.1.2 : 443,80",
    ]);
    expect(summary(after(shapes, created))).toEqual(summary(created));
    const [first] = created.securityGroup?.securityRules?.filter(({ priority }) => priority === 500) ?? [];
    const asUpstream = { ...first, destinationAddressPrefixes: ["198.51.100.8", "20.1.1.1", "20.1.1.2"] };
    const others = created.securityGroup?.securityRules?.filter((rule) => rule !== first) ?? [];
    const adopted = { ...created, securityGroup: { ...created.securityGroup, securityRules: [asUpstream, ...others] } };
    expect(summary(after(shapes, adopted))).toEqual(summary(adopted));
    const [, second] = shapes.map((shape) => intentOf({ ...shape, nodes }));
    const services = shapes.map((shape) => intentOf(shape).service);
    expect(summary(converge(second === undefined ? [] : [second], { ...created, services }, config).observed)).toEqual(
      summary(created),
    );
  });

  test("a Service that narrows its sources has no port open to others on its own address, whatever one on an additional address has", () => {
    const shape = (name: string, range: string): ServiceShape => ({
      name,
      annotations: { "azure-additional-public-ips": "198.51.100.8", "azure-pip-name": name },
      ingress: [name === "a" ? "20.1.1.1" : "20.1.1.2", "198.51.100.8"],
      spec: {
        ports: [{ protocol: "TCP", port: 80, nodePort: 30_080 }],
        loadBalancerSourceRanges: [range],
      },
    });
    const start = world({ nodes, publicIPs: [pip("a", "20.1.1.1"), pip("b", "20.1.1.2")] });
    const open = after([shape("a", "0.0.0.0/0"), shape("b", "0.0.0.0/0")], start);
    expect(summary(open)).toEqual(["500 Allow Tcp 0.0.0.0/0 > 198.51.100.8,20.1.1.1,20.1.1.2 : 80"]);
    const narrowed = [shape("a", "0.0.0.0/0"), shape("b", "10.0.0.0/8")];
    expect(summary(after(narrowed, open))).toEqual([
      "500 Allow Tcp 0.0.0.0/0 > 198.51.100.8,20.1.1.1 : 80",
      "502 Allow Tcp 10.0.0.0/8 > 198.51.100.8,20.1.1.2 : 80",
    ]);
  });

  test("a Service without floating IP closes nothing of another one on an additional address of both", () => {
    const additional = { "azure-additional-public-ips": "198.51.100.8" };
    const direct = { ...additional, "azure-disable-load-balancer-floating-ip": "true" };
    const first = { ...sharing("a", 80), annotations: { ...additional, "azure-pip-name": "my-pip" } };
    const second = intentOf({ name: "b", nodes, annotations: direct });
    const services = [intentOf(first).service, second.service];
    const end = converge([second], { ...after([first]), services }, config).observed;
    expect(summary(end)).toContain("500 Allow Tcp Internet > 198.51.100.8,20.9.9.9 : 80");
  });

  test("a Service on the IP of one whose new status is not visible yet leaves that one's rules alone", () => {
    const { ingress: _unseen, ...fresh } = sharing("a", 80);
    const started = after([fresh]);
    const second = intentOf({ ...sharing("b", 443), nodes });
    const services = [intentOf(fresh).service, second.service];
    const end = converge([second], { ...started, services }, config).observed;
    expect(summary(end).map((line) => line.split(" : ")[1])).toEqual(["80", "443"]);
  });

  test("deleting one of two Services on an IP keeps the other's deny rule", () => {
    const denying = sharing("b", 443);
    const shape = {
      ...denying,
      annotations: { ...denying.annotations, "azure-deny-all-except-load-balancer-source-ranges": "true" },
      spec: { ...denying.spec, loadBalancerSourceRanges: ["10.0.0.0/8"] },
    };
    const started = after([sharing("a", 80), shape]);
    const gone: ServiceIntent = { ...intentOf(sharing("a", 80)), action: "delete" };
    const end = converge([gone], { ...started, services: [gone.service, intentOf(shape).service] }, config).observed;
    expect(summary(end).map((line) => line.split(" ")[1])).toEqual(["Allow", "Deny"]);
  });

  test("a Service that is synced alone leaves the deny rule of one without floating IP on the nodes", () => {
    const annotations = {
      "azure-disable-load-balancer-floating-ip": "true",
      "azure-deny-all-except-load-balancer-source-ranges": "true",
    };
    const denying = intentOf({ name: "a", nodes, annotations, spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] } });
    const other = intentOf({ name: "b", nodes });
    const services = [denying.service, other.service];
    const created = converge([denying, other], { ...world({ nodes }), services }, config).observed;
    const rules = summary(created);
    expect(rules).toContain("4095 Deny * * > 10.240.0.4,10.240.0.5 : *");
    expect(summary(converge([other], { ...created, services }, config).observed)).toEqual(rules);
  });

  test("a Service leaves the deny rule of another one on its address alone", () => {
    const denying = {
      ...sharing("a", 80),
      annotations: { "azure-pip-name": "my-pip", "azure-deny-all-except-load-balancer-source-ranges": "true" },
      spec: { ...sharing("a", 80).spec, loadBalancerSourceRanges: ["10.0.0.0/8"] },
    };
    const started = after([denying]);
    const second = intentOf({ ...sharing("b", 443), nodes });
    const services = [intentOf(denying).service, second.service];
    expect(summary(converge([second], { ...started, services }, config).observed)).toEqual([
      "500 Allow Tcp 10.0.0.0/8 > 20.9.9.9 : 80",
      "502 Allow Tcp Internet > 20.9.9.9 : 443",
      "4095 Deny * * > 20.9.9.9 : *",
    ]);
  });

  test("closes the ports of a Service that has left an address which another Service keeps", () => {
    const denyAll = { "azure-deny-all-except-load-balancer-source-ranges": "true" };
    const left = sharing("b", 443);
    const denying = {
      ...left,
      annotations: { ...left.annotations, ...denyAll },
      spec: { ...left.spec, loadBalancerSourceRanges: ["10.0.0.0/8"] },
    };
    const started = after([sharing("a", 80), denying]);
    expect(summary(started).length).toBe(3);
    const kept = intentOf(sharing("a", 80)).service;
    const moved = intentOf({ ...left, nodes, annotations: {} });
    const end = converge([moved], { ...started, services: [kept, moved.service] }, config).observed;
    expect(summary(end)).toEqual(["500 Allow Tcp Internet > 20.9.9.9 : 80", "503 Allow Tcp Internet > 20.0.0.1 : 443"]);
  });

  const ranged = { "azure-allowed-ip-ranges": "10.0.0.0/8" };
  const onInternal = { ...ranged, "azure-load-balancer-internal": "true", "azure-load-balancer-ipv4": "10.240.0.100" };
  test.each([
    ["public", { "azure-pip-name": "my-pip" }, {}, "20.9.9.9", "20.0.0.1"],
    [
      "public, for an internal one",
      { "azure-pip-name": "my-pip" },
      { ...ranged, ...internal },
      "20.9.9.9",
      "10.240.100.10",
    ],
    ["internal", onInternal, {}, "10.240.0.100", "20.0.0.1"],
  ])(
    "closes the ports of a Service that left a shared address before its status showed it: %s",
    (_, old, later, at, to) => {
      const [first, second] = [
        { ...sharing("a", 80), annotations: old, ingress: [] },
        { ...sharing("b", 443), annotations: old, ingress: [] },
      ];
      const targets = (observed: Observed) => summary(observed).map((rule) => rule.split(" > ")[1]);
      const started = after([first, second]);
      expect(targets(started)).toEqual([`${at} : 80`, `${at} : 443`]);
      const kept = intentOf({ ...first, nodes }).service;
      const moved = intentOf({ ...second, nodes, annotations: later });
      const end = converge([moved], { ...started, services: [kept, moved.service] }, config).observed;
      expect(targets(end)).toEqual([`${at} : 80`, `${to} : 443`]);
    },
  );

  test("closes nothing else of a Service that leaves a shared address and has no other one yet", () => {
    const more = { "azure-additional-public-ips": "203.0.113.1" };
    const first = { ...sharing("a", 80), ingress: [] };
    const second = { ...sharing("b", 443), ingress: [] };
    const started = after([first, { ...second, annotations: { ...second.annotations, ...more } }]);
    const moved = intentOf({ ...second, nodes, annotations: more });
    const services = [intentOf({ ...first, nodes }).service, moved.service];
    const next = applied(started, plan([moved], { ...started, services }, config));
    expect(summary(next)).toEqual([
      "500 Allow Tcp Internet > 20.9.9.9 : 80",
      "502 Allow Tcp Internet > 203.0.113.1 : 443",
    ]);
  });

  test("a Service that gives up floating IP keeps the rules for its address, as upstream", () => {
    const web = { annotations: { "azure-pip-name": "my-pip" }, ingress: ["20.9.9.9"] };
    const direct = { ...web, annotations: { ...web.annotations, "azure-disable-load-balancer-floating-ip": "true" } };
    expect(summary(after([direct], after([web])))).toEqual([
      "500 Allow Tcp Internet > 20.9.9.9 : 80",
      "502 Allow Tcp Internet > 10.240.0.4,10.240.0.5 : 30080",
      "503 Allow Tcp Internet > fd00::4,fd00::5 : 30080",
    ]);
  });

  test("a Service without floating IP leaves ports of others on its address alone, also those they had before", () => {
    const started = after([sharing("a", 80)]);
    const direct = { "azure-pip-name": "my-pip", "azure-disable-load-balancer-floating-ip": "true" };
    const second = intentOf({ ...sharing("b", 443), nodes, annotations: direct });
    const changed = intentOf(sharing("a", 81)).service;
    const end = converge([second], { ...started, services: [changed, second.service] }, config).observed;
    expect(summary(end)).toContain("500 Allow Tcp Internet > 20.9.9.9 : 80");
  });

  test("a Service that gives up floating IP and a port at once keeps no rule without one of its ports", () => {
    const of = (protocol: string, port: number) => ({ name: `p${port}`, protocol, port, nodePort: 30_000 + port });
    const annotations = { "azure-pip-name": "my-pip" };
    const direct = { ...annotations, "azure-disable-load-balancer-floating-ip": "true" };
    const web = { annotations, ingress: ["20.9.9.9"], spec: { ports: [of("TCP", 80), of("UDP", 53), of("UDP", 54)] } };
    const rules = summary(after([{ ...web, annotations: direct, spec: { ports: [of("UDP", 53)] } }], after([web])));
    expect(rules.filter((rule) => rule.includes("20.9.9.9"))).toEqual(["502 Allow Udp Internet > 20.9.9.9 : 53,54"]);
  });

  test("a deleted Service loses its destinations, and its invalid annotation is not an error", () => {
    const started = after([{ annotations: { "azure-pip-name": "my-pip" } }]);
    const gone = intentOf({
      action: "delete",
      annotations: { "azure-pip-name": "my-pip", "azure-additional-public-ips": "banana" },
      ingress: ["20.9.9.9"],
    });
    const end = converge([gone], { ...started, services: [gone.service] }, config);
    expect(summary(end.observed)).toEqual([]);
    expect(end.last.results.get("default/web")?.problem).toBeUndefined();
  });

  test("a missing security group stops a creation, never a deletion", () => {
    const start = { ...world({ nodes }), securityGroup: undefined };
    const refused = plan([intentOf({ nodes })], start, config);
    expect([refused.stages, refused.results.get("default/web")?.problem?.code]).toEqual([[], "SecurityGroupNotFound"]);
    expect(refused.results.get("default/web")?.problem?.messages).toEqual([
      expect.stringMatching(
        /^security group nsg0 was not found in resource group rg0; create it, or correct securityGroup/u,
      ),
    ]);
    const deleted = plan([intentOf({ nodes, action: "delete" })], start, config);
    expect(deleted.results.get("default/web")?.problem).toBeUndefined();
    const unnamed = plan([intentOf({ nodes })], start, plannerConfigOf({ securityGroupName: "" }));
    expect(unnamed.results.get("default/web")?.problem?.messages.join()).toContain(
      "securityGroupName is not configured",
    );
  });

  test("too many rules are an error", () => {
    const rules = Array.from({ length: 1000 }, (_, index) => ({ name: `users-${index}`, priority: 100 + index }));
    const result = plan(
      [intentOf({ nodes, annotations: { "azure-pip-name": "my-pip" } })],
      rulesOf(withBalancer(), rules),
      config,
    );
    expect(result.results.get("default/web")?.problem?.code).toBe("TooManySecurityRules");
    expect(result.stages).toEqual([]);
  });

  /** The state with these Services in place, in a group that other people's rules fill up to `total`. */
  const filledUp = (total: number, intents: readonly ServiceIntent[]): Observed => {
    const { observed } = converge(intents, world({ nodes }), config);
    const own = observed.securityGroup?.securityRules ?? [];
    const users = Array.from({ length: total - own.length }, (_, index) => ({
      name: `others-${index}`,
      priority: 1_000 + index,
    }));
    const securityGroup = { ...observed.securityGroup, securityRules: [...own, ...users] };
    return { ...observed, securityGroup, services: intents.map(({ service }) => service) };
  };
  const problemsIn = (intents: readonly ServiceIntent[], observed: Observed) =>
    [...plan(intents, observed, config).results].flatMap(([key, { problem }]) =>
      problem === undefined ? [] : [`${key} ${problem.code}`],
    );
  const addresses: Readonly<Record<string, string>> = { one: "10.240.1.1", web: "10.240.1.2", zoo: "10.240.1.3" };
  /** An internal Service with a rule per service tag. */
  const tagged = (name: string, ...tags: readonly string[]) =>
    intentOf({
      name,
      nodes,
      annotations: {
        ...internal,
        "azure-load-balancer-ipv4": addresses[name] ?? "",
        "azure-allowed-service-tags": tags.join(","),
      },
    });

  test("a Service is deleted although the group has more rules than Azure allows", () => {
    const web = tagged("web", "A");
    const observed = filledUp(1_001, [web]);
    const leaving = { ...web, action: "delete" as const };
    expect(problemsIn([leaving], observed)).toEqual([]);
    const { securityGroup } = converge([leaving], observed, config).observed;
    expect(securityGroup?.securityRules).toHaveLength(1_000);
  });

  test("a Service that adds rules to a full group is refused, and no other one that adds none", () => {
    const [one, web, last] = [tagged("one", "A"), tagged("web", "B"), tagged("zoo", "C")];
    const observed = filledUp(1_000, [one, web, last]);
    const leaving = { ...last, action: "delete" as const };
    expect(problemsIn([tagged("one", "A", "D", "E"), web, leaving], observed)).toEqual([
      "default/one TooManySecurityRules",
    ]);
    expect(problemsIn([web], filledUp(1_001, [web]))).toEqual([]);
  });

  test("a Service is not refused for want of the rules that an older, refused one would have", () => {
    const [one, web] = [tagged("one", "A"), tagged("web", "B")];
    const observed = filledUp(998, [one, web]);
    const larger = tagged("one", "A", "D", "E", "F");
    expect(problemsIn([larger, tagged("web", "B", "C", "G")], observed)).toEqual(["default/one TooManySecurityRules"]);
  });

  test("a Service in a full group may change its rules for as many others", () => {
    const observed = filledUp(1_000, [tagged("web", "A")]);
    expect(problemsIn([tagged("web", "B")], observed)).toEqual([]);
    expect(problemsIn([tagged("web", "B", "C")], observed)).toEqual(["default/web TooManySecurityRules"]);
  });

  /** Services with a node port each, without floating IP: each has every address of every node as a destination. */
  const onNodePorts = (count: number, list: ServiceIntent["nodes"]) =>
    Array.from({ length: count }, (_, index) =>
      intentOf({
        name: `web-${index + 100}`,
        nodes: list,
        annotations: { "azure-disable-load-balancer-floating-ip": "true" },
        spec: { ports: [{ name: "http", protocol: "TCP", port: 80, nodePort: 30_000 + index }] },
      }),
    );

  test("too many prefixes are an error for the newest Services, found in few plans", () => {
    const list = nodesNamed(...Array.from({ length: 100 }, (_, index) => `node-${index}`));
    const intents = onNodePorts(40, list);
    const { observed } = converge(intents, world({ nodes: list }), config);
    let rounds = 0;
    const counted: Observed = {
      ...observed,
      get securityGroup() {
        rounds += 1;
        return observed.securityGroup;
      },
    };
    const { results } = plan(intents, counted, config);
    const refused = intents.flatMap(({ service }) => {
      const key = `default/${service.metadata?.name}`;
      return results.get(key)?.problem?.code === "TooManySecurityRules" ? [key] : [];
    });
    // 4,000 prefixes are one of the user's and 19 Services with 200 addresses each.
    expect(refused).toEqual(Array.from({ length: 21 }, (_, index) => `default/web-${index + 119}`));
    expect(rounds).toBeLessThan(10);
  });

  test("more than 4000 destination prefixes are an error", () => {
    const many = Array.from({ length: 4000 }, (_, index) => `198.18.${Math.floor(index / 250)}.${index % 250}`);
    const users = { name: "users-many", priority: 100, destinationAddressPrefixes: many };
    const result = plan(
      [intentOf({ nodes, annotations: { "azure-pip-name": "my-pip" } })],
      rulesOf(withBalancer(), [users]),
      config,
    );
    expect(result.results.get("default/web")?.problem?.messages.join()).toContain("destination prefixes");
  });

  test("configured tags are set with the rules, and alone", () => {
    const tagging = plannerConfigOf({ tags: "env=test" });
    const end = converge([intentOf({ nodes, annotations: internal })], world({ nodes }), tagging).observed;
    expect(end.securityGroup?.tags).toEqual({ team: "network", env: "test" });
  });
});

/** The state whose security group has these rules beside a user's. */
function rulesOf(observed: Observed, rules: readonly SecurityRule[]): Observed {
  const securityGroup: NetworkSecurityGroup = { ...observed.securityGroup, securityRules: [usersRule, ...rules] };
  return { ...observed, securityGroup };
}

/** A Service on `my-pip` whose load balancer and members are there, so that only the security group is left to write. */
const withBalancer = (): Observed => after([{ annotations: { "azure-pip-name": "my-pip" } }]);

const allowed = (ports: readonly string[], more: Partial<SecurityRule> = {}): SecurityRule => ({
  name: `k8s-azure-lb_allow_IPv4_${ports.join("-")}`,
  priority: 500,
  protocol: "Tcp",
  access: "Allow",
  direction: "Inbound",
  sourceAddressPrefix: "Internet",
  sourcePortRange: "*",
  destinationPortRanges: [...ports],
  ...more,
});

describe("removing destinations from rules", () => {
  const removal = (rules: readonly SecurityRule[], ...retained: readonly number[]) => {
    const set = new RuleSet(rules);
    set.remove("Tcp", ["20.1.1.1"], () => new Set(retained));
    return set.list();
  };
  const two = allowed(["443", "80"], { destinationAddressPrefixes: ["20.1.1.1", "20.1.1.2"] });

  test("no rules", () => expect(removal([])).toEqual([]));

  test("no match", () => {
    const rule = allowed(["80"], { destinationAddressPrefix: "20.1.1.2" });
    expect(removal([rule])).toEqual([rule]);
  });

  test("patched", () => {
    expect(removal([two])).toEqual([allowed(["443", "80"], { destinationAddressPrefix: "20.1.1.2" })]);
  });

  test("a rule without its last destination is removed", () => {
    expect(removal([allowed(["80"], { destinationAddressPrefix: "20.1.1.1" })])).toEqual([]);
  });

  test("more destinations are removed than a rule has", () => {
    const set = new RuleSet([allowed(["80"], { destinationAddressPrefix: "20.1.1.1" })]);
    set.remove("Tcp", ["20.1.1.1", "20.1.1.3", "20.1.1.4"], () => new Set());
    expect(set.list()).toEqual([]);
  });

  test("rules of retained ports are unchanged", () => {
    expect(removal([two], 80, 443)).toEqual([two]);
  });

  test("rules of ports that are retained in part are split", () => {
    const [rest, split] = removal([two], 443);
    expect(rest).toMatchObject({ destinationAddressPrefix: "20.1.1.2", destinationPortRanges: ["443", "80"] });
    expect(split).toMatchObject({
      destinationAddressPrefix: "20.1.1.1",
      destinationPortRanges: ["443"],
      priority: 501,
    });
  });

  test("only managed priorities and names, only the protocol", () => {
    const others = [
      { ...two, priority: 499 },
      { ...two, priority: 4097 },
      { ...two, name: "users" },
      { ...two, protocol: "Udp" },
      { ...two, destinationPortRanges: ["80-90"] },
    ];
    for (const rule of others) expect(removal([rule])).toEqual([rule]);
  });
});

test("destinations leave the rules without any of the retained ports, apart from rules of port ranges", () => {
  const withPorts = (name: string, ...ports: readonly string[]) => ({
    ...allowed(ports, { destinationAddressPrefix: "20.1.1.1" }),
    name: `k8s-azure-lb_${name}`,
  });
  const set = new RuleSet([withPorts("used", "80", "443"), withPorts("unused", "443"), withPorts("range", "400-500")]);
  set.removeUnused("Tcp", ["20.1.1.1"], new Set([80]));
  expect(set.list().map(({ name }) => name)).toEqual(["k8s-azure-lb_used", "k8s-azure-lb_range"]);
});

describe("keeping destinations of rules", () => {
  test("kept and removed; only managed priorities", () => {
    const users = { ...allowed(["80"], { destinationAddressPrefix: "1.1.1.1" }), name: "users" };
    const set = new RuleSet([allowed(["80"], { destinationAddressPrefixes: ["20.1.1.1", "20.1.1.2"] }), users]);
    set.retain((one) => one === "20.1.1.1");
    expect(set.list().map((rule) => rule.destinationAddressPrefix)).toEqual(["1.1.1.1", "20.1.1.1"]);
  });
});

describe("the next free priority", () => {
  test("the lowest free priority for allow rules, the highest for deny rules", () => {
    const set = new RuleSet([usersRule, { name: "a", priority: 500 }, { name: "b", priority: 4095 }]);
    set.allow({ protocol: "Tcp", family: "IPv4", sources: ["Internet"], ports: [80], destinations: ["20.1.1.1"] });
    set.deny("IPv4", ["20.1.1.1"]);
    expect(
      set
        .list()
        .slice(-2)
        .map(({ priority }) => priority),
    ).toEqual([502, 4094]);
  });
});

describe("the names of security rules", () => {
  const nameOf = (
    sources: readonly string[],
    ports: readonly number[],
    protocol: "Tcp" | "Udp" = "Tcp",
    family: "IPv4" | "IPv6" = "IPv4",
  ) => {
    const set = new RuleSet([]);
    set.allow({ protocol, family, sources, ports, destinations: ["20.1.1.1"] });
    return set.list()[0]?.name;
  };

  test("is that of the Go provider", () => {
    expect(nameOf(["Internet"], [80])).toBe("k8s-azure-lb_allow_IPv4_d39272f7f57ed937951650d93992ad77");
  });

  test("protocol, family, sources and ports change the name, order does not", () => {
    const names = [
      nameOf(["A", "B"], [80, 443]),
      nameOf(["A"], [80, 443]),
      nameOf(["A", "B"], [80]),
      nameOf(["A", "B"], [80, 443], "Udp"),
      nameOf(["A", "B"], [80, 443], "Tcp", "IPv6"),
    ];
    expect(new Set(names).size).toBe(5);
    expect(nameOf(["B", "A"], [443, 80])).toBe(names[0] ?? "");
  });
});
