import { expect, test } from "bun:test";

import type { SecurityRule } from "@azure/arm-network";

import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../world.ts";

const config = plannerConfigOf();
const nodes = nodesNamed("node-0", "node-1");
const direct = { "azure-disable-load-balancer-floating-ip": "true" };

/** Two settled Services with the status of their last plan; the objects have been planned with before. */
function settled(web: ServiceShape = {}, other: ServiceShape = {}) {
  const intents = [intentOf({ name: "web", nodes, ...web }), intentOf({ name: "other", nodes, ...other })];
  const { observed, last } = converge(intents, world({ nodes }), config);
  const known = intents.map((intent): ServiceIntent => {
    const loadBalancer = last.results.get(`default/${intent.service.metadata?.name}`)?.status ?? {};
    return { ...intent, service: { ...intent.service, status: { loadBalancer } } };
  });
  const seen = { ...observed, services: known.map(({ service }) => service) };
  expect(plan(known, seen, config).stages).toEqual([]);
  const [address = ""] = known
    .flatMap(({ service }) => service.status?.loadBalancer?.ingress ?? [])
    .map(({ ip }) => ip);
  return { intents: known, observed: seen, address };
}

const withRules = (
  observed: Observed,
  edit: (rules: readonly SecurityRule[]) => readonly SecurityRule[],
): Observed => ({
  ...observed,
  securityGroup: { ...observed.securityGroup, securityRules: [...edit(observed.securityGroup?.securityRules ?? [])] },
});

const managed = (rules: readonly SecurityRule[] = []): readonly SecurityRule[] =>
  rules.filter(({ name }) => name?.startsWith("k8s-azure-lb"));

/** Managed rules after the plan, as `name ports → destinations`. */
function rulesAfter(intents: readonly ServiceIntent[], observed: Observed): readonly string[] {
  const after = converge(intents, observed, config).observed.securityGroup?.securityRules;
  return managed(after).map(
    ({ name = "", destinationPortRanges = [], destinationAddressPrefix = "", destinationAddressPrefixes = [] }) =>
      `${name} ${destinationPortRanges.join()} → ${[...destinationAddressPrefixes, destinationAddressPrefix].join()}`,
  );
}

const ruleFor = (address: string, more: Partial<SecurityRule>): SecurityRule => ({
  priority: 700,
  access: "Allow",
  direction: "Inbound",
  protocol: "Tcp",
  sourceAddressPrefix: "Internet",
  sourcePortRange: "*",
  destinationAddressPrefix: address,
  destinationPortRanges: ["8080"],
  ...more,
});

test("a rule with an address of a settled Service that does not ask for it is removed", () => {
  const { intents, observed, address } = settled();
  const before = rulesAfter(intents, observed);
  for (const rule of [
    ruleFor(address, { name: "k8s-azure-lb_allow_IPv4_0123456789abcdef0123456789abcdef" }),
    ruleFor(address, { name: "k8s-azure-lb_deny-all_IPv4", access: "Deny", protocol: "*" }),
  ])
    expect(
      rulesAfter(
        intents,
        withRules(observed, (rules) => [...rules, rule]),
      ),
    ).toEqual(before);
});

const frontendNamed = (name: string) => ({
  name,
  publicIPAddress: {
    id: "/subscriptions/sub0/resourceGroups/unread/providers/Microsoft.Network/publicIPAddresses/one",
  },
});

test.each([
  ["is removed with the next change of a Service", undefined, false],
  ["is removed although the public IP of a user's frontend was not read", "users-frontend", false],
  ["stays while the public IP of a Service's frontend was not read", `a${"1".repeat(31)}`, true],
])("a rule with an address that nothing has any more %s", (_what, frontend, stays) => {
  const { intents, observed } = settled({ uid: "0a1b2c3d-0000-4000-8000-000000000001" });
  const stale = ruleFor("20.99.99.99", { name: "k8s-azure-lb_allow_IPv4_0123456789abcdef0123456789abcdef" });
  const [web, ...others] = intents;
  if (web === undefined) throw new Error("two Services");
  const changed = {
    ...web,
    service: { ...web.service, spec: { ...web.service.spec, loadBalancerSourceRanges: ["10.0.0.0/8"] } },
  };
  const loadBalancers = observed.loadBalancers.map(({ frontendIPConfigurations = [], ...one }) => ({
    ...one,
    frontendIPConfigurations: [
      ...frontendIPConfigurations,
      ...(frontend === undefined ? [] : [frontendNamed(frontend)]),
    ],
  }));
  const edited = withRules({ ...observed, loadBalancers }, (rules) => [...rules, stale]);
  expect(
    rulesAfter([changed, ...others], edited)
      .join()
      .includes("20.99.99.99"),
  ).toBe(stays);
});

/** With a Service of another shard: destinations that nothing is known to have may be its. */
const shared = (observed: Observed): Observed => {
  const annotations = { "cloud-controller-host/served-by": "x" };
  return {
    ...observed,
    services: [...observed.services, { metadata: { name: "theirs", namespace: "default", annotations } }],
  };
};

test("a Service closes an address that it has left, beside Services of other shards", () => {
  const { intents, observed, address } = settled();
  const [web, other] = intents;
  if (web === undefined || other === undefined) throw new Error("two Services");
  const ingress = [...(web.service.status?.loadBalancer?.ingress ?? []), { ip: "20.7.7.7" }];
  const left = { ...web, service: { ...web.service, status: { loadBalancer: { ingress } } } };
  const edited = withRules(observed, (rules) =>
    rules.map(({ destinationAddressPrefix, destinationAddressPrefixes = [], ...rule }) =>
      managed([rule]).length === 0
        ? { ...rule, ...(destinationAddressPrefix !== undefined && { destinationAddressPrefix }) }
        : { ...rule, destinationAddressPrefixes: [...destinationAddressPrefixes, "20.7.7.7"] },
    ),
  );
  const after = rulesAfter([left, other], shared({ ...edited, services: [left.service, other.service] })).join();
  expect([after.includes("20.7.7.7"), after.includes(address)]).toEqual([false, true]);
});

test("a Service that is deleted closes its address, beside Services of other shards", () => {
  const { intents, observed, address } = settled();
  const [web, other] = intents;
  if (web === undefined || other === undefined) throw new Error("two Services");
  const after = rulesAfter([{ ...web, action: "delete" }, other], shared(observed)).join();
  expect(after).not.toBe("");
  expect(after).not.toContain(address);
});

test("a Service that adds no rule is not warned of the limit of rules", () => {
  const { intents, observed } = settled({ annotations: direct });
  const users = Array.from({ length: 950 }, (_, index) => ({ name: `users-${index}`, priority: 4100 + index }));
  const { results } = plan(
    intents,
    withRules(observed, (rules) => [...rules, ...users]),
    config,
  );
  expect([...results.values()].flatMap(({ events }) => events)).toEqual([]);
});

test("a write of the security group is for the deletion of a Service without floating IP, too", () => {
  const { intents, observed } = settled({ annotations: direct });
  const [web, other] = intents;
  if (web === undefined || other === undefined) throw new Error("two Services");
  const spec = { ...other.service.spec, loadBalancerSourceRanges: ["10.0.0.0/8"] };
  const changed = { ...other, service: { ...other.service, spec } };
  const writes = plan([{ ...web, action: "delete" }, changed], observed, config).stages.flatMap((one) => one.writes);
  const write = writes.find(({ kind }) => kind === "put-security-group");
  expect(write?.services.toSorted()).toEqual(["default/other", "default/web"]);
});

test("a rule for a range of ports with an address of a Service is a user's edit, and stays", () => {
  const { intents, observed, address } = settled();
  const ranged = ruleFor(address, { name: "k8s-azure-lb_allow_IPv4_ranged", destinationPortRanges: ["80-90"] });
  const edited = withRules(observed, (rules) => [...rules, ranged]);
  expect(plan(intents, edited, config).stages).toEqual([]);
});

test("a rule that a user has moved out of the priorities of managed rules stays there, as ARM takes no second one of its name", () => {
  const { intents, observed } = settled();
  const edited = withRules(observed, (rules) =>
    rules.map((rule) => (managed([rule]).length > 0 ? { ...rule, priority: 300 } : rule)),
  );
  const after = converge(intents, edited, config).observed.securityGroup?.securityRules;
  expect(managed(after).map(({ priority }) => priority)).toEqual([300]);
});

test("a rule that a Service has lost is created again beside the rules of a settled one", () => {
  const { intents, observed } = settled({}, { spec: { ports: [{ name: "dns", protocol: "UDP", port: 53 }] } });
  const before = rulesAfter(intents, observed);
  expect(before).toHaveLength(2);
  const edited = withRules(observed, (rules) => rules.filter(({ protocol }) => protocol !== "Udp"));
  expect(rulesAfter(intents, edited).toSorted()).toEqual(before.toSorted());
});

test("a rule of a port that a Service has given up is removed although no probe goes with it", () => {
  const spec = (...ports: readonly number[]): NonNullable<ServiceShape["spec"]> => ({
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 32_000,
    ports: ports.map((port) => ({ name: `p${port}`, protocol: "TCP", port, nodePort: 30_000 + port })),
  });
  const { intents, observed } = settled({ spec: spec(80, 443) });
  const [web, ...others] = intents;
  if (web === undefined) throw new Error("two Services");
  const less = { ...web, service: { ...web.service, spec: { ...web.service.spec, ...spec(80) } } };
  const services = [less, ...others].map(({ service }) => service);
  const after = converge([less, ...others], { ...observed, services }, config).observed.loadBalancers[0];
  const before = observed.loadBalancers[0];
  expect(after?.probes).toEqual(before?.probes ?? []);
  expect(after?.loadBalancingRules?.map(({ frontendPort }) => frontendPort).toSorted()).toEqual([80, 80]);
});

test("a node that claims the address of a Service does not close its ports", () => {
  const { intents, observed, address } = settled();
  const [node] = nodesNamed("node-0");
  const claiming = [{ ...node, status: { addresses: [{ type: "InternalIP", address }] } }];
  const seen = { ...observed, nodes: claiming };
  expect(rulesAfter(intents, seen)).toEqual(rulesAfter(intents, observed));
});

test("a Service that has left an address does not close it for the one that has it now", () => {
  const { intents, observed, address } = settled();
  const edited = withRules(observed, (rules) =>
    rules.map((rule) => (managed([rule]).length > 0 ? { ...rule, destinationPortRanges: ["9090"] } : rule)),
  );
  const [web, other] = intents;
  if (web === undefined || other === undefined) throw new Error("two Services");
  const ingress = [...(other.service.status?.loadBalancer?.ingress ?? []), { ip: address }];
  const left = { ...other, service: { ...other.service, status: { loadBalancer: { ingress } } } };
  expect(rulesAfter([web, left], edited).join()).toContain(address);
});

test("a Service that gives up floating IP when there are no nodes closes the ports that it has no more", () => {
  const { observed, address } = settled();
  const ports = [{ name: "https", protocol: "TCP", port: 443, nodePort: 30443 }];
  const given = intentOf({ name: "web", annotations: direct, ingress: [address], spec: { ports } });
  const seen = { ...observed, nodes: [], services: [given.service] };
  expect(rulesAfter([given], seen).join()).not.toContain(address);
});

test("a Service follows its address to another public IP, whatever plans came before", () => {
  const annotations = { "azure-load-balancer-ipv4": "20.9.9.9" };
  const { intents, observed } = settled({ annotations });
  const publicIPs = observed.publicIPs.map((one) => (one.name === "my-pip" ? publicIP("moved", "20.9.9.9") : one));
  const puts = plan(intents, { ...observed, publicIPs }, config).stages.flatMap(({ writes }) => writes);
  expect(JSON.stringify(puts.find(({ kind }) => kind === "put-load-balancer"))).toContain("publicIPAddresses/moved");
});

test("an internal Service moves to the subnet that its name stands for now, whatever plans came before", () => {
  const annotations = {
    "azure-load-balancer-internal": "true",
    "azure-load-balancer-internal-subnet": "lb-subnet",
  };
  const { intents, observed } = settled({ annotations });
  const subnet = { ...observed.subnets.get("lb-subnet"), id: "/virtualNetworks/other/subnets/lb-subnet" };
  const subnets = new Map([...observed.subnets, ["lb-subnet", subnet] as const]);
  const puts = plan(intents, { ...observed, subnets }, config).stages.flatMap(({ writes }) => writes);
  expect(JSON.stringify(puts.find(({ kind }) => kind === "put-load-balancer"))).toContain("virtualNetworks/other");
});

test.each([
  ["its rule", {}],
  ["its rule, which has no probe", { port_80_no_probe_rule: "true" }],
])("a port that a user's NAT rule takes is a conflict of a Service that has %s already", (_has, annotations) => {
  const { intents, observed } = settled({ annotations }, { annotations });
  const loadBalancers = observed.loadBalancers.map((one) => {
    const [rule] = one.loadBalancingRules ?? [];
    if (rule?.frontendIPConfiguration === undefined) return one;
    const { frontendIPConfiguration } = rule;
    return { ...one, inboundNatRules: [{ name: "ssh", protocol: "Tcp", frontendPort: 80, frontendIPConfiguration }] };
  });
  const { results } = plan(intents, { ...observed, loadBalancers }, config);
  expect([...results.values()].map(({ problem }) => problem?.code)).toContain("PortConflict");
});

test("a public IP that others have released becomes the second address of a Service, whatever plans came before", () => {
  const { observed, address } = settled();
  const dual = { ipFamilies: ["IPv4", "IPv6"], ipFamilyPolicy: "RequireDualStack" };
  const annotations = { "azure-pip-name-ipv6": "v6-pip" };
  const intents = [intentOf({ name: "web", nodes, annotations, ingress: [address], spec: dual })];
  const writesWith = (more: Parameters<typeof publicIP>[2]) => {
    const publicIPs = [...observed.publicIPs, publicIP("v6-pip", "2001:db8::1", more)];
    return JSON.stringify(plan(intents, { ...observed, publicIPs }, config).stages);
  };
  const others = { ipConfiguration: { id: "/networkInterfaces/others/ipConfigurations/primary" } };
  expect(writesWith(others)).not.toContain("publicIPAddresses/v6-pip");
  expect(writesWith({})).toContain("publicIPAddresses/v6-pip");
});
