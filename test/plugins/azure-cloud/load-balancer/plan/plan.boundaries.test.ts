import { describe, expect, setDefaultTimeout, test } from "bun:test";

import type { Observed } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { isInternalName, withoutInternal } from "../../../../../plugins/azure-cloud/load-balancer/model/names.ts";
import { desiredRules, equalRules } from "../../../../../plugins/azure-cloud/load-balancer/plan/balancer/rules.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { readSubject } from "../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../world.ts";

setDefaultTimeout(120_000);

const standard = plannerConfigOf();
const basic = plannerConfigOf({ loadBalancerSku: "basic" });
const addresses = { loadBalancerBackendPoolConfigurationType: "nodeIP" };
type Config = typeof standard;

const nodes = nodesNamed("node-0", "node-1", "node-2");
const vmSets = new Map(nodes.map(({ metadata }) => [metadata?.name ?? "", "vmss0"]));
const start = (about: Partial<Observed> = {}): Observed => world({ nodes, vmSets, ...about });
const internal = { "azure-load-balancer-internal": "true" };
const after = (from: Observed, shape: ServiceShape = {}, config: Config = standard, list = nodes): Observed =>
  converge([intentOf({ nodes: list, ...shape })], { ...from, nodes: list }, config).observed;
const writesOf = (from: Observed, shape: ServiceShape, config: Config) =>
  plan([intentOf({ nodes, ...shape })], from, config).stages.flatMap(({ writes }) => writes);
const membersIn = ({ loadBalancers }: Observed, balancer = "kubernetes") =>
  loadBalancers
    .find(({ name }) => name === balancer)
    ?.backendAddressPools?.[0]?.loadBalancerBackendAddresses?.map(({ name = "" }) => name)
    .toSorted();
const frontendIn = (shape: ServiceShape, from: Observed, config: Config = standard) =>
  after(from, shape, config).loadBalancers[0]?.frontendIPConfigurations?.find(({ name }) => name === "aweb");

describe("names", () => {
  test("a Service whose UID begins with another's keeps its rules, probes and frontend", () => {
    const both = after(after(start()), { name: "web2" });
    const { observed } = converge([intentOf({ nodes, action: "delete" })], both, standard);
    const [one] = observed.loadBalancers;
    expect(
      [one?.frontendIPConfigurations, one?.loadBalancingRules, one?.probes].map((list) =>
        list?.map(({ name }) => name),
      ),
    ).toEqual([["aweb2"], ["aweb2-TCP-80"], ["aweb2-TCP-80"]]);
  });

  test("the suffix of internal load balancers counts in any case", () => {
    expect([isInternalName("LB-Internal"), isInternalName("internal"), withoutInternal("LB-INTERNAL")]).toEqual([
      true,
      false,
      "lb",
    ]);
  });
});

describe("a private frontend", () => {
  test("does not reuse an address that another frontend has", () => {
    const annotations = { ...internal, "azure-load-balancer-ipv4": "10.240.7.8" };
    const taken = after(start(), { name: "other", annotations });
    expect(frontendIn({ annotations: internal, ingress: ["10.240.7.8"] }, taken)?.privateIPAllocationMethod).toBe(
      "Dynamic",
    );
  });

  test("asks for an address that a load balancer of users has, which ARM refuses", () => {
    const frontend = { id: "/mine/frontendIPConfigurations/users", name: "users", privateIPAddress: "10.240.7.8" };
    const from = start({ loadBalancers: [{ id: "/mine", name: "mine", frontendIPConfigurations: [frontend] }] });
    const annotations = { ...internal, "azure-load-balancer-ipv4": "10.240.7.8" };
    expect(writesOf(from, { annotations }, standard)).toMatchObject([
      { kind: "put-load-balancer", body: { frontendIPConfigurations: [{ privateIPAddress: "10.240.7.8" }] } },
      { kind: "update-members" },
    ]);
  });

  test("has no zones with the basic SKU", () => {
    expect(frontendIn({ annotations: internal }, start(), basic)).not.toHaveProperty("zones");
  });
});

describe("members of pools", () => {
  test("the pool of a local Service is emptied when its last endpoint goes", () => {
    const several = plannerConfigOf({
      ...addresses,
      multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
    });
    const local = { spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 } };
    const filled = after(start({ endpointNodes: new Map([["default/web", ["node-1"]]]) }), local, several);
    expect(membersIn(filled)).toEqual(["node-1"]);
    expect(membersIn(after({ ...filled, endpointNodes: new Map([["default/web", []]]) }, local, several))).toEqual([]);
  });

  test("a pool that is to be pre-configured but does not exist yet is filled", () => {
    const config = plannerConfigOf({ ...addresses, preConfiguredBackendPoolLoadBalancerTypes: "all" });
    expect(membersIn(after(start(), {}, config))).toEqual(["node-0", "node-1", "node-2"]);
  });

  test("a pool has the nodes of every Service that uses it", () => {
    const config = plannerConfigOf(addresses);
    const intents = [intentOf({ name: "a", nodes: nodes.slice(0, 1) }), intentOf({ name: "b", nodes: nodes.slice(1) })];
    expect(membersIn(converge(intents, start(), config).observed)).toEqual(["node-0", "node-1", "node-2"]);
  });

  test("pools by node IP never have control-plane nodes, whatever excludeMasterFromStandardLB says", () => {
    const list = nodes.map((node, index) =>
      index === 0
        ? { ...node, metadata: { ...node.metadata, labels: { "node-role.kubernetes.io/control-plane": "" } } }
        : node,
    );
    const config = plannerConfigOf({ ...addresses, excludeMasterFromStandardLB: false });
    expect(membersIn(after(start(), {}, config, list))).toEqual(["node-1", "node-2"]);
  });

  test("an interface in the pool of another load balancer may join with the basic SKU", () => {
    const created = after(start(), {}, basic);
    const [poolId = "", members = []] = [...created.poolMembers][0] ?? [];
    const poolMembers = new Map([
      [poolId, members.slice(0, 2)],
      [poolId.replace("/kubernetes/", "/other/"), members.slice(2)],
    ]);
    expect(writesOf({ ...created, poolMembers }, {}, basic)).toMatchObject([{ join: ["node-2"], leave: [] }]);
    expect(writesOf({ ...after(start()), poolMembers }, {}, standard)).toEqual([]);
  });

  test("an empty node selector is the same as none", () => {
    const config = plannerConfigOf({
      ...addresses,
      multipleStandardLoadBalancerConfigurations: [
        { name: "kubernetes", primaryVMSet: "set1" },
        { name: "lb2", primaryVMSet: "set2", nodeSelector: {} },
      ],
    });
    const intents = ["a", "b"].map((name) => intentOf({ name, nodes }));
    const { observed } = converge(intents, start(), config);
    const counts = ["kubernetes", "lb2"].map((name) => membersIn(observed, name)?.length ?? 0);
    expect(counts.toSorted((left, right) => left - right)).toEqual([1, 2]);
  });
});

describe("rules and probes", () => {
  const shared = plannerConfigOf({ clusterServiceLoadBalancerHealthProbeMode: "shared" });
  const targets = { loadBalancer: "/lb", frontend: "/lb/f", pool: "/lb/p" };
  const desired = (shape: ServiceShape, config: Config = standard, family: "IPv4" | "IPv6" = "IPv4") =>
    desiredRules(readSubject(intentOf(shape).service, config).subject, family, targets, config);
  const names = (shape: ServiceShape, config: Config = standard) =>
    desired(shape, config).probes.map(({ name }) => name);
  const allPorts = { ...internal, "azure-load-balancer-enable-high-availability-ports": "true" };
  const local = { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 };
  const proxy = { "azure-pls-proxy-protocol": "true" };

  test("the rule for all ports has no floating IP on an internal IPv6 frontend", () => {
    const { rules } = desired({ annotations: allPorts, spec: { ipFamilies: ["IPv6"] } }, standard, "IPv6");
    expect(rules).toMatchObject([{ enableFloatingIP: false, backendPort: 0 }]);
  });

  test("the rule for all ports uses the health check of a local Service", () => {
    const { rules, probes } = desired({ annotations: allPorts, spec: local });
    expect(probes.map(({ name }) => name)).toEqual(["aweb-TCP-32000"]);
    expect(rules[0]?.probe?.id).toBe("/lb/probes/aweb-TCP-32000");
  });

  test("an external IPv6 frontend has floating IP", () => {
    const { rules } = desired({ spec: { ipFamilies: ["IPv6"] } }, standard, "IPv6");
    expect(rules).toMatchObject([{ enableFloatingIP: true, backendPort: 80 }]);
  });

  test("the shared probe does not come without a rule that uses it", () => {
    expect(names({ annotations: { port_80_no_probe_rule: "true" } }, shared)).toEqual([]);
  });

  test("the shared probe is used whatever the annotations of a port say", () => {
    expect(names({ annotations: { "port_80_health-probe_port": "421" } }, shared)).toEqual([
      "cluster-service-shared-health-probe",
    ]);
  });

  test("65535 is a port that can be probed", () => {
    expect(desired({ annotations: { "port_80_health-probe_port": "65535" } }).probes).toMatchObject([{ port: 65_535 }]);
  });

  test("a local Service never uses the shared probe, not even with the proxy protocol", () => {
    const annotations = { ...internal, ...proxy, "azure-pls-create": "true" };
    expect(names({ annotations, spec: local }, shared)).toEqual(["aweb-TCP-80"]);
  });

  test("the proxy protocol counts only with a private link service", () => {
    expect(names({ annotations: { ...internal, ...proxy }, spec: local })).toEqual(["aweb-TCP-32000"]);
  });

  test("TCP reset makes no difference between rules of other protocols", () => {
    const udp = { name: "r", protocol: "Udp", frontendPort: 53, backendPort: 53 };
    expect(equalRules(udp, { ...udp, enableTcpReset: false })).toBe(true);
  });

  test.each([
    ["the first port of a NAT pool", 80, 90],
    ["the last port of a NAT pool", 70, 80],
  ])("%s is taken", (_title, frontendPortRangeStart, frontendPortRangeEnd) => {
    const [one] = after(start()).loadBalancers;
    const frontendIPConfiguration = { id: one?.frontendIPConfigurations?.[0]?.id ?? "" };
    const pool = { name: "n", protocol: "Tcp", backendPort: 1, frontendPortRangeStart, frontendPortRangeEnd };
    const loadBalancers = [{ ...one, inboundNatPools: [{ ...pool, frontendIPConfiguration }] }];
    const { results } = plan([intentOf({ nodes })], { ...after(start()), loadBalancers }, standard);
    expect(results.get("default/web")?.problem?.code).toBe("PortConflict");
  });
});

describe("resources of a user", () => {
  const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
  const gone = (from: Observed, shape: ServiceShape = {}) =>
    converge([intentOf({ nodes, ...shape, action: "delete" })], from, standard).observed.loadBalancers[0];

  test("a frontend without rules stays when the last Service on it goes", () => {
    const [users] = start().publicIPs;
    const frontend = {
      id: `${id}/frontendIPConfigurations/mine`,
      name: "mine",
      publicIPAddress: { id: users?.id ?? "" },
    };
    const from = start({
      loadBalancers: [{ id, name: "kubernetes", sku: { name: "Standard" }, frontendIPConfigurations: [frontend] }],
    });
    const shape = { annotations: { "azure-pip-name": users?.name ?? "" } };
    const used = after(from, shape);
    expect(used.loadBalancers[0]?.loadBalancingRules).toHaveLength(1);
    expect(gone(used, shape)?.frontendIPConfigurations?.map(({ name }) => name)).toEqual(["mine"]);
  });

  test("a pool keeps the load balancer when the last Service goes", () => {
    const pools = [{ id: `${id}/backendAddressPools/mine`, name: "mine" }];
    const from = start({
      loadBalancers: [{ id, name: "kubernetes", sku: { name: "Standard" }, backendAddressPools: pools }],
    });
    expect(gone(after(from))?.backendAddressPools?.map(({ name }) => name)).toContain("mine");
  });

  test("a probe named as the shared one stays on a load balancer that needs no write", () => {
    const done = after(start());
    const loadBalancers = done.loadBalancers.map((one) => ({
      ...one,
      probes: [...(one.probes ?? []), { name: "cluster-service-shared-health-probe", protocol: "Tcp", port: 1 }],
    }));
    expect(writesOf({ ...done, loadBalancers }, {}, standard)).toEqual([]);
  });
});

describe("addresses", () => {
  const dual = { ipFamilies: ["IPv4", "IPv6"] };

  test("a dual-stack Service has no status until both families have an address", () => {
    const done = after(start(), { spec: dual });
    const publicIPs = done.publicIPs.map(({ ipAddress, ...one }) =>
      one.name?.endsWith("-IPv6") || ipAddress === undefined ? one : { ...one, ipAddress },
    );
    const { results } = plan([intentOf({ nodes, spec: dual })], { ...done, publicIPs }, standard);
    expect(results.get("default/web")).toMatchObject({ settled: false });
    expect(results.get("default/web")?.status).toBeUndefined();
  });

  test("spec.loadBalancerIP is wanted of its own family only", () => {
    const from = start({ publicIPs: [publicIP("v4", "20.1.1.1")] });
    const end = after(from, { spec: { ...dual, loadBalancerIP: "20.1.1.1" } });
    expect(end.publicIPs.map(({ name = "" }) => name).toSorted()).toEqual(["kubernetes-aweb-IPv6", "v4"]);
  });
});

describe("security rules", () => {
  const ranges = {
    "azure-allowed-ip-ranges": "10.0.0.0/8",
    "azure-deny-all-except-load-balancer-source-ranges": "true",
  };
  const direct = { "azure-disable-load-balancer-floating-ip": "true" };
  const text = ({ securityGroup }: Observed): string => JSON.stringify(securityGroup?.securityRules);
  const ours = (from: Observed, annotations: Readonly<Record<string, string>>): Observed => {
    const intent = intentOf({ nodes, annotations });
    return converge([intent], { ...from, services: [intent.service] }, standard).observed;
  };

  test("node addresses leave the deny rule when a Service has floating IP again", () => {
    const first = ours(start(), { ...ranges, ...direct });
    expect(text(first)).toContain("10.240.0.4");
    expect(text(ours(first, ranges))).not.toContain("10.240.0.4");
  });

  test("addresses of unmanaged nodes leave the rules, also those of another Service", () => {
    const other = intentOf({ name: "other", nodes, annotations: direct });
    const first = converge([other], { ...start(), services: [other.service] }, standard).observed;
    const unmanaged = nodes.map((node, index) =>
      index === 0
        ? { ...node, metadata: { ...node.metadata, labels: { "kubernetes.azure.com/managed": "false" } } }
        : node,
    );
    const web = intentOf({ nodes: unmanaged.slice(1) });
    const from = { ...first, nodes: unmanaged, services: [other.service, web.service] };
    const end = text(converge([web], from, standard).observed);
    expect([end.includes("10.240.0.4"), end.includes("10.240.0.5")]).toEqual([false, true]);
  });

  test("a group may have exactly 1000 rules", () => {
    const annotations = { "azure-pip-name": "my-pip" };
    const first = ours(start(), annotations);
    const added = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ name: `u${index}`, priority: 100 }));
    const refused = (count: number) => {
      const securityGroup = { ...first.securityGroup, securityRules: added(count) };
      return plan([intentOf({ nodes, annotations })], { ...first, securityGroup }, standard).results.get("default/web")
        ?.problem?.code;
    };
    expect([refused(999), refused(1000)]).toEqual([undefined, "TooManySecurityRules"]);
  });
});
