import { describe, expect, setDefaultTimeout, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import { sameName } from "../../../../../plugins/azure-cloud/arm/resource-id.ts";
import { isPublicAddress } from "../../../../../plugins/azure-cloud/load-balancer/model/addresses.ts";
import type { Observed, PoolMember } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { localPoolName, poolName } from "../../../../../plugins/azure-cloud/load-balancer/model/names.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import {
  desiredPublicIP,
  indexPublicIPs,
} from "../../../../../plugins/azure-cloud/load-balancer/plan/public-ip/desired.ts";
import { readSubject } from "../../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, deepFreeze, nodesNamed, publicIP, usersBalancer, world } from "../world.ts";

setDefaultTimeout(120_000);

const interfaces = plannerConfigOf();
const addresses = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
const several = plannerConfigOf({
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [
    { name: "kubernetes", primaryVMSet: "vmss0" },
    { name: "lb2", primaryVMSet: "vmss1" },
  ],
});
type Config = typeof interfaces;

const nodes = nodesNamed("node-0", "node-1", "node-2");
const start = (about: Partial<Observed> = {}): Observed => world({ nodes, ...about });
const internal = { "azure-load-balancer-internal": "true" };
const onSubnet = (name: string) => ({ ...internal, "azure-load-balancer-internal-subnet": name });
const dual = { ipFamilies: ["IPv4", "IPv6"] };
const tcp = (port: number) => ({ name: `tcp-${port}`, protocol: "TCP", port, nodePort: 30_000 + port });

const after = (from: Observed, shape: ServiceShape = {}, config: Config = interfaces, list = nodes): Observed =>
  converge([intentOf({ nodes: list, ...shape })], { ...from, nodes: list }, config).observed;
const deleted = (from: Observed, shape: ServiceShape = {}, config: Config = interfaces): Observed =>
  converge([intentOf({ nodes, ...shape, action: "delete" })], from, config).observed;
const writesOf = (from: Observed, shape: ServiceShape = {}, config: Config = interfaces, list = nodes) =>
  plan([intentOf({ nodes: list, ...shape })], { ...from, nodes: list }, config).stages.flatMap(({ writes }) => writes);
const names = (list: readonly { name?: string }[] | undefined): readonly string[] =>
  (list ?? []).map(({ name = "" }) => name).toSorted();
/** Frontends, rules and probes of all load balancers. */
const partsOf = ({ loadBalancers }: Observed) => [
  names(loadBalancers.flatMap((one) => one.frontendIPConfigurations ?? [])),
  names(loadBalancers.flatMap((one) => one.loadBalancingRules ?? [])),
  names(loadBalancers.flatMap((one) => one.probes ?? [])),
];

describe("a Service that turns internal or external", () => {
  test.each([
    ["external: internal", {}, internal, "kubernetes-internal"],
    ["internal: external", internal, {}, "kubernetes"],
  ])("%s", (_title, before, then, expected) => {
    const flipped = after(after(start(), { annotations: before }), { annotations: then });
    expect(names(flipped.loadBalancers)).toEqual([expected]);
  });
});

describe("an added port", () => {
  test("an added port gets a rule and a probe", () => {
    const end = after(after(start()), { spec: { ports: [tcp(80), tcp(443)] } });
    const both = ["aweb-TCP-443", "aweb-TCP-80"];
    expect(partsOf(end)).toEqual([["aweb"], both, both]);
  });
});

describe("an internal Service in a subnet", () => {
  test("FIP on the named subnet", () => {
    const [one] = after(start(), { annotations: onSubnet("lb-subnet") }).loadBalancers;
    expect(one?.frontendIPConfigurations).toMatchObject([{ name: "aweb-lb-subnet", subnet: { name: "lb-subnet" } }]);
  });
});

describe("internal Services in several subnets", () => {
  test("two subnets have two frontends", () => {
    const first = after(start(), { annotations: internal });
    const end = after(first, { name: "other", annotations: onSubnet("lb-subnet") });
    expect(end.loadBalancers[0]?.frontendIPConfigurations?.map(({ name, subnet }) => [name, subnet?.name])).toEqual([
      ["aweb", "subnet0"],
      ["aother-lb-subnet", "lb-subnet"],
    ]);
  });
});

describe("the probe of local traffic", () => {
  test("local traffic has a health probe of the Service's health port", () => {
    const spec = { externalTrafficPolicy: "Local", healthCheckNodePort: 32_456 };
    expect(after(start(), { spec }).loadBalancers[0]?.probes).toMatchObject([
      { name: "aweb-TCP-32456", protocol: "Http", port: 32_456, requestPath: "/healthz" },
    ]);
  });
});

describe("a removed Service", () => {
  test("FIP, rules, probes gone, LB deleted", () => {
    expect(deleted(after(start())).loadBalancers).toEqual([]);
  });
});

describe("a Service without ports", () => {
  test("a deletion after all ports are gone removes rules and frontend", () => {
    expect(deleted(after(start()), { spec: { ports: [] } }).loadBalancers).toEqual([]);
  });

  test("a Service with no rule for any port loses rules and probes, and keeps the frontend for the next port", () => {
    const end = after(after(start()), { annotations: { port_80_no_lb_rule: "true" } });
    expect(partsOf(end)).toEqual([["aweb"], [], []]);
  });
});

describe("a removed port", () => {
  test("rules of the missing port dropped", () => {
    const end = after(after(start(), { spec: { ports: [tcp(80), tcp(443)] } }), { spec: { ports: [tcp(443)] } });
    expect(partsOf(end)).toEqual([["aweb"], ["aweb-TCP-443"], ["aweb-TCP-443"]]);
  });
});

describe("several Services", () => {
  test("two services coexist", () => {
    const end = after(after(start()), { name: "other", spec: { ports: [tcp(80), tcp(443)] } });
    const rules = ["aother-TCP-443", "aother-TCP-80", "aweb-TCP-80"];
    expect(partsOf(end)).toEqual([["aother", "aweb"], rules, rules]);
  });
});

describe("public IPs of a changing Service", () => {
  const ours = ({ publicIPs }: Observed) => names(publicIPs).filter((name) => name.startsWith("kubernetes-"));

  test("a new Service gets a public IP, which the next reconciliation keeps", () => {
    const first = after(start());
    expect([ours(first), writesOf(first)]).toEqual([["kubernetes-aweb"], []]);
  });

  test("a removed Service loses its public IP", () => {
    expect(ours(deleted(after(start())))).toEqual([]);
  });

  test("an internal Service gets no public IP", () => {
    expect(ours(after(start(), { annotations: internal }))).toEqual([]);
  });

  test("a Service that turns internal and back loses its public IP and gets a new one", () => {
    const inside = after(after(start()), { annotations: internal });
    expect([ours(inside), ours(after(inside))]).toEqual([[], ["kubernetes-aweb"]]);
  });
});

describe("nodes in a pool by IP", () => {
  const membersIn = ({ loadBalancers }: Observed, pool: string, balancer = "kubernetes") =>
    loadBalancers
      .find(({ name }) => name === balancer)
      ?.backendAddressPools?.find(({ name = "" }) => sameName(name, pool))
      ?.loadBalancerBackendAddresses?.map(({ ipAddress = "" }) => ipAddress)
      .toSorted();

  test("IPv4 and IPv6 pools have the node IPs of their family", () => {
    const end = after(start(), { spec: dual }, addresses);
    expect(membersIn(end, "kubernetes")).toEqual(["10.240.0.4", "10.240.0.5", "10.240.0.6"]);
    expect(membersIn(end, "kubernetes-IPv6")).toEqual(["fd00::4", "fd00::5", "fd00::6"]);
    const fewer = after(end, { spec: dual }, addresses, nodes.slice(1));
    expect(membersIn(fewer, "kubernetes-IPv6")).toEqual(["fd00::5", "fd00::6"]);
  });

  test("nodes that are not active on one of several load balancers leave its pool", () => {
    const vmSets = new Map([
      ["node-0", "vmss0"],
      ["node-1", "vmss1"],
      ["node-2", "vmss0"],
    ]);
    const first = after(start({ vmSets }), {}, several);
    expect(membersIn(first, "kubernetes")).toEqual(["10.240.0.4", "10.240.0.5", "10.240.0.6"]);
    const end = after(first, { name: "other", annotations: { "azure-load-balancer-configurations": "lb2" } }, several);
    expect([membersIn(end, "kubernetes"), membersIn(end, "kubernetes", "lb2")]).toEqual([
      ["10.240.0.4", "10.240.0.6"],
      ["10.240.0.5"],
    ]);
  });

  const local = { spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 } };

  test.each([
    ["local service with EndpointSlice: only nodes with endpoints", [["default/web", ["node-1"]]], ["10.240.0.5"]],
    ["local service without EndpointSlice: all nodes", [], ["10.240.0.4", "10.240.0.5", "10.240.0.6"]],
    [
      "EndpointSlice of a service in another namespace: ignored",
      [["other/web", ["node-1"]]],
      ["10.240.0.4", "10.240.0.5", "10.240.0.6"],
    ],
    ["local service whose endpoints are gone: an empty pool", [["default/web", []]], []],
  ] as const)("%s", (_title, endpoints, expected) => {
    const endpointNodes = new Map(endpoints.map(([key, list]) => [key, [...list]] as const));
    const end = after(start({ endpointNodes }), local, several);
    expect(membersIn(end, "default-web") ?? []).toEqual([...expected]);
  });

  test("a local Service on another load balancer does not change its pool there", () => {
    const first = after(start(), { ...local, annotations: { "azure-load-balancer-configurations": "lb2" } }, several);
    const end = after(
      first,
      { name: "other", annotations: { "azure-load-balancer-configurations": "kubernetes" } },
      several,
    );
    const pools = (state: Observed) => state.loadBalancers.find(({ name }) => name === "lb2")?.backendAddressPools;
    expect(pools(end)).toEqual(pools(first) ?? []);
  });
});

describe("existing pools", () => {
  test("names `kubernetes`, `kubernetes-IPv6`, in any case; another pool is left alone", () => {
    const first = after(start(), { spec: dual });
    const upper = first.loadBalancers.map((one) => ({
      ...one,
      backendAddressPools: [
        ...(one.backendAddressPools ?? []).map((pool) => ({ ...pool, name: pool.name?.toUpperCase() ?? "" })),
        { name: "users-pool" },
      ],
    }));
    expect(writesOf({ ...first, loadBalancers: upper }, { spec: dual })).toEqual([]);
  });
});

const member = (node: string, more: Partial<PoolMember> = {}): PoolMember => ({
  ipConfigurationId: `/instances/${node}/ipConfigurations/ipconfig0`,
  node,
  gone: false,
  complete: true,
  ...more,
});
const poolId =
  "/subscriptions/sub0/resourcegroups/rg0/providers/microsoft.network/loadbalancers/kubernetes/backendaddresspools/kubernetes";
const excluding = (name: string) =>
  nodes.map((node) =>
    node.metadata?.name === name
      ? {
          ...node,
          metadata: { ...node.metadata, labels: { "node.kubernetes.io/exclude-from-external-load-balancers": "" } },
        }
      : node,
  );

describe("pools by IP configuration", () => {
  test("a missing pool is created", () => {
    const users = usersBalancer("kubernetes");
    const end = after(start({ loadBalancers: [users] }));
    expect(names(end.loadBalancers[0]?.backendAddressPools)).toEqual(["kubernetes", "users-pool"]);
  });

  test("unwanted IP configurations are removed", () => {
    const first = after(start());
    const poolMembers = new Map([
      [poolId, [...nodes.map(({ metadata }) => member(metadata?.name ?? "")), member("x", { gone: true })]],
    ]);
    expect(writesOf({ ...first, poolMembers })).toMatchObject([
      { kind: "update-members", join: [], leave: ["/instances/x/ipConfigurations/ipconfig0"] },
    ]);
  });
});

describe("IP configurations that leave a pool", () => {
  test("excluded node's config removed", () => {
    expect(writesOf(after(start()), {}, interfaces, excluding("node-1"))).toMatchObject([
      { kind: "update-members", join: [], leave: ["/instances/node-1/ipConfigurations/ipconfig0"] },
    ]);
  });
});

describe("pre-configured pools", () => {
  const filled = (keys: object = {}) => plannerConfigOf({ preConfiguredBackendPoolLoadBalancerTypes: "all", ...keys });

  test("no change", () => {
    expect(writesOf({ ...after(start()), poolMembers: new Map() }, {}, filled())).toEqual([]);
  });

  test("untouched", () => {
    const first = after(start(), {}, addresses);
    const config = filled({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
    expect(writesOf(first, {}, config, nodes.slice(0, 1))).toEqual([]);
  });

  const uid = (digit: string): string => digit.repeat(31);
  test.each([
    ["with frontends of their own", {}, `a${uid("c")}`],
    ["on one frontend", { "azure-pip-name": "users-ip" }, `a${uid("a")}`],
  ])("only the last of Services that are deleted at once leaves anything: %s", (_title, annotations, frontend) => {
    const shapes: readonly ServiceShape[] = ["a", "b", "c"].map((name, index) => ({
      name,
      uid: uid(name),
      annotations,
      spec: { ports: [tcp(80 + index)] },
    }));
    const created = shapes.reduce((from, shape) => after(from, shape, filled()), start());
    const oneByOne = shapes.reduce((from, shape) => deleted(from, shape, filled()), created);
    const gone = shapes.map((shape) => intentOf({ nodes, ...shape, action: "delete" }));
    const atOnce = converge(gone, created, filled()).observed;
    const left = [`a${uid("c")}-TCP-82`];
    expect(partsOf(atOnce)).toEqual([[frontend], left, left]);
    expect(partsOf(atOnce)).toEqual(partsOf(oneByOne));
    expect(names(atOnce.publicIPs)).toEqual(names(oneByOne.publicIPs));
  });
});

describe("pools by node IP", () => {
  const membersIn = ({ loadBalancers }: Observed) =>
    names(loadBalancers[0]?.backendAddressPools?.[0]?.loadBalancerBackendAddresses);

  test("excluded nodes' IPs removed", () => {
    const first = after(start(), {}, addresses);
    expect(membersIn(after(first, {}, addresses, excluding("node-1")))).toEqual(["node-0", "node-2"]);
  });

  test("an address of no node is removed, an entry without IP too", () => {
    const first = after(start(), {}, addresses);
    const loadBalancers = first.loadBalancers.map((one) => ({
      ...one,
      backendAddressPools: (one.backendAddressPools ?? []).map((pool) => ({
        ...pool,
        loadBalancerBackendAddresses: [
          ...(pool.loadBalancerBackendAddresses ?? []),
          { name: "gone", ipAddress: "1.2.3.4" },
          { name: "empty" },
        ],
      })),
    }));
    expect(membersIn(after({ ...first, loadBalancers }, {}, addresses))).toEqual(["node-0", "node-1", "node-2"]);
  });

  test("two nodes with one address are one entry", () => {
    const [first, second] = nodes;
    const twins = [first, second].flatMap((node, index) =>
      node === undefined
        ? []
        : [{ ...node, metadata: { ...node.metadata, name: `twin-${index}` }, status: nodes[0]?.status ?? {} }],
    );
    const end = after(start(), {}, addresses, twins);
    expect(membersIn(end)).toHaveLength(1);
    expect(writesOf(end, {}, addresses, twins)).toEqual([]);
  });
});

describe("security rules without floating IP", () => {
  const annotations = { "azure-disable-load-balancer-floating-ip": "true" };
  const destinations = (config: Config) =>
    (after(start(), { annotations, spec: dual }, config).securityGroup?.securityRules ?? [])
      .filter(({ name = "" }) => name.startsWith("k8s-azure-lb"))
      .map(({ destinationAddressPrefixes }) => destinationAddressPrefixes);
  const expected = [
    ["10.240.0.4", "10.240.0.5", "10.240.0.6"],
    ["fd00::4", "fd00::5", "fd00::6"],
  ];

  test("addresses of the nodes in the pools, by family", () => {
    expect(destinations(interfaces)).toEqual(expected);
  });

  test("addresses in the pools, by family", () => {
    expect(destinations(addresses)).toEqual(expected);
  });

  /** Destinations of the rules for one node port. */
  const openOn = (port: number, { securityGroup }: Observed): readonly string[] =>
    (securityGroup?.securityRules ?? [])
      .filter(({ destinationPortRanges = [] }) => destinationPortRanges.includes(`${port}`))
      .flatMap((rule) => [rule.destinationAddressPrefix ?? [], rule.destinationAddressPrefixes ?? []].flat());

  test.each([["nodeIPConfiguration"], ["nodeIP"]])(
    "opens node ports on the members of a pool that another component fills: %s",
    (loadBalancerBackendPoolConfigurationType) => {
      const keys = { loadBalancerBackendPoolConfigurationType };
      const pools = plannerConfigOf({ ...keys, preConfiguredBackendPoolLoadBalancerTypes: "all" });
      const first = after(start(), { name: "first" }, plannerConfigOf(keys), nodes.slice(0, 2));
      const shape = { name: "second", annotations, spec: { ports: [tcp(81)] } };
      const opened = openOn(30_081, after(first, shape, pools)).filter((address) => !address.includes(":"));
      expect(opened).toEqual(["10.240.0.4", "10.240.0.5"]);
    },
  );

  test("security rules without floating IP open node ports on the nodes of the Service's own load balancer only", () => {
    const vmSets = new Map(nodes.map(({ metadata }, index) => [metadata?.name ?? "", index === 2 ? "vmss1" : "vmss0"]));
    const on = (name: string) => ({ "azure-load-balancer-configurations": name });
    const first = after(start({ vmSets }), { name: "first", annotations: on("kubernetes") }, several);
    const shape = { name: "second", annotations: { ...annotations, ...on("lb2") }, spec: { ports: [tcp(81)] } };
    expect(openOn(30_081, after(first, shape, several))).toEqual(["10.240.0.6"]);
  });

  test("opens node ports on the addresses of both pools of the load balancer, whichever Service uses them", () => {
    const first = after(start(), { name: "first", spec: dual }, addresses);
    const shape = { name: "second", annotations, spec: { ports: [tcp(81)] } };
    expect(openOn(30_081, after(first, shape, addresses))).toEqual(expected.flat());
    expect(openOn(30_081, after(start(), shape, addresses))).toEqual(["10.240.0.4", "10.240.0.5", "10.240.0.6"]);
  });
});

describe("keeping the shared probe", () => {
  const shared = plannerConfigOf({ clusterServiceLoadBalancerHealthProbeMode: "shared" });
  const probes = (state: Observed) => partsOf(state)[2];

  test("a shared probe is replaced by an own one when the mode is switched off", () => {
    expect(probes(after(after(start(), {}, shared)))).toEqual(["aweb-TCP-80"]);
  });

  test("a shared probe is kept for the other Service when the mode is switched off for one of two", () => {
    const two = after(after(start(), {}, shared), { name: "other" }, shared);
    expect(probes(after(two))).toEqual(["aweb-TCP-80", "cluster-service-shared-health-probe"]);
  });

  test("an own probe is replaced when the mode is switched on", () => {
    expect(probes(after(after(start()), {}, shared))).toEqual(["cluster-service-shared-health-probe"]);
  });

  test("a shared probe is removed when the only Service, with two ports, becomes local", () => {
    const ports = [tcp(80), tcp(443)];
    const local = { ports, externalTrafficPolicy: "Local", healthCheckNodePort: 34_567 };
    const end = after(after(start(), { spec: { ports } }, shared), { spec: local }, shared);
    expect(probes(end)).toEqual(["aweb-TCP-34567"]);
  });

  test("malformed rule id in the back-references makes no difference", () => {
    const first = after(start(), {}, shared);
    const loadBalancers = first.loadBalancers.map((one) => ({
      ...one,
      probes: (one.probes ?? []).map((probe) => ({ ...probe, loadBalancingRules: [{ id: "" }] })),
    }));
    expect(writesOf({ ...first, loadBalancers }, {}, shared)).toEqual([]);
  });
});

test("a frontend that another Service uses keeps its address: the change is refused, and nothing is written", () => {
  const onSharedIP = (name: string, port: number): ServiceShape => ({
    name,
    annotations: { "azure-pip-name": "my-pip" },
    spec: { ports: [tcp(port)] },
  });
  const first = onSharedIP("first", 80);
  const both = after(after(start(), first), onSharedIP("second", 443));
  const { stages, results } = plan([intentOf({ nodes, ...first, annotations: {} })], both, interfaces);
  expect(stages).toEqual([]);
  expect(results.get("default/first")?.problem?.code).toBe("FrontendInUse");
});

test("Services that leave a shared frontend in one plan do not keep each other from it", () => {
  const onSharedIP = { "azure-pip-name": "my-pip" };
  const intents = (annotations: Readonly<Record<string, string>>) =>
    [80, 443].map((port) => intentOf({ nodes, name: `on-${port}`, annotations, spec: { ports: [tcp(port)] } }));
  const { observed } = converge(intents(onSharedIP), start(), interfaces);
  const left = plan(intents({}), observed, interfaces);
  expect([...left.results.values()].map(({ problem }) => problem)).toEqual([undefined, undefined]);
  const [balancer] = converge(intents({}), observed, interfaces).observed.loadBalancers;
  const publicIPs = (balancer?.frontendIPConfigurations ?? []).map(
    ({ name, publicIPAddress }) => [name, publicIPAddress?.id?.split("/").at(-1)] as const,
  );
  expect(new Map(publicIPs)).toEqual(
    new Map([
      ["aon80", "kubernetes-aon80"],
      ["aon443", "kubernetes-aon443"],
    ]),
  );
});

describe("a frontend that a Service shares and leaves", () => {
  const uids = { creator: "c".repeat(32), guest: "b".repeat(32) };
  const [creator, guest] = [`a${uids.creator.slice(1)}`, `a${uids.guest.slice(1)}`];
  const onSharedIP = (name: keyof typeof uids, port: number, more: object = {}): ServiceShape => ({
    name,
    uid: uids[name],
    annotations: { "azure-pip-name": "my-pip", ...more },
    spec: { ports: [tcp(port)] },
  });
  const withoutRule = onSharedIP("creator", 80, { port_80_no_lb_rule: "true" });
  const both = (): Observed => after(after(start(), onSharedIP("creator", 80)), onSharedIP("guest", 443));
  const withCreator = (from: Observed, shape: ServiceShape): Observed => ({
    ...from,
    services: [intentOf(shape).service],
  });
  const guestAlone: ServiceShape = { name: "guest", uid: uids.guest, spec: { ports: [tcp(443)] } };

  test("goes with the last Service on it when the one that created it is deleted", () => {
    const left = after(deleted(both(), onSharedIP("creator", 80)), guestAlone);
    expect(partsOf(left)[0]).toEqual([guest]);
  });

  test("goes with the last Service on it while the one that created it, which has left it, is being deleted", () => {
    const { metadata, ...rest } = intentOf(onSharedIP("creator", 80)).service;
    const leaving = { ...rest, metadata: { ...metadata, deletionTimestamp: "2026-01-02T00:00:00Z" } };
    const left = deleted(both(), onSharedIP("creator", 80));
    expect(partsOf(after({ ...left, services: [leaving] }, guestAlone))[0]).toEqual([guest]);
  });

  test("stays while the Service that created it has no rule for the moment", () => {
    const resting = after(both(), withoutRule);
    expect(partsOf(resting)[1]).toEqual([`${guest}-TCP-443`]);
    expect(partsOf(after(withCreator(resting, withoutRule), guestAlone))[0]).toEqual([guest, creator]);
  });

  test("goes when another controller serves the Service that created it, and stays while a deployment may", () => {
    const resting = after(both(), withoutRule);
    const { metadata, spec, ...rest } = intentOf(withoutRule).service;
    const leftBy = (more: NonNullable<Service["metadata"]>): readonly string[] | undefined => {
      const creators = [
        { ...rest, spec: { ...spec, loadBalancerClass: "example.com/other" }, metadata: { ...metadata, ...more } },
      ];
      return partsOf(after({ ...resting, services: creators }, guestAlone))[0];
    };
    expect(leftBy({})).toEqual([guest]);
    expect(leftBy({ finalizers: ["service.kubernetes.io/load-balancer-cleanup"] })).toEqual([guest, creator]);
    expect(leftBy({ annotations: { ...metadata?.annotations, "cloud-controller-host/served-by": "b" } })).toEqual([
      guest,
      creator,
    ]);
  });

  test("goes when the Service that created it is internal now", () => {
    const inside: ServiceShape = { ...withoutRule, annotations: internal };
    const left = after(withCreator(after(both(), inside), inside), guestAlone);
    expect(left.loadBalancers.map((one) => [one.name, names(one.frontendIPConfigurations)])).toEqual([
      ["kubernetes", [guest]],
      ["kubernetes-internal", [creator]],
    ]);
  });

  test("stays when the Service on it exchanges all its ports", () => {
    const alone = deleted(both(), onSharedIP("creator", 80));
    const changed = after(alone, onSharedIP("guest", 8443));
    expect(partsOf(changed).slice(0, 2)).toEqual([[creator], [`${guest}-TCP-8443`]]);
  });

  test("is replaced with its zones if it is the Service's own", () => {
    const inside = (subnet: string): ServiceShape => ({ ...guestAlone, annotations: onSubnet(subnet) });
    const first = after(start(), inside("subnet0"));
    const loadBalancers = first.loadBalancers.map(({ frontendIPConfigurations = [], ...one }) => ({
      ...one,
      frontendIPConfigurations: frontendIPConfigurations.map((frontend) => ({ ...frontend, zones: ["2"] })),
    }));
    const [moved] = after({ ...first, loadBalancers }, inside("lb-subnet")).loadBalancers;
    expect(moved?.frontendIPConfigurations).toMatchObject([{ name: `${guest}-lb-subnet`, zones: ["2"] }]);
  });

  test("stays if it is of a user", () => {
    const theirs = usersBalancer("kubernetes");
    const first = after(start({ loadBalancers: [theirs] }), {
      ...guestAlone,
      annotations: { "azure-pip-name": "users-ip" },
    });
    const loadBalancers = first.loadBalancers.map(({ loadBalancingRules = [], outboundRules: _outbound, ...one }) => ({
      ...one,
      loadBalancingRules: loadBalancingRules.filter(({ name }) => name !== "users-rule"),
    }));
    expect(partsOf(after({ ...first, loadBalancers }, guestAlone))[0]).toEqual([guest, "users-frontend"]);
  });
});

describe("the managed load balancers", () => {
  test("other load balancers of the resource group are left alone", () => {
    const theirs = [usersBalancer("theirs"), usersBalancer("kubernetes2")];
    const end = deleted(after(start({ loadBalancers: theirs })));
    expect(end.loadBalancers).toEqual(theirs.map((one) => expect.objectContaining({ name: one.name ?? "" })));
  });
});

describe("pools on one load balancer", () => {
  const elsewhere = (balancer: string) => {
    const first = after(start());
    const poolMembers = new Map([
      [poolId, [member("node-0"), member("node-1")]],
      [poolId.replace("/kubernetes/", `/${balancer}/`), [member("node-2")]],
    ]);
    return writesOf({ ...first, poolMembers }).length;
  };

  test.each([
    ["the -internal one is the same LB: joins", "kubernetes-internal", 1],
    ["other LB: left alone", "kubernetes2", 0],
  ])("%s", (_title, balancer, expected) => {
    expect(elsewhere(balancer)).toBe(expected);
  });
});

describe("the owner of a shared probe's rule", () => {
  test("a Cluster service keeps the shared probe in every reconciliation", () => {
    const shared = plannerConfigOf({ clusterServiceLoadBalancerHealthProbeMode: "shared" });
    expect(writesOf(after(start(), {}, shared), {}, shared)).toEqual([]);
  });
});

describe("pools of network interfaces", () => {
  test.each([
    ["nil addresses: no member leaves before addresses come", new Map(), "put-load-balancer"],
    ["any interface: released first", new Map([[poolId, [member("node-0")]]]), "release-pools"],
  ])("%s", (_title, poolMembers, expected) => {
    const first = { ...after(start()), poolMembers };
    expect(writesOf(first, {}, addresses)).toMatchObject([{ kind: expected }]);
  });
});

describe("the list of public IPs", () => {
  test("planning changes nothing of what was read, though it changes every field", () => {
    const current = publicIP("kubernetes-aweb", "20.1.1.1", {
      publicIPAddressVersion: "IPv6",
      tags: { "k8s-azure-service": "default/web" },
      dnsSettings: { domainNameLabel: "old" },
    });
    const frozen = deepFreeze(start({ publicIPs: [current] }));
    const annotations = { "azure-dns-label-name": "web", "azure-pip-tags": "a=b" };
    expect(writesOf(frozen, { annotations })).toMatchObject(expect.arrayContaining([{ kind: "put-public-ip" }]));
  });
});

describe("finding the public IP of a Service", () => {
  const known = indexPublicIPs([publicIP("named", "20.1.1.1"), publicIP("v6", "2603:1030::7")]);
  const found = (annotations: Readonly<Record<string, string>>, ipFamilies = ["IPv4"]) => {
    const { subject } = readSubject(intentOf({ annotations, spec: { ipFamilies } }).service, interfaces);
    const choice = desiredPublicIP(subject, ipFamilies[0] === "IPv6" ? "IPv6" : "IPv4", known, interfaces);
    return "problem" in choice ? choice.problem.code : choice.name;
  };

  test.each([
    ["found by name in any case", { "azure-pip-name": "NAMED" }, "named"],
    ["name miss: error", { "azure-pip-name": "other" }, "PublicIPNotFound"],
    ["name before address", { "azure-pip-name": "named", "azure-load-balancer-ipv4": "20.1.1.9" }, "named"],
  ])("%s", (_title, annotations, expected) => {
    expect(found({ ...annotations })).toBe(expected);
  });

  test("found in another spelling", () => {
    expect(found({ "azure-load-balancer-ipv6": "2603:1030:0:0::7" }, ["IPv6"])).toBe("v6");
  });
});

describe("a loadBalancerIP that is invalid or not public", () => {
  test("a loadBalancerIP that is not an address is an error", () => {
    const { stages, results } = plan([intentOf({ spec: { loadBalancerIP: "nowhere" } })], start(), interfaces);
    expect(stages).toEqual([]);
    expect(results.get("default/web")?.problem?.messages).toEqual([
      'spec.loadBalancerIP: "nowhere" is not an IP address',
    ]);
  });

  test.each([
    ["10.0.0.1", "IPv4"],
    ["172.16.5.4", "IPv4"],
    ["172.31.255.255", "IPv4"],
    ["192.168.1.1", "IPv4"],
    ["100.64.0.1", "IPv4"],
    ["168.63.129.16", "IPv4"],
    ["127.0.0.1", "IPv4"],
    ["169.254.169.254", "IPv4"],
    ["fd00::1", "IPv6"],
    ["fe80::1", "IPv6"],
    ["::1", "IPv6"],
    ["::ffff:10.0.0.1", "IPv6"],
    ["::ffff:100.64.0.1", "IPv6"],
    ["::ffff:168.63.129.16", "IPv6"],
  ])("%s is an error, and nothing is read for it", (address, family) => {
    expect(isPublicAddress(address)).toBe(false);
    const annotations = { [`azure-load-balancer-${family.toLowerCase()}`]: address };
    const { stages, results } = plan([intentOf({ annotations, spec: { ipFamilies: [family] } })], start(), interfaces);
    expect(stages).toEqual([]);
    expect(results.get("default/web")?.problem?.code).toBe("InvalidService");
  });
});

describe("addresses that Azure reserves", () => {
  test.each([
    ["100.63.255.255", true],
    ["100.64.0.0", false],
    ["100.127.255.255", false],
    ["100.128.0.0", true],
    ["168.63.129.15", true],
    ["168.63.129.16", false],
    ["168.63.129.17", true],
    ["172.32.0.0", true],
    ["20.1.2.3", true],
    ["2603:1030::1", true],
  ])("%s public: %p", (address, expected) => {
    expect(isPublicAddress(address)).toBe(expected);
  });
});

describe("the names of a Service's pools", () => {
  test("a local Service has the lower-case name `namespace-name`, any other the cluster's name", () => {
    expect([localPoolName("Default/Web", "IPv4"), localPoolName("Default/Web", "IPv6")]).toEqual([
      "default-web",
      "default-web-ipv6",
    ]);
    expect([poolName("Kubernetes", "IPv4"), poolName("Kubernetes", "IPv6")]).toEqual(["Kubernetes", "Kubernetes-IPv6"]);
  });
});
