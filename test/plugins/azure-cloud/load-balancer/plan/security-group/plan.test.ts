import { describe, expect, setDefaultTimeout, test } from "bun:test";

import type { SecurityRule } from "@azure/arm-network";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { PlannerConfig } from "../../../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { RuleSet } from "../../../../../../plugins/azure-cloud/load-balancer/plan/security-group/rules.ts";
import { readSubject } from "../../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, type ServiceShape } from "../../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../../world.ts";
import { accessFor, both, config, dualShape } from "./service-shapes.ts";

setDefaultTimeout(120_000);

const nodes = nodesNamed("node-0", "node-1");
const addresses = [publicIP("v4", "20.1.1.1"), publicIP("v6", "2603::1")];
const start = (about: Partial<Observed> = {}): Observed => world({ nodes, publicIPs: addresses, ...about });

const after = (from: Observed, ...shapes: readonly ServiceShape[]): Observed => {
  const intents = shapes.map((shape) => intentOf({ nodes, ...shape }));
  return converge(intents, { ...from, services: intents.map(({ service }) => service) }, config).observed;
};

const managed = ({ securityGroup }: Observed): readonly SecurityRule[] =>
  (securityGroup?.securityRules ?? [])
    .filter(({ name = "" }) => name.startsWith("k8s-azure-lb"))
    .toSorted((left, right) => (left.priority ?? 0) - (right.priority ?? 0));

/** Access, protocol, sources, destinations and ports of each managed rule, by priority. */
const summary = (observed: Observed): readonly string[] =>
  managed(observed).map((rule) => {
    const list = (one: string | undefined, many: readonly string[] | undefined) => [one ?? many ?? []].flat().join();
    const sources = list(rule.sourceAddressPrefix, rule.sourceAddressPrefixes);
    const destinations = list(rule.destinationAddressPrefix, rule.destinationAddressPrefixes);
    const ports = list(rule.destinationPortRange, rule.destinationPortRanges);
    return `${rule.access} ${rule.protocol} ${sources} > ${destinations} : ${ports}`;
  });

const withRules = (observed: Observed, change: (rule: SecurityRule, index: number) => SecurityRule): Observed => ({
  ...observed,
  securityGroup: {
    ...observed.securityGroup,
    securityRules: (observed.securityGroup?.securityRules ?? []).map(change),
  },
});

const tags = { "azure-allowed-service-tags": "Storage,AzureCloud" };
const ranges = { "azure-allowed-ip-ranges": "10.0.0.0/8,192.168.0.0/24,2001:db8::/32" };
const deny = { "azure-deny-all-except-load-balancer-source-ranges": "true" };
const direct = { "azure-disable-load-balancer-floating-ip": "true" };
const unmanaged = { "azure-disable-load-balancer-nsg-rule": "true" };
const inSpec = { loadBalancerSourceRanges: ["10.0.0.0/8", "2001:db8::/32"] };

const combinations: readonly (readonly [string, ServiceShape])[] = [
  ["no allow list", dualShape()],
  ["additional public IPs", dualShape({ "azure-additional-public-ips": "198.51.100.8,2001:db8::8" })],
  ["floating IP disabled", dualShape(direct)],
  ["floating IP disabled + NSG rule disabled", dualShape({ ...direct, ...unmanaged })],
  ["NSG rule disabled", dualShape(unmanaged)],
  ["allowed-ip-ranges", dualShape(ranges)],
  ["service tags", dualShape(tags)],
  ["source ranges", dualShape({}, inSpec)],
  ["tags and ranges", dualShape({ ...tags, ...ranges })],
  ["deny-all annotation", dualShape({ ...ranges, ...deny })],
  ["invalid ranges", dualShape({ "azure-allowed-ip-ranges": "foo" })],
];

describe("the security rules of a Service", () => {
  test.each(combinations)(
    "an up-to-date security group with %s causes no PUT, also with other priorities",
    (_title, shape) => {
      const first = after(start(), shape);
      const again = (from: Observed) => plan([intentOf({ nodes, ...shape })], from, config).stages;
      const shuffled = withRules(first, (rule, index) =>
        rule.name?.startsWith("k8s-azure-lb") ? { ...rule, priority: 4096 - index * 7 } : rule,
      );
      expect([again(first), again(shuffled)]).toEqual([[], []]);
    },
  );

  test.each(combinations)("the rules of %s go with the Service, and nothing of a user", (_title, shape) => {
    const first = after(start(), shape);
    const gone = intentOf({ ...shape, action: "delete", ingress: ["20.1.1.1", "2603::1"] });
    const end = converge([gone], { ...first, services: [gone.service] }, config).observed;
    expect(end.securityGroup?.securityRules).toEqual(start().securityGroup?.securityRules ?? []);
  });

  test("allowed-ip-ranges make range rules by family in an empty group", () => {
    expect(summary(after(start(), dualShape(ranges)))).toEqual([
      "Allow Tcp 10.0.0.0/8,192.168.0.0/24 > 20.1.1.1 : 80",
      "Allow Tcp 2001:db8::/32 > 2603::1 : 80",
      "Allow Udp 10.0.0.0/8,192.168.0.0/24 > 20.1.1.1 : 53",
      "Allow Udp 2001:db8::/32 > 2603::1 : 53",
    ]);
  });

  test("service tags make one rule per tag, family and protocol in an empty group", () => {
    const lines = summary(after(start(), dualShape(tags)));
    expect([lines.length, lines.slice(0, 4)]).toEqual([
      8,
      [
        "Allow Tcp Storage > 20.1.1.1 : 80",
        "Allow Tcp AzureCloud > 20.1.1.1 : 80",
        "Allow Tcp Storage > 2603::1 : 80",
        "Allow Tcp AzureCloud > 2603::1 : 80",
      ],
    ]);
  });

  test("source ranges make range rules in an empty group", () => {
    expect(summary(after(start(), dualShape({}, { ...inSpec, ports: both.slice(0, 1) })))).toEqual([
      "Allow Tcp 10.0.0.0/8 > 20.1.1.1 : 80",
      "Allow Tcp 2001:db8::/32 > 2603::1 : 80",
    ]);
  });

  test("other ranges replace the rules of the old ones", () => {
    const first = after(start(), dualShape(ranges));
    expect(summary(after(first, dualShape({ "azure-allowed-ip-ranges": "10.9.0.0/16" })))).toEqual([
      "Allow Tcp 10.9.0.0/16 > 20.1.1.1 : 80",
      "Allow Udp 10.9.0.0/16 > 20.1.1.1 : 53",
    ]);
  });

  test("other ports replace the rules of the old ones", () => {
    const ports = [{ protocol: "TCP", port: 443, nodePort: 30_443 }];
    expect(summary(after(after(start(), dualShape()), dualShape({}, { ports })))).toEqual([
      "Allow Tcp Internet > 20.1.1.1 : 443",
      "Allow Tcp Internet > 2603::1 : 443",
    ]);
  });

  test("a Service whose rules are disabled later loses them, and another Service's stay", () => {
    const other = {
      name: "other",
      annotations: { "azure-pip-name": "v4" },
      spec: { ports: [{ protocol: "TCP", port: 81, nodePort: 30_081 }] },
    };
    const first = after(start(), dualShape(), other);
    expect(summary(after(first, dualShape(unmanaged), other))).toEqual(["Allow Tcp Internet > 20.1.1.1 : 81"]);
  });

  test("floating IP disabled: retained node ports of another service", () => {
    const other = {
      name: "other",
      annotations: { ...direct },
      spec: { ports: [{ protocol: "TCP", port: 81, nodePort: 30_081 }] },
    };
    const web = { annotations: { ...direct }, spec: { ports: both.slice(0, 1) } };
    const first = after(start(), web, other);
    expect(summary(first).toSorted()).toEqual([
      "Allow Tcp Internet > 10.240.0.4,10.240.0.5 : 30080",
      "Allow Tcp Internet > 10.240.0.4,10.240.0.5 : 30081",
      "Allow Tcp Internet > fd00::4,fd00::5 : 30080",
      "Allow Tcp Internet > fd00::4,fd00::5 : 30081",
    ]);
    const gone = intentOf({ ...web, action: "delete" });
    const services = [gone.service, intentOf(other).service];
    expect(summary(converge([gone], { ...first, services }, config).observed)).toEqual([
      "Allow Tcp Internet > 10.240.0.4,10.240.0.5 : 30081",
      "Allow Tcp Internet > fd00::4,fd00::5 : 30081",
    ]);
  });

  test("destinations that no Service is known to have go, unless another deployment may know their Service", () => {
    const before = after(start(), dualShape({}, { ports: both.slice(0, 1) }));
    const securityRules = before.securityGroup?.securityRules?.map(({ destinationAddressPrefix, ...rule }) =>
      destinationAddressPrefix === "20.1.1.1"
        ? { ...rule, destinationAddressPrefixes: ["20.1.1.1", "20.9.9.9"] }
        : { ...rule, ...(destinationAddressPrefix !== undefined && { destinationAddressPrefix }) },
    );
    const observed = { ...before, securityGroup: { ...before.securityGroup, securityRules: securityRules ?? [] } };
    const destinations = (settings: Partial<PlannerConfig>, marked: boolean): boolean => {
      const web = intentOf({ nodes, ...dualShape({}, { ports: both.slice(0, 1) }) });
      const other = {
        metadata: { name: "other", namespace: "default", annotations: { "cloud-controller-host/served-by": "x" } },
      };
      const all = { ...observed, services: [web.service, ...(marked ? [other] : [])] };
      return summary(converge([web], all, { ...config, ...settings }).observed)
        .join()
        .includes("20.9.9.9");
    };
    expect(destinations({}, false)).toBe(false);
    expect(destinations({ shardSuffix: "-a", loadBalancerName: "kubernetes-a" }, false)).toBe(true);
    expect(destinations({ shardSuffix: "" }, false)).toBe(true);
    expect(destinations({}, true)).toBe(true);
  });

  test("node addresses leave the rules when floating IP is enabled again", () => {
    const first = after(start(), dualShape(direct));
    expect(summary(after(first, dualShape())).join()).not.toContain("10.240.0.");
  });

  test("more than 4000 sources in one rule, and in two rules, are an error", () => {
    const many = (count: number) =>
      Array.from({ length: count }, (_, index) => `${1 + (index >> 8)}.${index & 255}.0.0/31`);
    const ready = after(start(), dualShape());
    const refused = (count: number, ofUser: number) => {
      const users = { name: "users-many", priority: 100, sourceAddressPrefixes: many(ofUser) };
      const observed = { ...ready, securityGroup: { ...ready.securityGroup, securityRules: [users] } };
      const shape = dualShape({ "azure-allowed-ip-ranges": many(count).join() }, { ports: both.slice(0, 1) });
      const { results } = plan([intentOf({ nodes, ...shape })], observed, config);
      return results.get("default/web")?.problem?.messages.join();
    };
    expect(refused(4001, 0)).toContain("has 4001 items; at most 4000 are allowed");
    expect(refused(2, 3999)).toContain("source prefixes");
    expect(refused(1, 3999)).toBeUndefined();
  });

  test.each(["source", "destination"] as const)(
    "the newest Service alone is refused where its %s prefixes are all that is too many",
    (side) => {
      const publicIPs = [...addresses, publicIP("w4", "20.1.1.2"), publicIP("w6", "2603::2")];
      const old = { ...dualShape(), name: "a-old" };
      const late: ServiceShape = {
        ...dualShape({ ...tags, ...ranges, ...deny, "azure-pip-name": "w4", "azure-pip-name-ipv6": "w6" }),
        name: "b-late",
      };
      const count = ({ securityGroup }: Observed): number =>
        (securityGroup?.securityRules ?? []).flatMap((rule) =>
          [rule[`${side}AddressPrefix`] ?? rule[`${side}AddressPrefixes`] ?? []].flat(),
        ).length;
      const { securityGroup } = after(start({ publicIPs }), old);
      // All but the rules of the newest one.
      const ready = { ...after(start({ publicIPs }), old, late), securityGroup };
      const room = 4000 - count(ready);
      const refused = (ofUser: number) => {
        const prefixes = Array.from({ length: ofUser }, (_, index) => `${1 + (index >> 8)}.${index & 255}.0.0/31`);
        const users = { name: "users-many", priority: 100, [`${side}AddressPrefixes`]: prefixes };
        const securityRules = [...(securityGroup?.securityRules ?? []), users];
        const observed = { ...ready, securityGroup: { ...securityGroup, securityRules } };
        const { results } = plan(
          [old, late].map((shape) => intentOf({ nodes, ...shape })),
          observed,
          config,
        );
        return ["a-old", "b-late"].filter((name) => results.get(`default/${name}`)?.problem !== undefined);
      };
      expect(refused(room)).toEqual(["b-late"]);
      expect(refused(room + 1)).toEqual(["a-old", "b-late"]);
    },
  );
});

describe("adding rules to a security group", () => {
  const one = (annotations: Readonly<Record<string, string>>) =>
    summary(after(start(), dualShape(annotations, { ports: both.slice(0, 1) })));

  test.each<[string, Readonly<Record<string, string>>, readonly string[]]>([
    ["no access control config", {}, ["Allow Tcp Internet > 20.1.1.1 : 80", "Allow Tcp Internet > 2603::1 : 80"]],
    ["tag only", { "azure-allowed-service-tags": "A" }, ["Allow Tcp A > 20.1.1.1 : 80", "Allow Tcp A > 2603::1 : 80"]],
    ["v4 ranges", { "azure-allowed-ip-ranges": "10.0.0.0/8" }, ["Allow Tcp 10.0.0.0/8 > 20.1.1.1 : 80"]],
    ["v6 ranges", { "azure-allowed-ip-ranges": "2001:db8::/32" }, ["Allow Tcp 2001:db8::/32 > 2603::1 : 80"]],
    [
      "both",
      { "azure-allowed-ip-ranges": "10.0.0.0/8,2001:db8::/32" },
      ["Allow Tcp 10.0.0.0/8 > 20.1.1.1 : 80", "Allow Tcp 2001:db8::/32 > 2603::1 : 80"],
    ],
    [
      "ranges and tags",
      { "azure-allowed-ip-ranges": "10.0.0.0/8", "azure-allowed-service-tags": "A" },
      ["Allow Tcp A > 20.1.1.1 : 80", "Allow Tcp 10.0.0.0/8 > 20.1.1.1 : 80", "Allow Tcp A > 2603::1 : 80"],
    ],
    [
      "plus deny",
      { "azure-allowed-ip-ranges": "10.0.0.0/8", ...deny },
      ["Allow Tcp 10.0.0.0/8 > 20.1.1.1 : 80", "Deny * * > 2603::1 : *", "Deny * * > 20.1.1.1 : *"],
    ],
    ["invalid ranges", { "azure-allowed-ip-ranges": "foo" }, ["Deny * * > 2603::1 : *", "Deny * * > 20.1.1.1 : *"]],
  ])("%s", (_title, annotations, expected) => {
    expect(one(annotations)).toEqual(expected);
  });
});

const rule = (destinations: readonly string[], more: Partial<SecurityRule> = {}): SecurityRule => ({
  name: "k8s-azure-lb_allow_IPv4_x",
  priority: 500,
  protocol: "Tcp",
  access: "Allow",
  direction: "Inbound",
  sourceAddressPrefix: "Internet",
  sourcePortRange: "*",
  destinationPortRanges: ["80"],
  destinationAddressPrefixes: [...destinations],
  ...more,
});

describe("keeping rules of a security group", () => {
  const retained = (given: SecurityRule) => {
    const set = new RuleSet([given]);
    set.retain((one) => one === "20.1.1.1" || one === "2603::1");
    return set.list();
  };

  test.each([
    ["v4 destinations removed", rule(["20.1.1.1", "20.1.1.2"]), "20.1.1.1"],
    ["v6 destinations removed", rule(["2603::1", "2603::2"]), "2603::1"],
  ])("%s", (_title, given, expected) => {
    expect(retained(given)).toMatchObject([{ destinationAddressPrefix: expected }]);
    expect(retained(given)[0]).not.toHaveProperty("destinationAddressPrefixes");
  });

  test("rules without a change stay as they are", () => {
    const kept = rule(["20.1.1.1"]);
    expect(retained(kept)[0]).toBe(kept);
  });

  test("rules without destinations, but with application security groups, are kept", () => {
    const group = rule(["20.9.9.9"], { destinationApplicationSecurityGroups: [{ id: "/asg" }] });
    expect(retained(group)).toHaveLength(1);
    expect(retained(rule(["20.9.9.9"]))).toEqual([]);
  });
});

describe("cleaning a security group", () => {
  test("a destination that nothing in the cluster has any more goes with the next write", () => {
    const first = after(start(), dualShape());
    const stale = withRules(first, (one) =>
      one.name?.startsWith("k8s-azure-lb_allow_IPv4")
        ? { ...one, destinationAddressPrefixes: ["20.1.1.1", "20.7.7.7"] }
        : one,
    );
    expect(summary(after(stale, dualShape())).join()).not.toContain("20.7.7.7");
  });

  test("managed rules of other priorities are a user's", () => {
    const users = rule(["20.7.7.7"], { priority: 4097, name: "k8s-azure-lb_mine" });
    const first = start();
    const securityRules = [...(first.securityGroup?.securityRules ?? []), users];
    const end = after({ ...first, securityGroup: { ...first.securityGroup, securityRules } }, dualShape());
    expect(end.securityGroup?.securityRules).toContain(users);
  });
});

describe("the annotation for internal Services", () => {
  test.each([
    ["`true`", "true", []],
    ["`TRUE`", "TRUE", []],
    ["`false`", "false", ["Internet"]],
    ["another word", "yes", ["Internet"]],
  ])("%s", (_title, value, expected) => {
    expect(accessFor({ annotations: { "azure-load-balancer-internal": value } }).tags).toEqual(expected);
  });
});

describe("the allowed service tags", () => {
  test.each([
    ["absent", undefined, ["Internet"]],
    ["single", "Storage", ["Storage"]],
    ["many, trimmed", " Storage , AzureCloud ", ["Storage", "AzureCloud"]],
  ])("%s", (_title, value, expected) => {
    const annotations = value === undefined ? {} : { "azure-allowed-service-tags": value };
    expect(accessFor({ annotations }).tags).toEqual(expected);
  });
});

describe.each([
  ["TestAllowedIPRanges", (text: string): ServiceShape => ({ annotations: { "azure-allowed-ip-ranges": text } })],
  ["TestSourceRanges", (text: string): ServiceShape => ({ spec: { loadBalancerSourceRanges: text.split(",") } })],
])("%s", (_name, shape) => {
  test.each([
    ["single", "10.0.0.0/8", ["10.0.0.0/8"], false],
    ["many, trimmed", " 10.0.0.0/8 , 192.168.0.0/24", ["10.0.0.0/8", "192.168.0.0/24"], false],
    ["host bits: invalid", "10.0.0.1/8", [], true],
    ["one invalid of many: the others, and deny-all", "10.0.0.0/8,foo", ["10.0.0.0/8"], true],
    ["no length: invalid", "10.0.0.0", [], true],
    ["too long: invalid", "10.0.0.0/33", [], true],
  ])("%s", (_title, text, expected, denied) => {
    const { ranges: found, denyAll } = accessFor(shape(text));
    expect([found.IPv4, denyAll]).toEqual([expected, denied]);
  });

  test("an absent annotation has no values", () => {
    expect(accessFor({}).ranges).toEqual({ IPv4: [], IPv6: [] });
  });
});

describe("additional public IPs", () => {
  const problems = (value: string) =>
    readSubject(intentOf({ annotations: { "azure-additional-public-ips": value } }).service, config).problems.length;

  test.each([
    ["single", "20.1.1.1", 0],
    ["many", "20.1.1.1,2603::1", 0],
    ["empty: error", "", 1],
    ["invalid: error", "20.1.1.1,foo", 1],
    ["not trimmed: error", "20.1.1.1, 20.1.1.2", 1],
  ])("%s", (_title, value, expected) => {
    expect(problems(value)).toBe(expected);
  });
});

describe("the rule that denies all", () => {
  test("an outdated rule gets the merged destinations of its family", () => {
    const set = new RuleSet([]);
    set.deny("IPv4", ["20.1.1.2"]);
    set.deny("IPv4", ["20.1.1.1"]);
    set.deny("IPv6", ["2603::1"]);
    expect(
      set.list().map((one) => [one.name, one.priority, one.destinationAddressPrefixes ?? one.destinationAddressPrefix]),
    ).toEqual([
      ["k8s-azure-lb_deny-all_IPv4", 4095, ["20.1.1.1", "20.1.1.2"]],
      ["k8s-azure-lb_deny-all_IPv6", 4094, "2603::1"],
    ]);
  });

  test("a current rule stays the same object", () => {
    const set = new RuleSet([]);
    set.deny("IPv4", ["20.1.1.2"]);
    const [current] = set.list();
    const again = new RuleSet(current === undefined ? [] : [current]);
    again.deny("IPv4", ["20.1.1.2"]);
    expect(again.list()[0]).toBe(current ?? {});
  });
});

describe("the rules of allowed ranges", () => {
  const wanted = { protocol: "Tcp", family: "IPv4", sources: ["10.0.0.0/8", "11.0.0.0/8"], ports: [443, 80] } as const;

  test.each([
    ["none: added", [], ["20.1.1.1"], ["20.1.1.1"]],
    ["outdated: destinations merged, sorted", ["20.1.1.2"], ["20.1.1.1"], ["20.1.1.1", "20.1.1.2"]],
    ["current: unchanged", ["20.1.1.1"], ["20.1.1.1"], ["20.1.1.1"]],
  ])("%s", (_title, before, destinations, expected) => {
    const set = new RuleSet([]);
    if (before.length > 0) set.allow({ ...wanted, destinations: before });
    set.allow({ ...wanted, destinations });
    const [found] = set.list();
    expect([found?.destinationAddressPrefixes ?? found?.destinationAddressPrefix].flat()).toEqual(expected);
    expect(found).toMatchObject({
      sourceAddressPrefixes: ["10.0.0.0/8", "11.0.0.0/8"],
      destinationPortRanges: ["443", "80"],
    });
  });
});

describe("the changed security group", () => {
  test("an unchanged group causes no PUT", () => {
    expect(plan([intentOf({ nodes, ...dualShape() })], after(start(), dualShape()), config).stages).toEqual([]);
  });
});

describe("rules for every port", () => {
  test("deny rules have the single range `*`, allow rules a list", () => {
    const found = managed(after(start(), dualShape({ ...ranges, ...deny })));
    for (const one of found)
      expect([one.destinationPortRange, one.destinationPortRanges !== undefined]).toEqual(
        one.access === "Deny" ? ["*", false] : [undefined, true],
      );
    expect(new Set(found.map(({ access }) => access)).size).toBe(2);
  });
});

test("the rules of a Service whose load balancer is not written yet stay when another Service is planned", () => {
  const early = { name: "early", uid: "early", ...dualShape() };
  const other = { name: "other", uid: "other", annotations: { "azure-pip-name": "my-pip" } };
  const publicIPs = [...addresses, publicIP("my-pip", "20.9.9.9")];
  const { securityGroup } = after(start({ publicIPs }), early, other);
  const { loadBalancers } = after(start({ publicIPs }), other);
  const services = [early, other].map((shape) => intentOf(shape).service);
  const observed = start({ publicIPs, securityGroup, loadBalancers, services });
  const stagesWith = (present: Observed["services"]): readonly string[] =>
    plan([intentOf({ nodes, ...other })], { ...observed, services: present }, config).stages.map(({ name }) => name);
  expect(stagesWith(services)).toEqual(["members"]);
  expect(stagesWith(services.slice(1))).toEqual(["members", "security-group"]);
});

/** Another deployment may know addresses that nothing here does: only what is known to be left is closed. */
const ofAnotherDeployment = {
  metadata: { name: "marked", namespace: "default", annotations: { "cloud-controller-host/served-by": "x" } },
};

describe("one of two Services that share an address with the same port", () => {
  const shared = { "azure-additional-public-ips": "198.51.100.8" };
  const web = { name: "web", uid: "web", annotations: { ...shared, "azure-pip-name": "my-pip" } };
  const other = { name: "other", uid: "other", annotations: { ...shared, "azure-pip-name": "v4" } };
  const publicIPs = [...addresses, publicIP("my-pip", "20.9.9.9")];
  const first = after(start({ publicIPs }), web, other);
  const services = [web, other].map((shape) => intentOf(shape).service).concat(ofAnotherDeployment);
  const opened = (observed: Observed): string => summary(observed).join();

  test("leaves nothing open on its own address when it is deleted", () => {
    expect(opened(first)).toBe("Allow Tcp Internet > 198.51.100.8,20.1.1.1,20.9.9.9 : 80");
    const gone = intentOf({ ...web, action: "delete" });
    expect(opened(converge([gone], { ...first, services }, config).observed)).toBe(
      "Allow Tcp Internet > 198.51.100.8,20.1.1.1 : 80",
    );
  });

  test("leaves nothing open on its own address when it leaves both", () => {
    const ingress = ["20.9.9.9", "198.51.100.8"];
    const moved = intentOf({ nodes, name: "web", uid: "web", annotations: { "azure-pip-name": "my-other" }, ingress });
    const all = [...publicIPs, publicIP("my-other", "20.9.9.10")];
    const from = { ...first, publicIPs: all, services: [moved.service, ...services.slice(1)] };
    expect(opened(converge([moved], from, config).observed)).toBe(
      "Allow Tcp Internet > 198.51.100.8,20.1.1.1,20.9.9.10 : 80",
    );
  });
});

test("a deleted Service leaves nothing open on its address that it opened before it gave up floating IP", () => {
  const web = { name: "web", uid: "web", spec: { ports: both.slice(0, 1) } };
  const other = { name: "other", uid: "other", annotations: { "azure-pip-name": "v4" } };
  const first = after(start(), web, other);
  const without = { ...web, annotations: direct };
  const given = converge([intentOf({ nodes, ...without })], first, config).observed;
  expect(summary(given).join()).toContain("20.0.0.1");
  const gone = intentOf({ ...without, action: "delete" });
  const services = [gone.service, intentOf(other).service, ofAnotherDeployment];
  expect(summary(converge([gone], { ...given, services }, config).observed)).toEqual([
    "Allow Tcp Internet > 20.1.1.1 : 80",
  ]);
});

const floating = "Allow Tcp Internet > 20.1.1.1,20.9.9.9 : 80";
test.each([
  ["stays", "ensure", ["Allow Tcp Internet > 10.240.0.5 : 30080", floating, "Allow Tcp Internet > fd00::5 : 30080"]],
  ["is deleted", "delete", [floating]],
] as const)(
  "the address of a node that is gone is closed where a Service without floating IP %s",
  (_title, action, left) => {
    const web = { name: "web", uid: "web", annotations: direct, spec: { ports: both.slice(0, 1) } };
    const other = { name: "other", uid: "other", annotations: { "azure-pip-name": "v4" } };
    const from = withRules(after(start(), web, other), ({ destinationAddressPrefix, ...rest }) =>
      // A frontend of another deployment, which only that one knows.
      destinationAddressPrefix === "20.1.1.1"
        ? { ...rest, destinationAddressPrefixes: ["20.1.1.1", "20.9.9.9"] }
        : { ...rest, ...(destinationAddressPrefix !== undefined && { destinationAddressPrefix }) },
    );
    const intents = [
      intentOf({ ...web, nodes: nodes.slice(1), action }),
      intentOf({ ...other, nodes: nodes.slice(1) }),
    ];
    const services = [...intents.map(({ service }) => service), ofAnotherDeployment];
    expect(
      summary(converge(intents, { ...from, nodes: nodes.slice(1), services }, config).observed).toSorted(),
    ).toEqual([...left]);
  },
);

test("the cleanup of a Service leaves the rules of the one that was created under its name, whose address it shows", () => {
  const shape = { name: "web", annotations: { "azure-pip-name": "my-pip" }, ingress: ["20.9.9.9"] };
  const observed = after(start({ publicIPs: [...addresses, publicIP("my-pip", "20.9.9.9")] }), {
    ...shape,
    uid: "new",
  });
  expect(summary(observed)).toEqual(["Allow Tcp Internet > 20.9.9.9 : 80"]);
  // A sync that was in flight has returned the address of its successor.
  const former = intentOf({ nodes, ...shape, uid: "old", action: "delete" });
  expect(plan([former], observed, config).stages.map(({ name }) => name)).toEqual([]);
  const last = intentOf({ nodes, ...shape, uid: "new", action: "delete" });
  expect(summary(converge([last], observed, config).observed)).toEqual([]);
});

describe("the node ports of Services without floating IP", () => {
  const withPorts = (name: string, port: number, nodePort: number, annotations = {}) => ({
    name,
    uid: name.repeat(8).slice(0, 32),
    annotations,
    spec: { ports: [{ protocol: "TCP", port, nodePort }] },
  });
  const onNodes = (observed: Observed) => summary(observed).filter((text) => text.includes("10.240.0.4"));

  test("are closed although a Service with floating IP has a port of that number on its own address", () => {
    const other = withPorts("other", 30_080, 30_443);
    const before = after(start(), withPorts("web", 80, 30_080, direct), other);
    expect(onNodes(before).join()).toEndWith(": 30080");
    expect(onNodes(after(before, withPorts("web", 80, 30_081, direct), other)).join()).toEndWith(": 30081");
  });

  test("are closed by a write that the deleted Service waits for, with the changes of another one", () => {
    const gone = { ...withPorts("web", 80, 30_080, direct), nodes };
    const before = after(start(), gone, withPorts("other", 443, 30_443, direct));
    const changed = intentOf({ ...withPorts("other", 443, 30_444, direct), nodes });
    const intents = [intentOf({ ...gone, action: "delete", ingress: [] }), changed];
    const { stages } = plan(intents, { ...before, services: [changed.service] }, config);
    const [write] = stages.find(({ name }) => name === "security-group")?.writes ?? [];
    expect(write?.services).toEqual(["default/other", "default/web"]);
  });
});
