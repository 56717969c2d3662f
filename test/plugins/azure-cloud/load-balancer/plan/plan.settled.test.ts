import { expect, test } from "bun:test";

import type { SecurityRule } from "@azure/arm-network";
import { annotations as ownAnnotations } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, nodesNamed, publicIP, usersBalancer, world } from "../world.ts";

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

test("a public IP that a deleted Service leaves to one that has another is deleted with it, whatever plans came before", () => {
  const tags = { "k8s-azure-service": "default/web,default/other", "k8s-azure-cluster-name": "kubernetes" };
  const { intents, observed } = settled();
  const seen = { ...observed, publicIPs: [...observed.publicIPs, publicIP("kubernetes-shared", "20.9.9.9", { tags })] };
  expect(plan(intents, seen, config).stages).toEqual([]);
  const deleted = intents.map((one): ServiceIntent => (one === intents[0] ? one : { ...one, action: "delete" }));
  const writes = plan(deleted, seen, config).stages.flatMap((stage) => stage.writes);
  expect(writes.map(({ kind, name }) => `${kind} ${name}`)).toContain("delete-public-ip kubernetes-shared");
});

test("a Service keeps its tags on the public IP that a new one shares, whatever plans came before", () => {
  const { intents, observed } = settled({ annotations: { "azure-pip-tags": "owner=web" } });
  const [own] = observed.publicIPs.filter(({ tags }) => tags?.["k8s-azure-service"] === "default/web");
  const annotations = { "azure-pip-name": own?.name ?? "", "azure-pip-tags": "owner=new" };
  const created = intentOf({ name: "new", nodes, annotations, spec: { ports: [{ port: 8080, protocol: "TCP" }] } });
  const writes = plan([created, ...intents], observed, config).stages.flatMap((stage) => stage.writes);
  const put = writes.find(({ kind }) => kind === "put-public-ip");
  expect(put && "body" in put && put.body).toMatchObject({ name: own?.name, tags: { owner: "web" } });
});

test.each([
  [
    "an address that its subnet does not have",
    { "azure-load-balancer-internal": "true", "azure-load-balancer-ipv4": "10.240.0.9" },
    (observed: Observed) => {
      const subnet = { ...observed.subnets.get("subnet0"), addressPrefix: "10.250.0.0/16" };
      return { ...observed, subnets: new Map([["subnet0", subnet]]) };
    },
  ],
  [
    "a DNS label that its public IP has for another one",
    { "azure-dns-label-name": "web" },
    (observed: Observed) => {
      const tags = { "k8s-azure-dns-label-service": "default/other" };
      const publicIPs = observed.publicIPs.map((one) => ({
        ...one,
        ...(one.tags && { tags: { ...one.tags, ...tags } }),
      }));
      return { ...observed, publicIPs };
    },
  ],
])("a Service with %s is refused by each plan", (_problem, annotations, change) => {
  const { intents, observed } = settled({ annotations });
  const seen = change(observed);
  const codesOf = () => [...plan(intents, seen, config).results.values()].map(({ problem }) => problem?.code);
  const codes = codesOf();
  expect(codes[0]).toBeString();
  expect(codesOf()).toEqual(codes);
});

test("a Service moves to the load balancer that its namespace selects by now, whatever plans came before", () => {
  const several = plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [
      { name: "kubernetes", primaryVMSet: "vmss0" },
      { name: "gold", primaryVMSet: "vmss1", serviceNamespaceSelector: { matchLabels: { tier: "gold" } } },
    ],
  });
  const intents = [
    intentOf({ name: "web", nodes }),
    intentOf({ name: "other", nodes, annotations: { "azure-load-balancer-configurations": "gold" } }),
  ];
  const gold = new Map([["default", { tier: "gold" }]]);
  const { observed } = converge(intents, world({ nodes, namespaceLabels: gold }), several);
  const seen = { ...observed, services: intents.map(({ service }) => service) };
  expect(plan(intents, seen, several).stages).toEqual([]);
  const left = { ...seen, namespaceLabels: new Map([["default", {}]]) };
  const web = intents.slice(0, 1);
  expect(plan(web, left, several)).toEqual(plan(structuredClone(web), structuredClone(left), { ...several }));
});

test.each<[string, (observed: Observed) => Observed]>([
  [
    "an address that it has opened before",
    (observed) => {
      const former = intentOf({ name: "web", nodes, annotations: { "azure-load-balancer-ipv4": "20.9.9.7" } });
      return { ...observed, opened: new Map([["default/web", [former.service]]]) };
    },
  ],
  [
    "the address of a public IP that it owns in a group that deployments share",
    (observed) => {
      const mark = { [ownAnnotations.servedBy]: "other" };
      const services = observed.services.map((one) =>
        one.metadata?.name === "web" ? one : { ...one, metadata: { ...one.metadata, annotations: mark } },
      );
      return { ...observed, services };
    },
  ],
])("a Service closes %s, whatever plans came before", (_address, change) => {
  const { intents, observed } = settled();
  const tags = { "k8s-azure-service": "default/web", "k8s-azure-cluster-name": "kubernetes" };
  const before = {
    ...withRules(observed, (rules) => [...rules, ruleFor("20.9.9.7", { name: "k8s-azure-lb_allow_IPv4_former" })]),
    publicIPs: [...observed.publicIPs, publicIP("kubernetes-former", "20.9.9.7", { tags })],
  };
  const servicesOf = (from: Observed): readonly string[] =>
    plan(intents, from, config)
      .stages.flatMap(({ writes }) => writes)
      .flatMap(({ kind, services }) => (kind === "put-security-group" ? services : []));
  expect(servicesOf(before)).toEqual(["default/other", "default/web"]);
  expect(servicesOf(change(before))).toEqual(["default/web"]);
});

test("a Service without floating IP opens its ports on a node that joins, whatever plans came before", () => {
  const { intents, observed } = settled({ annotations: direct });
  const more = nodesNamed("node-0", "node-1", "node-2");
  const wider = intents.map((intent) => ({ ...intent, nodes: more }));
  const group = plan(wider, { ...observed, nodes: more }, config)
    .stages.flatMap(({ writes }) => writes)
    .find(({ kind }) => kind === "put-security-group");
  const [address = ""] = more[2]?.status?.addresses?.map((one) => one.address) ?? [];
  expect(JSON.stringify(group)).toContain(`"${address}"`);
});

test("a Service waits in each plan for the second address that another load balancer has", () => {
  const { observed, address } = settled();
  const spec = { ipFamilies: ["IPv4", "IPv6"], ipFamilyPolicy: "RequireDualStack" };
  const annotations = { "azure-pip-name-ipv6": "v6-pip" };
  const intents = [intentOf({ name: "web", nodes, annotations, ingress: [address], spec })];
  const second = publicIP("v6-pip", "2001:db8::1");
  const [frontend] = usersBalancer("mine").frontendIPConfigurations ?? [];
  const theirs = { ...frontend, publicIPAddress: { id: `${second.id}` } };
  const loadBalancers = [...observed.loadBalancers, { ...usersBalancer("mine"), frontendIPConfigurations: [theirs] }];
  const start = { ...observed, loadBalancers, publicIPs: [...observed.publicIPs, second] };
  const seen = converge(intents, start, config).observed;
  const isSettled = () => plan(intents, seen, config).results.get("default/web")?.settled;
  expect([isSettled(), isSettled()]).toEqual([false, false]);
});

test("an internal Service opens the address that it gets in another subnet, whatever plans came before", () => {
  const annotations = {
    "azure-load-balancer-internal": "true",
    "azure-load-balancer-internal-subnet": "lb-subnet",
  };
  const spec = { loadBalancerSourceRanges: ["198.51.100.0/24"] };
  const { observed } = settled({ annotations, spec });
  const intents = [intentOf({ name: "web", nodes, annotations, spec, ingress: ["10.241.0.99"] })];
  const seen = { ...observed, services: intents.map(({ service }) => service) };
  const subnet = { ...observed.subnets.get("lb-subnet"), id: "/virtualNetworks/other/subnets/lb-subnet" };
  const moved = { ...seen, subnets: new Map([...observed.subnets, ["lb-subnet", subnet] as const]) };
  plan(intents, seen, config);
  const groups = plan(intents, moved, config)
    .stages.flatMap(({ writes }) => writes)
    .filter(({ kind }) => kind === "put-security-group");
  expect(JSON.stringify(groups)).toContain("10.241.0.99");
});

test("a port that a Service gives up is closed although one that has lost the address, and never opened it, asks for it", () => {
  const spec = (...ports: readonly number[]): NonNullable<ServiceShape["spec"]> => ({
    ports: ports.map((port) => ({ name: `p${port}`, protocol: "TCP", port, nodePort: 30_000 + port })),
  });
  const { observed, address } = settled({ spec: spec(443, 8080) });
  const lost = intentOf({ name: "lost", spec: spec(443, 53), ingress: [address] });
  const less = intentOf({ name: "web", nodes, spec: spec(8080), ingress: [address] });
  const seen = { ...observed, services: [less.service, lost.service] };
  expect(rulesAfter([less], seen).filter((rule) => rule.includes("443"))).toEqual([]);
});
