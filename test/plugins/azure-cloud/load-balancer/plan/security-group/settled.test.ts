import { describe, expect, test } from "bun:test";

import type { SecurityRule } from "@azure/arm-network";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, world } from "../../world.ts";

const config = plannerConfigOf();
const ranges = { spec: { loadBalancerSourceRanges: ["198.51.100.0/24", "2001:db8::/32", "192.0.2.0/24"] } };
const web = intentOf({ name: "web", annotations: { "azure-pip-name": "my-pip" }, ...ranges });
const deny = intentOf({
  name: "deny",
  annotations: { "azure-pip-name": "users-ip", "azure-deny-all-except-load-balancer-source-ranges": "true" },
  ...ranges,
});
const intents = [web, deny];
const { observed: settled } = converge(intents, world(), config);

/** The security group after a user has edited managed rules. */
const changed = (edit: (rule: SecurityRule) => Partial<SecurityRule>): Observed => {
  const { securityRules = [], ...group } = settled.securityGroup ?? {};
  const rules = securityRules.map((rule) => (rule.name === "users-rule" ? rule : { ...rule, ...edit(rule) }));
  return { ...settled, securityGroup: { ...group, securityRules: rules } };
};

/** All of those with this access have been edited. */
const edited = (edit: Partial<SecurityRule>, wanted = "Allow"): Observed =>
  changed(({ access }) => (access === wanted ? edit : {}));

const rulesOf = ({ securityGroup }: Observed): readonly SecurityRule[] => securityGroup?.securityRules ?? [];

const withDescription = { description: "ours" };

describe("a managed rule that a user has edited", () => {
  test.each<[string, Partial<SecurityRule>]>([
    ["other sources", { sourceAddressPrefixes: ["203.0.113.0/24"] }],
    ["a source that is everything", { sourceAddressPrefixes: [], sourceAddressPrefix: "*" }],
    ["one source more", { sourceAddressPrefix: "203.0.113.0/24" }],
    ["a group of interfaces as its source", { sourceApplicationSecurityGroups: [{ id: "/asg" }] }],
    ["another port", { destinationPortRanges: ["22"] }],
    ["one port more", { destinationPortRanges: ["80", "22"] }],
    ["every port", { destinationPortRanges: [], destinationPortRange: "*" }],
    ["another protocol", { protocol: "*" }],
    ["another access", { access: "Deny" }],
    ["another direction", { direction: "Outbound" }],
    ["a source port", { sourcePortRange: "1024" }],
    ["several source ports", { sourcePortRange: "", sourcePortRanges: ["1024", "1025"] }],
  ])("gets back what its name stands for, and keeps its description, if it has %s", (_what, edit) => {
    const { observed } = converge(intents, edited({ ...withDescription, ...edit }), config);
    expect(rulesOf(observed)).toEqual(rulesOf(edited(withDescription)));
  });

  test.each<[string, Partial<SecurityRule>]>([
    ["another access", { access: "Allow" }],
    ["a source", { sourceAddressPrefix: "Internet" }],
    ["several sources", { sourceAddressPrefix: "", sourceAddressPrefixes: ["192.0.2.0/24", "203.0.113.0/24"] }],
    ["one port", { destinationPortRange: "80" }],
    ["several ports", { destinationPortRange: "", destinationPortRanges: ["80", "443"] }],
  ])("denies everything again if it has %s", (_what, edit) => {
    const { observed } = converge(intents, edited({ ...withDescription, ...edit }, "Deny"), config);
    expect(rulesOf(observed)).toEqual(rulesOf(edited(withDescription, "Deny")));
  });

  test.each<[string, Partial<SecurityRule>]>([
    ["a description", withDescription],
    ["its words in another case", { protocol: "TCP", access: "allow", direction: "inbound" }],
  ])("is left alone if it has %s", (_what, edit) => {
    expect(plan(intents, edited(edit), config).stages).toEqual([]);
  });

  test("is left alone if its IPv6 sources are spelled in another way", () => {
    const spec = { ...ranges.spec, ipFamilies: ["IPv6"] };
    const ipv6 = intentOf({ name: "web", spec });
    const { observed } = converge([ipv6], world(), config);
    const rules = rulesOf(observed).map((rule) =>
      rule.sourceAddressPrefix === "2001:db8::/32" ? { ...rule, sourceAddressPrefix: "2001:DB8:0:0::/32" } : rule,
    );
    expect(rules).not.toEqual([...rulesOf(observed)]);
    const group = { ...observed.securityGroup, securityRules: rules };
    expect(plan([ipv6], { ...observed, securityGroup: group }, config).stages).toEqual([]);
  });

  test("is left alone if its sources are in another order", () => {
    const before = changed(({ sourceAddressPrefixes }) =>
      sourceAddressPrefixes ? { sourceAddressPrefixes: sourceAddressPrefixes.toReversed() } : {},
    );
    expect(plan(intents, before, config).stages).toEqual([]);
  });

  test.each<[string, (name: string) => string]>([
    ["keeps a priority that users' rules have, and is completed for another Service", (name) => name],
    ["keeps a priority that users' rules have in a name of another case, too", (name) => name.toUpperCase()],
  ])("%s", (_title, spelled) => {
    const moved = changed(({ access, name = "" }) =>
      access === "Allow" ? { priority: 300, name: spelled(name) } : {},
    );
    expect(plan(intents, moved, config).stages).toEqual([]);
    const other = intentOf({ name: "other", ...ranges });
    const { observed } = converge([other], moved, config);
    const allowing = rulesOf(observed).filter(({ access, name }) => access === "Allow" && name !== "users-rule");
    expect(allowing.map(({ priority }) => priority)).toEqual([300]);
    expect(allowing[0]?.destinationAddressPrefixes).toHaveLength(3);
  });

  test("is restored for the Services that it is for, beside what another one changes", () => {
    const other = (range: string) => intentOf({ name: "other", spec: { loadBalancerSourceRanges: [range] } });
    const { observed } = converge([...intents, other("203.0.113.0/24")], settled, config);
    const securityRules = rulesOf(observed).map((rule) =>
      rule.sourceAddressPrefixes?.includes("192.0.2.0/24") === true ? { ...rule, destinationPortRanges: ["22"] } : rule,
    );
    const before = { ...observed, securityGroup: { ...observed.securityGroup, securityRules } };
    const servicesOf = (range: string): readonly string[] =>
      plan([...intents, other(range)], before, config)
        .stages.flatMap(({ writes }) => writes)
        .flatMap(({ kind, services }) => (kind === "put-security-group" ? services.toSorted() : []));
    expect(servicesOf("203.0.113.0/24")).toEqual(["default/deny", "default/web"]);
    expect(servicesOf("10.0.0.0/8")).toEqual(["default/deny", "default/other", "default/web"]);
  });
});

test("an address that a rule has lost is added for its Service alone, as those with the other addresses need no write", () => {
  const before = changed(({ access, destinationAddressPrefixes = [] }) =>
    access === "Allow"
      ? { destinationAddressPrefixes: destinationAddressPrefixes.filter((one) => one !== "20.9.9.9") }
      : {},
  );
  const writes = plan(intents, before, config).stages.flatMap((stage) => stage.writes);
  expect(writes.map(({ kind, services }) => [kind, ...services])).toEqual([["put-security-group", "default/web"]]);
});
