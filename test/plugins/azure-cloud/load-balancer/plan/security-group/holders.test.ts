import { describe, expect, test } from "bun:test";

import type { ServiceIntent } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { destinationsOf } from "../../../../../../plugins/azure-cloud/load-balancer/plan/security-group/rule-contents.ts";
import { intentOf, plannerConfigOf, recordOf } from "../../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../../world.ts";

const config = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
const nodes = nodesNamed("node-0", "node-1");
const external = { "azure-load-balancer-ipv4": "20.9.9.9" };
const ownRules = { "azure-disable-load-balancer-floating-ip": "true" };

type Port = readonly [protocol: string, port: number];

test.each<[string, Port, Port, Record<string, string>]>([
  ["TCP", ["TCP", 80], ["TCP", 443], external],
  ["UDP", ["UDP", 80], ["UDP", 443], external],
  ["UDP, of the number of the other one", ["UDP", 443], ["TCP", 443], external],
  ["TCP without floating IP", ["TCP", 80], ["TCP", 443], { ...external, ...ownRules }],
])(
  "the former port of a Service that is refused for another one stays open while the others on its address are planned: %s",
  (_, former, taken, annotations) => {
    const withPort = (name: string, [protocol, port]: Port, more = {}) =>
      intentOf({
        name,
        nodes,
        annotations: { ...annotations, ...more },
        spec: { ports: [{ protocol, port, nodePort: 30_000 + port }] },
      });
    const before = [withPort("a-older", former), withPort("b-newer", taken)];
    const { observed } = converge(before, world({ nodes }), config);
    expect(observed.securityGroup?.securityRules).not.toBeEmpty();
    const after = [
      withPort("a-older", taken),
      withPort("b-newer", taken, { "azure-load-balancer-tcp-idle-timeout": "10" }),
    ];
    const services = after.map(({ service }) => service);
    const { results, stages } = plan(after, { ...observed, services }, config);
    expect(results.get("default/a-older")?.problem?.code).toBe("PortConflict");
    expect(stages.map(({ name }) => name)).not.toContain("security-group");
  },
);

const openPort = (name: string, ports: readonly number[], more: Record<string, string> = {}, spec = {}) =>
  intentOf({
    name,
    nodes,
    annotations: { ...external, ...more },
    spec: { ports: ports.map((port) => ({ protocol: "TCP", port, nodePort: 30_000 + port })), ...spec },
  });
const slower = { "azure-load-balancer-tcp-idle-timeout": "10" };

test("a new port of a Service that waits for its load balancer stays open while others on its address are planned", () => {
  const other = openPort("b-other", [443]);
  const { observed: before } = converge([openPort("a-web", [80]), other], world({ nodes }), config);
  const web = openPort("a-web", [80, 8080]);
  const { securityGroup } = converge([web, other], before, config).observed;
  const changed = openPort("b-other", [443], slower);
  const observed = { ...before, securityGroup, services: [web.service, changed.service] };
  expect(plan([changed], observed, config).stages.map(({ name }) => name)).toEqual(["load-balancers"]);
});

test("ports of a Service that waits for an IPv6 address stay open on the IPv4 address that its status does not show yet", () => {
  const { observed } = converge([openPort("a-web", [80]), openPort("b-other", [443])], world({ nodes }), config);
  const dual = { ipFamilies: ["IPv4", "IPv6"], ipFamilyPolicy: "PreferDualStack" };
  const after = [openPort("a-web", [80], {}, dual), openPort("b-other", [443], slower)];
  const services = after.map(({ service }) => service);
  const { stages } = plan(after, { ...observed, services }, config);
  expect(stages.map(({ name }) => name)).not.toContain("security-group");
});

test("the address that an internal Service requests stays open although its load balancer is not written yet", () => {
  const other = openPort("b-other", [443]);
  const { observed: before } = converge([other], world({ nodes }), config);
  const annotations = { "azure-load-balancer-internal": "true", "azure-load-balancer-ipv4": "10.240.0.100" };
  const web = openPort("a-web", [80], annotations, { loadBalancerSourceRanges: ["10.0.0.0/8"] });
  const { securityGroup } = converge([web, other], before, config).observed;
  expect(JSON.stringify(securityGroup)).toContain("10.240.0.100");
  const changed = openPort("b-other", [443], slower);
  const observed = { ...before, securityGroup, services: [web.service, changed.service] };
  expect(plan([changed], observed, config).stages.map(({ name }) => name)).toEqual(["load-balancers"]);
});

test("a port of a Service that was recreated stays open although a load balancer from before shows it with the one that had the name", () => {
  const withUid = (intent: ServiceIntent, uid: string): ServiceIntent => ({
    ...intent,
    service: { ...intent.service, metadata: { ...intent.service.metadata, uid } },
  });
  const former = withUid(openPort("a-web", [80]), "11111111-1111-4111-8111-111111111111");
  const recreated = withUid(openPort("a-web", [80]), "22222222-2222-4222-8222-222222222222");
  const other = openPort("b-other", [443]);
  const { observed: before } = converge([former, other], world({ nodes }), config);
  const { observed: without } = converge([{ ...former, action: "delete" }, other], before, config);
  const { securityGroup } = converge([recreated, other], without, config).observed;
  const status = { loadBalancer: { ingress: [{ ip: "20.9.9.9" }] } };
  const services = [{ ...recreated.service, status }, other.service];
  const { stages } = plan([{ ...other, action: "delete" }], { ...before, securityGroup, services }, config);
  const [write] = stages.find(({ name }) => name === "security-group")?.writes ?? [];
  const rules = write?.kind === "put-security-group" ? write.body.securityRules : [];
  expect(rules?.flatMap(({ destinationPortRanges = [] }) => destinationPortRanges)).toEqual(["80"]);
});

test("the port of a Service that asks for another one, which is taken, stays open on its own address while others there are planned", () => {
  const withPort = (name: string, port: number, more = {}) =>
    intentOf({ name, nodes, spec: { ports: [{ protocol: "TCP", port, nodePort: 30_000 + port }] }, ...more });
  const before = converge([withPort("b-owner", 80)], world({ nodes }), config);
  const [{ ip = "" } = {}] = before.last.results.get("default/b-owner")?.status?.ingress ?? [];
  const onIt = { annotations: { "azure-load-balancer-ipv4": ip } };
  const chooser = withPort("a-chooser", 443, onIt);
  const { observed } = converge([withPort("b-owner", 80), chooser], before.observed, config);
  const asks = withPort("b-owner", 443, { ingress: [ip] });
  const changed = withPort("a-chooser", 443, { annotations: { ...onIt.annotations, ...slower } });
  const { stages } = plan([changed], { ...observed, services: [asks.service, changed.service] }, config);
  expect(stages.map(({ name }) => name)).toEqual(["load-balancers"]);
});

describe("rules of an address that Services share", () => {
  const asking = (name: string, ports: readonly number[], ...loadBalancerSourceRanges: readonly string[]) =>
    intentOf({
      name,
      nodes,
      annotations: external,
      spec: {
        ports: ports.map((port) => ({ protocol: "TCP", port, nodePort: 30_000 + port })),
        loadBalancerSourceRanges,
      },
    });
  const start = world({ nodes, publicIPs: [publicIP("users", "20.9.9.9"), publicIP("others", "20.9.9.8")] });
  const { service, ...intent } = asking("b-newer", [80], "192.0.2.0/24");
  const deny = { "service.beta.kubernetes.io/azure-deny-all-except-load-balancer-source-ranges": "true" };
  const annotated = { ...service.metadata, annotations: { ...service.metadata?.annotations, ...deny } };
  const newer: ServiceIntent = { ...intent, service: { ...service, metadata: annotated } };
  const elsewhere = intentOf({ name: "c-elsewhere", nodes, annotations: { "azure-load-balancer-ipv4": "20.9.9.8" } });
  /** What the security group opens after a plan of the older one, which has had something else so far. */
  const openedBy = (
    older: ServiceIntent,
    before: ServiceIntent,
    opened: readonly ServiceIntent[],
    other = newer,
    ...served: readonly ServiceIntent[]
  ) => {
    const { observed } = converge([before, elsewhere, ...served], start, config);
    const { securityGroup } = converge(opened, observed, config).observed;
    const services = [older, other, elsewhere].map((one) => one.service);
    const { stages } = plan([older, elsewhere], { ...observed, securityGroup, services }, config);
    const [write] = stages.find(({ name }) => name === "security-group")?.writes ?? [];
    const group = write?.kind === "put-security-group" ? write.body : securityGroup;
    return group?.securityRules?.flatMap((rule) => {
      const { name = "", sourceAddressPrefix, destinationPortRanges = [] } = rule;
      return name.startsWith("k8s-azure") && destinationsOf(rule).includes("20.9.9.9")
        ? [[sourceAddressPrefix, ...destinationPortRanges].join()]
        : [];
    });
  };

  test("the port of a Service whose load balancer is still being written stays open", () => {
    const older = asking("a-older", [443]);
    expect(openedBy(older, older, [older, newer])).toEqual(["Internet,443", "192.0.2.0/24,80", "*"]);
  });

  test("a port that another Service has is closed to former sources, whatever a waiting one asks for", () => {
    const older = asking("a-older", [80], "192.0.2.0/24");
    const narrower = asking("a-older", [80], "192.0.2.0/25");
    expect(openedBy(narrower, older, [older])).toEqual(["192.0.2.0/25,80"]);
  });

  test("a port that another Service has is closed to former sources, although one that shows the address asks for it", () => {
    const [older, narrower] = [asking("a-older", [80]), asking("a-older", [80], "192.0.2.0/24")];
    const ports = [{ protocol: "TCP", port: 80, nodePort: 30_080 }];
    const shows = intentOf({ name: "b-newer", nodes, ingress: ["20.9.9.9"], spec: { ports } });
    expect(openedBy(narrower, older, [older, elsewhere], shows)).toEqual(["192.0.2.0/24,80"]);
  });

  test("a port that a Service gives up is closed, although a waiting one asks for it", () => {
    const [older, less] = [asking("a-older", [80, 443]), asking("a-older", [443])];
    expect(openedBy(less, older, [older])).toEqual(["Internet,443"]);
  });

  const refused = asking("b-newer", [8080]);

  test("a port of a refused Service that another one has is closed to its former sources", () => {
    const [older, narrower] = [asking("a-older", [80, 443]), asking("a-older", [80, 443], "192.0.2.0/24")];
    const asksForMore = asking("b-newer", [80, 8080]);
    expect(openedBy(narrower, older, [older, refused], asksForMore, refused)).toEqual([
      "Internet,8080",
      "192.0.2.0/24,443,80",
    ]);
  });

  test("a port of a refused Service that another one has is closed to former sources that both ask for", () => {
    const [older, narrower] = [asking("a-older", [80], "192.0.2.0/24"), asking("a-older", [80], "192.0.2.0/25")];
    const [has, asks] = [asking("b-newer", [8080], "192.0.2.0/24"), asking("b-newer", [80], "192.0.2.0/24")];
    expect(openedBy(narrower, older, [older, elsewhere], asks, has)).toEqual(["192.0.2.0/25,80"]);
  });

  test("the port of a Service that moves here from another address stays open while its load balancer is being written", () => {
    const older = asking("a-older", [443]);
    const status = { loadBalancer: { ingress: [{ ip: "20.9.9.7" }] } };
    const moving = { ...newer, service: { ...newer.service, status } };
    expect(openedBy(older, older, [older, newer], moving)).toEqual(["Internet,443", "192.0.2.0/24,80", "*"]);
  });

  test("a port that a Service gives up is closed, although a refused one asks for it", () => {
    const [older, less] = [asking("a-older", [80, 443]), asking("a-older", [443])];
    const asksForMore = asking("b-newer", [80, 8080]);
    expect(openedBy(less, older, [older, refused], asksForMore, refused)).toEqual(["Internet,8080", "Internet,443"]);
  });

  const older = asking("a-older", [443]);

  test.each<[string, ServiceIntent]>([
    ["that asks for all sources", asking("b-newer", [80])],
    ["that asks for another port", asking("b-newer", [8080], "192.0.2.0/24")],
    ["that would open nothing", openPort("b-newer", [80], { "azure-disable-load-balancer-nsg-rule": "true" })],
  ])("a refused Service %s keeps the rest denied, as a wish that is not in force changes nothing", (_, asks) => {
    expect(openedBy(older, older, [older, newer], asks, newer)).toContain("*");
  });

  test.each<[string, ServiceIntent]>([
    ["has what it asks for", asking("b-other", [80])],
    ["opens its node ports", openPort("b-other", [80], ownRules)],
    ["opens nothing", openPort("b-other", [80], { "azure-disable-load-balancer-nsg-rule": "true" })],
  ])("what a Service no longer denies is not denied, although another one on its address %s", (_, other) => {
    const denies = { "azure-deny-all-except-load-balancer-source-ranges": "true" };
    const denying = openPort("a-older", [443], denies, { loadBalancerSourceRanges: ["192.0.2.0/24"] });
    const narrow = asking("a-older", [443], "192.0.2.0/24");
    expect(openedBy(narrow, denying, [denying, other], other, other)).not.toContain("*");
  });
});

test.each([
  ["wants an internal load balancer", "ensure", "", true],
  ["is deleted", "delete", "", true],
  ["has a namesake in another cluster, to which that belongs", "delete", "elsewhere", false],
] as const)(
  "the port of a Service is closed where only its public IP tells of its address in a group that deployments share: it %s",
  (_, action, cluster, closes) => {
    const shared = { ...config, shardSuffix: "" };
    const web = (annotations: Record<string, string>) => intentOf({ name: "web", nodes, annotations });
    const { observed: before } = converge([web({})], world({ nodes }), shared);
    const addresses = before.publicIPs.map(({ ipAddress }) => ipAddress);
    const opened = ({ securityGroup }: typeof before): boolean =>
      (securityGroup?.securityRules ?? []).flatMap(destinationsOf).some((one) => addresses.includes(one));
    expect(opened(before)).toBe(true);
    // Its type has changed, which clears the status, after the write that removed its frontend.
    const publicIPs = before.publicIPs.map((one) =>
      cluster === "" ? one : { ...one, tags: { ...one.tags, "k8s-azure-cluster-name": cluster } },
    );
    const bare = { ...before, loadBalancers: [], publicIPs };
    const { service } = web({ "azure-load-balancer-internal": "true" });
    const intent: ServiceIntent = { action, service, nodes };
    const services = action === "delete" ? [] : [service];
    expect(opened(converge([intent], { ...bare, services }, shared).observed)).toBe(!closes);
  },
);

/** A Service whose load balancer is gone and whose status the API server has cleared with its type, and its rules. */
function afterItsFrontend(annotations: Record<string, string>, isUsed: boolean) {
  const shared = { ...config, shardSuffix: "" };
  const web = intentOf({ name: "web", nodes, annotations });
  const start = world({ nodes, publicIPs: [publicIP("mine", "20.1.1.1")] });
  const { observed: before } = converge([web], start, shared);
  const ipConfiguration = { id: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/x/another" };
  const publicIPs = before.publicIPs.map(({ ipConfiguration: _former, ...free }) =>
    isUsed ? { ...free, ipConfiguration } : free,
  );
  const observed = { ...before, loadBalancers: [], publicIPs, services: [] };
  const intent: ServiceIntent = { action: "delete", service: web.service, nodes };
  return { observed, intent, shared };
}

test.each([
  ["its own", {}, false, []],
  ["one that it names", { "azure-pip-name": "mine" }, false, []],
  ["one that it names and that another frontend has", { "azure-pip-name": "mine" }, true, ["20.1.1.1"]],
] as const)(
  "the deletion of a Service whose frontend is gone closes its port on a public IP by itself: %s",
  (_, annotations, isUsed, left) => {
    const { observed, intent, shared } = afterItsFrontend(annotations, isUsed);
    const { securityGroup } = converge([intent], observed, shared).observed;
    const opened = (securityGroup?.securityRules ?? []).flatMap(destinationsOf);
    expect(opened.filter((one) => one !== "*")).toEqual([...left]);
  },
);

test("a public IP stays until the security group, which other Services leave as well, no longer opens it", () => {
  const [web, other] = ["web", "other"].map((name) => intentOf({ name, nodes }));
  if (web === undefined || other === undefined) throw new Error("there are two");
  const { observed: before } = converge([web, other], world({ nodes }), config);
  const { observed: without } = converge([{ ...web, action: "delete" }, other], before, config);
  // The load balancer was written while an operation held the security group.
  const observed = { ...before, loadBalancers: without.loadBalancers, services: [] };
  const deletions = [web, other].map((intent): ServiceIntent => ({ ...intent, action: "delete" }));
  const { stages } = plan(deletions, observed, config);
  const [group] = stages.flatMap(({ name, writes }) => (name === "security-group" ? writes : []));
  expect(group?.services).toEqual(["default/other", "default/web"]);
});

test("the deletion of a Service closes nothing of the one that has its name now and no load balancer yet", () => {
  const shared = { ...config, shardSuffix: "" };
  const successor = intentOf({ name: "web", uid: "successor", nodes });
  const { observed: before } = converge([successor], world({ nodes }), shared);
  const observed = { ...before, loadBalancers: [], services: [successor.service] };
  const former: ServiceIntent = { action: "delete", service: intentOf({ name: "web", nodes }).service, nodes };
  expect(plan([former], observed, shared).stages).toEqual([]);
});

test.each([
  ["and whose status is not visible yet", {}],
  ["whose status shows its address", { ingress: ["20.1.1.1"] }],
  ["and is refused by now", { annotations: { "azure-load-balancer-tcp-idle-timeout": "1" } }],
])("the deletion of a Service closes nothing of the one that has its name now %s", (_, now) => {
  const shared = { ...config, shardSuffix: "" };
  const shape = { name: "web", uid: "successor", nodes };
  const { observed: before } = converge([intentOf(shape)], world({ nodes }), shared);
  const observed = { ...before, services: [intentOf({ ...shape, ...now }).service] };
  const former: ServiceIntent = { action: "delete", service: intentOf({ name: "web", nodes }).service, nodes };
  expect(plan([former], observed, shared).stages).toEqual([]);
});

const onOwnAddress = (name: string, port: number, annotations: Record<string, string> = {}) =>
  intentOf({ name, nodes, annotations, spec: { ports: [{ protocol: "TCP", port, nodePort: 30_000 + port }] } });

test.each([
  ["is refused", {}, { "azure-load-balancer-tcp-idle-timeout": "1" }],
  ["waits for its write", {}, {}],
  ["is internal", { "azure-load-balancer-internal": "true", "azure-allowed-service-tags": "Storage" }, {}],
])(
  "node ports of a Service without floating IP stay open until it has it, while another one is planned: it %s",
  (_, always, more) => {
    const direct = onOwnAddress("a-web", 80, { ...always, ...ownRules });
    const now = { ...always, ...more };
    const { observed: before } = converge([direct, onOwnAddress("b-other", 443)], world({ nodes }), config);
    const changed = onOwnAddress("b-other", 444);
    const observed = { ...before, services: [onOwnAddress("a-web", 80, now).service, changed.service] };
    const rules = converge([changed], observed, config).observed.securityGroup?.securityRules;
    const ports = rules?.flatMap(({ destinationPortRanges = [] }) => destinationPortRanges);
    expect(ports).toEqual(["30080", "444"]);
  },
);

test("node ports of a Service that has got floating IP are closed with the next change of another one", () => {
  const intents = [onOwnAddress("a-web", 80, ownRules), onOwnAddress("b-other", 443)];
  const { observed: before } = converge(intents, world({ nodes }), config);
  const web = onOwnAddress("a-web", 80);
  const { loadBalancers } = converge([web], before, config).observed;
  const changed = onOwnAddress("b-other", 444);
  const observed = { ...before, loadBalancers, services: [web.service, changed.service] };
  const { securityGroup } = converge([changed], observed, config).observed;
  expect(JSON.stringify(before.securityGroup)).toContain("30080");
  expect(JSON.stringify(securityGroup)).not.toContain("30080");
});

test("node ports of an internal Service for IPv6, whose rules never have floating IP, are closed if it asks for that", () => {
  const internal = { "azure-load-balancer-internal": "true" };
  const spec = { ipFamilies: ["IPv6"], loadBalancerSourceRanges: ["2001:db8::/32"] };
  const web = (annotations: Record<string, string>) =>
    intentOf({ name: "a-web", nodes, annotations: { ...internal, ...annotations }, spec });
  const direct = web(ownRules);
  const { observed: before } = converge([direct, onOwnAddress("b-other", 443)], world({ nodes }), config);
  expect(JSON.stringify(before.securityGroup)).toContain("30080");
  const changed = onOwnAddress("b-other", 444);
  const observed = { ...before, services: [web({}).service, changed.service] };
  expect(JSON.stringify(converge([changed], observed, config).observed.securityGroup)).not.toContain("30080");
});

test("node ports of a public Service for IPv6 without floating IP stay open, whatever version Azure shows for its frontend", () => {
  const web = (annotations: Record<string, string>) =>
    intentOf({ name: "a-web", nodes, annotations, spec: { ipFamilies: ["IPv6"] } });
  const { observed: before } = converge([web(ownRules), onOwnAddress("b-other", 443)], world({ nodes }), config);
  const loadBalancers = before.loadBalancers.map(({ frontendIPConfigurations = [], ...rest }) => ({
    ...rest,
    frontendIPConfigurations: frontendIPConfigurations.map((one) => ({ ...one, privateIPAddressVersion: "IPv6" })),
  }));
  const changed = onOwnAddress("b-other", 444);
  const observed = { ...before, loadBalancers, services: [web({}).service, changed.service] };
  expect(JSON.stringify(converge([changed], observed, config).observed.securityGroup)).toContain("30080");
});

test("a port on the address of another Service stays open, also if the Service is internal but for the case of its annotation", () => {
  const annotations = { "azure-load-balancer-internal": "TRUE", "azure-allowed-service-tags": "Storage" };
  const web = openPort("a-web", [80], annotations, { ipFamilies: ["IPv4", "IPv6"] });
  const { observed: before } = converge([web, openPort("b-other", [443])], world({ nodes }), config);
  const changed = openPort("b-other", [443], slower);
  const observed = { ...before, services: [web.service, changed.service] };
  const rules = before.securityGroup?.securityRules ?? [];
  expect(rules.filter((rule) => destinationsOf(rule).includes("20.9.9.9"))).toHaveLength(2);
  expect(converge([changed], observed, config).observed.securityGroup?.securityRules).toEqual(rules);
});

test.each([
  ["this process has opened it", true, undefined],
  ["only its record tells of it", false, "203.0.113.1"],
])(
  "an additional address that a Service names no more is closed in a group that deployments share: %s",
  (_, isKnown, record) => {
    const shared = { ...config, shardSuffix: "" };
    const former = onOwnAddress("a-web", 80, { "azure-additional-public-ips": "203.0.113.1" });
    const { observed: before } = converge([former, onOwnAddress("b-other", 443)], world({ nodes }), shared);
    expect(JSON.stringify(before.securityGroup)).toContain("203.0.113.1");
    const opened = new Map(isKnown ? [["default/a-web", [former.service]]] : []);
    const { service, ...rest } = onOwnAddress("a-web", 80);
    const conditions = record === undefined ? [] : [recordOf(record)];
    const web = { ...rest, service: { ...service, status: { ...service.status, conditions } } };
    const after = converge([web], { ...before, opened }, shared).observed.securityGroup;
    const left = (after?.securityRules ?? []).flatMap(destinationsOf).filter((one) => one !== "*");
    expect(left.toSorted()).toEqual(["20.0.0.1", "20.0.0.2"]);
  },
);

test.each([
  ["another port", 443, ["443"]],
  ["the same port", 80, ["80"]],
])("an additional address that a Service names no more stays open for one that has it and %s", (_, port, left) => {
  const shared = { ...config, shardSuffix: "" };
  const additional = { "azure-additional-public-ips": "203.0.113.1" };
  const [former, other] = [onOwnAddress("a-web", 80, additional), onOwnAddress("b-other", port, additional)];
  const { observed: before } = converge([former, other], world({ nodes }), shared);
  const web = onOwnAddress("a-web", 80);
  const opened = new Map([["default/a-web", [former.service]]]);
  const observed = { ...before, opened, services: [web.service, other.service] };
  const rules = converge([web], observed, shared).observed.securityGroup?.securityRules ?? [];
  const ofAdditional = rules.filter((rule) => destinationsOf(rule).includes("203.0.113.1"));
  expect(ofAdditional.flatMap(({ destinationPortRanges = [] }) => destinationPortRanges)).toEqual([...left]);
});

test.each([
  ["is closed before its frontend goes", { ...config, shardSuffix: "" }, true],
  ["stays in the group of a deployment alone until the Service has the next one", config, false],
])("the address of a public IP that is created again with other IP tags %s", (_, planner, isClosed) => {
  const web = (annotations: Record<string, string>) => intentOf({ name: "a-web", nodes, annotations });
  const { observed: before } = converge([web({})], world({ nodes }), planner);
  const rules = before.securityGroup?.securityRules ?? [];
  const ingress = rules.flatMap(destinationsOf).flatMap((ip) => (ip === "*" ? [] : [{ ip }]));
  const tagged = web({ "azure-pip-ip-tags": "RoutingPreference=Internet" });
  const changed = { ...tagged, service: { ...tagged.service, status: { loadBalancer: { ingress } } } };
  const observed = { ...before, services: [changed.service] };
  const writes = plan([changed], observed, planner).stages.flatMap((stage) => stage.writes);
  expect(writes.map(({ kind }) => kind)).toContain("delete-public-ip");
  const [group] = writes.filter((write) => write.kind === "put-security-group");
  expect(group?.closing).toEqual(isClosed ? ["default/a-web"] : undefined);
  const left = isClosed ? ["*"] : undefined;
  expect(group?.body.securityRules?.flatMap(destinationsOf)).toEqual(left);
});
