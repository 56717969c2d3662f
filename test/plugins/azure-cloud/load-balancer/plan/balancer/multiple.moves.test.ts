import { describe, expect, setDefaultTimeout, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";
import type { Node } from "cloud-controller-host/sdk";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { converge, publicIP, world } from "../../world.ts";
import { balancer, chosenFrom, type Config, configOf, nodes, rules } from "./several-balancers.ts";

setDefaultTimeout(120_000);

type Annotations = Readonly<Record<string, string>>;

const two = configOf({ name: "lb2", primaryVMSet: "vmss1" });
const vmSets = new Map([
  ["node-0", "vmss0"],
  ["node-1", "vmss1"],
]);
const start = (about: Partial<Observed> = {}) => world({ nodes, vmSets, ...about });

const internal = { "azure-load-balancer-internal": "true" };
const on = (name: string): Annotations => ({ "azure-load-balancer-configurations": name });
const tcp = (port: number) => [{ name: `tcp-${port}`, protocol: "TCP", port, nodePort: 30_000 + port }];
const local = { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 };

/** Services whose UIDs look like real ones, so that their frontends are known to be the provider's. */
const primary = (annotations: Annotations = {}, spec = {}): ServiceShape => ({
  name: "primary",
  uid: "11111111-1111-1111-1111-111111111111",
  annotations,
  spec: { ports: tcp(80), ...spec },
});
const secondary = (annotations: Annotations, spec = {}): ServiceShape => ({
  name: "secondary",
  uid: "22222222-2222-2222-2222-222222222222",
  annotations,
  spec: { ports: tcp(81), ...spec },
});
const base = "a1111111111111111111111111111111";
const secondBase = "a2222222222222222222222222222222";

const inNamespace = (namespace: string, shape: ServiceShape) => {
  const { service } = intentOf(shape);
  return { ...service, metadata: { ...service.metadata, namespace, ...(namespace !== "default" && { name: "x" }) } };
};

const ensured = (from: Observed, config: Config, ...shapes: readonly ServiceShape[]): Observed =>
  shapes.reduce((state, shape) => converge([intentOf({ nodes, ...shape })], state, config).observed, from);
const deleted = (from: Observed, shape: ServiceShape): Observed =>
  converge([intentOf({ nodes, ...shape, action: "delete" })], from, two).observed;
const problemOf = (shape: ServiceShape, from: Observed, config: Config = two) => {
  const { stages, results } = plan([intentOf({ nodes, ...shape })], from, config);
  return { stages, problem: results.get(`default/${shape.name ?? "web"}`)?.problem };
};
const short = (name = ""): string => name.replace(base, "1").replace(secondBase, "2");
/** Rules by load balancer, with the bases of the two Services as 1 and 2. */
const rulesIn = ({ loadBalancers }: Observed) =>
  Object.fromEntries(
    loadBalancers.map(({ name = "", loadBalancingRules = [] }) => [
      name,
      loadBalancingRules.map((rule) => short(rule.name)).toSorted(),
    ]),
  );
const poolsIn = ({ loadBalancers }: Observed) =>
  Object.fromEntries(
    loadBalancers.map(({ name = "", backendAddressPools = [] }) => [name, backendAddressPools.map((one) => one.name)]),
  );

const pinned = { "azure-pip-name": "my-pip" };
const pinnedInside = { ...internal, "azure-load-balancer-ipv4": "10.240.9.9" };
/** The public IP or private address that the primary created and the secondary shares. */
const sharing = (state: Observed): Annotations => {
  const address = state.publicIPs.find(({ name }) => name === `kubernetes-${base}`)?.ipAddress;
  return { "azure-load-balancer-ipv4": address ?? "" };
};

describe("choosing among several load balancers", () => {
  test("a Service that must move to lb2, which exists, gets lb2 and leaves lb1", () => {
    const first = ensured(start(), two, { name: "third", annotations: on("lb2") }, primary(on("kubernetes")));
    expect(rulesIn(ensured(first, two, primary(on("lb2"))))).toEqual({ lb2: ["1-TCP-80", "athird-TCP-80"] });
  });

  test.each([
    ["local service switches from external to internal: pool on the old kind removed", {}, internal],
    ["local service switches from internal to external: pool on the old kind removed", internal, {}],
  ])("%s", (_title, before, after) => {
    const end = ensured(start(), two, primary(before, local), primary(after, local));
    expect(poolsIn(end)).toEqual({
      [Object.keys(after).length > 0 ? "kubernetes-internal" : "kubernetes"]: ["default-primary"],
    });
  });

  test("a service that is not local any more moves to the cluster's pool in one write", () => {
    const first = ensured(start(), two, primary({}, local));
    const { stages } = plan([intentOf({ nodes, ...primary() })], first, two);
    expect(stages.flatMap(({ writes }) => writes)).toMatchObject([
      { kind: "put-load-balancer", body: { backendAddressPools: [{ name: "kubernetes" }] } },
    ]);
    expect(poolsIn(ensured(first, two, primary()))).toEqual({ kubernetes: ["kubernetes"] });
  });

  test.each([
    ["is not local any more", { action: "ensure" }, ["default-primary-x", "kubernetes"]],
    ["is deleted", { action: "delete" }, ["default-primary-x"]],
  ] as const)("a Service that %s leaves a pool that is as well that of another one", (_what, { action }, pools) => {
    const other = {
      service: inNamespace("default-primary", primary(on("kubernetes"), local)),
      action: "ensure",
      nodes,
    } as const;
    const shape = secondary(on("kubernetes"), local);
    const own = (spec: ServiceShape) => ({ ...intentOf({ nodes, ...spec }), service: inNamespace("default", spec) });
    const both = converge([other, own({ ...shape, name: "primary-x" })], start(), two).observed;
    expect(poolsIn(both)).toEqual({ kubernetes: ["default-primary-x"] });
    const left = { ...own({ ...secondary(on("kubernetes")), name: "primary-x" }), action };
    expect(poolsIn(converge([left], both, two).observed)).toEqual({ kubernetes: [...pools] });
  });

  test("a local Service without a rule keeps its pool", () => {
    const shape = primary({ port_80_no_lb_rule: "true" }, local);
    expect(poolsIn(ensured(start(), two, shape, shape))).toEqual({ kubernetes: ["default-primary"] });
  });

  test("a local secondary Service that changes its load balancer loses its pool", () => {
    const joined = ensured(start(), two, primary(pinned), secondary(pinned, local));
    expect(poolsIn(joined)["kubernetes"]).toEqual(["kubernetes", "default-secondary"]);
    const moved = ensured(joined, two, secondary(on("lb2"), local));
    expect(poolsIn(moved)).toEqual({ kubernetes: ["kubernetes"], lb2: ["default-secondary"] });
  });

  test.each([
    ["external primary shares its FIP with a secondary: error, no migration", pinned, pinned, on("lb2")],
    [
      "internal primary shares its FIP with a secondary: error, no migration",
      pinnedInside,
      pinnedInside,
      { ...internal, ...on("lb2") },
    ],
  ])("%s", (_title, first, second, after) => {
    const joined = ensured(start(), two, primary(first), secondary(second));
    const { stages, problem } = problemOf(primary(after), joined);
    expect([stages, problem?.code]).toEqual([[], "MigrationBlocked"]);
    expect(problem?.messages.join()).toContain("cannot migrate from load balancer");
  });

  test.each([
    ["external service with its own FIP: migrates, next to a shared one", {}, pinned, pinned],
    ["internal service with its own FIP: migrates, next to a shared one", internal, pinnedInside, pinnedInside],
  ])("%s", (_title, own, first, second) => {
    const joined = ensured(start(), two, primary(first), secondary(second), {
      name: "third",
      annotations: { ...own, ...on("kubernetes") },
    });
    const end = ensured(joined, two, { name: "third", annotations: { ...own, ...on("lb2") } });
    const suffix = "azure-load-balancer-internal" in own ? "-internal" : "";
    expect(rulesIn(end)).toEqual({
      [`kubernetes${suffix}`]: ["1-TCP-80", "2-TCP-81"],
      [`lb2${suffix}`]: ["athird-TCP-80"],
    });
  });

  test.each([
    ["external shared-IP service is blocked although an independent service also lives on the same LB", pinned, {}],
    [
      "internal shared-IP service is blocked although an independent service also lives on the same LB",
      pinnedInside,
      internal,
    ],
  ])("%s", (_title, shared, own) => {
    const third = { name: "third", annotations: { ...own, ...on("kubernetes") } };
    const joined = ensured(start(), two, primary(shared), secondary(shared), third);
    expect(problemOf(primary({ ...own, ...on("lb2") }), joined).problem?.code).toBe("MigrationBlocked");
  });

  test("a migration of a pinned internal IP from a load balancer that is deleted leaves both Services on the target", () => {
    const onLb2 = { name: "third", annotations: { ...internal, ...on("lb2") } };
    const first = ensured(start(), two, onLb2, primary({ ...internal, ...on("kubernetes") }));
    const target = first.loadBalancers.find(({ name }) => name === "lb2-internal");
    const address = target?.frontendIPConfigurations?.[0]?.privateIPAddress ?? "";
    const end = ensured(first, two, primary({ ...internal, "azure-load-balancer-ipv4": address }, { ports: tcp(90) }));
    expect(rulesIn(end)).toEqual({ "lb2-internal": ["1-TCP-90", "athird-TCP-80"] });
  });

  test("external: source LB deleted when only a secondary remains and moves", () => {
    const first = ensured(start(), two, primary(pinned));
    const joined = deleted(ensured(first, two, secondary(pinned)), primary(pinned));
    expect(rulesIn(joined)).toEqual({ kubernetes: ["2-TCP-81"] });
    expect(rulesIn(ensured(joined, two, secondary(on("lb2"))))).toEqual({ lb2: ["2-TCP-81"] });
  });

  test.each([
    ["external to internal with a secondary staying on the same LB config: stale rules removed", pinned, internal],
    ["internal to external with a secondary staying on the same LB config: stale rules removed", pinnedInside, {}],
    [
      "external to internal with the LB config changing too: stale rules removed",
      pinned,
      { ...internal, ...on("lb2") },
    ],
    ["internal to external with the LB config changing too: stale rules removed", pinnedInside, on("lb2")],
  ])("%s", (_title, before, after) => {
    const end = ensured(start(), two, primary(before), secondary(before), primary(after));
    const found = rulesIn(end);
    const old = "azure-load-balancer-internal" in before ? "kubernetes-internal" : "kubernetes";
    expect(found[old]).toEqual(["2-TCP-81"]);
    expect(Object.entries(found).filter(([name]) => name !== old)).toEqual([[expect.any(String), ["1-TCP-80"]]]);
  });

  test.each([
    ["secondary external to internal, same LB config: its rules removed, the primary's stay", pinned, internal],
    ["secondary internal to external, same LB config: its rules removed, the primary's stay", pinnedInside, {}],
    ["secondary external to internal, different LB: its rules removed", pinned, { ...internal, ...on("lb2") }],
    ["secondary internal to external, different LB: its rules removed", pinnedInside, on("lb2")],
  ])("%s", (_title, before, then) => {
    const end = rulesIn(ensured(start(), two, primary(before), secondary(before), secondary(then)));
    const old = "azure-load-balancer-internal" in before ? "kubernetes-internal" : "kubernetes";
    expect(end[old]).toEqual(["1-TCP-80"]);
    expect(Object.entries(end).filter(([name]) => name !== old)).toEqual([[expect.any(String), ["2-TCP-81"]]]);
  });

  test.each([
    ["switching back to external: primary finds its shared FIP on the same LB", pinned, internal],
    ["switching back to internal: primary finds its shared FIP on the same LB", pinnedInside, {}],
    ["switching back to external: primary finds its shared FIP on another LB", pinned, { ...internal, ...on("lb2") }],
    ["switching back to internal: primary finds its shared FIP on another LB", pinnedInside, on("lb2")],
  ])("%s", (_title, before, away) => {
    const joined = ensured(start(), two, primary(before), secondary(before));
    expect(rulesIn(ensured(joined, two, primary(away), primary(before)))).toEqual(rulesIn(joined));
  });
});

const idOf = (name: string): string =>
  `/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/${name}`;
const identified = (name: string, more: Partial<LoadBalancer> = {}): LoadBalancer =>
  balancer(name, { id: idOf(name), ...more });
const chosen = (shape: ServiceShape, config: Config, from = start()) => chosenFrom(from, shape, config);

describe("eligible load balancers", () => {
  const labels = { tier: "gold" };
  const selecting = (name: string, more: object) => ({ name, primaryVMSet: `set-${name}`, ...more });

  test("annotation, label and namespace select the intersection", () => {
    const matching = {
      serviceLabelSelector: { matchLabels: labels },
      serviceNamespaceSelector: { matchLabels: { k: "v" } },
    };
    const config = configOf(
      selecting("a", matching),
      selecting("b", { serviceLabelSelector: { matchLabels: labels } }),
      selecting("c", { ...matching, serviceNamespaceSelector: { matchLabels: { k: "w" } } }),
    );
    const from = start({ namespaceLabels: new Map([["default", { k: "v" }]]) });
    expect(chosen({ labels, annotations: on("c,a") }, config, from)).toBe("a");
    expect(chosen({ labels, annotations: on("c") }, config, from)).toContain("its namespace selector does not match");
  });

  test("the key of the annotation in any case", () => {
    const annotations = { "Azure-Load-Balancer-Configurations": "lb2" };
    expect(chosen({ annotations }, two)).toBe("lb2");
  });
});

describe("the most eligible load balancer", () => {
  test("the current load balancer stays the choice while it is eligible, however full", () => {
    const loadBalancers = [identified("kubernetes", rules("aweb", 9)), identified("lb2")];
    expect(chosen({}, two, start({ loadBalancers }))).toBe("kubernetes");
  });

  test("internal kind respected", () => {
    const loadBalancers = [
      identified("kubernetes"),
      identified("kubernetes-internal", rules("x", 2)),
      identified("lb2", rules("y", 9)),
      identified("lb2-internal", rules("z", 1)),
    ];
    expect(chosen({ annotations: internal }, two, start({ loadBalancers }))).toBe("lb2-internal");
  });

  test("nil properties count as empty", () => {
    const loadBalancers = [identified("kubernetes", rules("x", 1)), { name: "lb2", id: idOf("lb2") }];
    expect(chosen({}, two, start({ loadBalancers }))).toBe("lb2");
  });

  test("existing empty LB preferred over a missing one", () => {
    expect(chosen({}, two, start({ loadBalancers: [identified("lb2")] }))).toBe("lb2");
  });

  test("an LB with 301 rules takes no more", () => {
    const loadBalancers = [identified("kubernetes", rules("x", 301)), identified("lb2", rules("y", 301))];
    expect(chosen({}, two, start({ loadBalancers }))).toContain("has 301 rules");
  });
});

describe("the name of the load balancer", () => {
  test.each([
    ["loadBalancerName `azurelb`: `azurelb`", { loadBalancerName: "azurelb" }, {}, "azurelb"],
    ["loadBalancerName, internal: `azurelb-internal`", { loadBalancerName: "azurelb" }, internal, "azurelb-internal"],
    ["basic primary set external: cluster name", { loadBalancerSku: "basic" }, {}, "kubernetes"],
    [
      "basic primary set internal: cluster name-internal",
      { loadBalancerSku: "basic" },
      internal,
      "kubernetes-internal",
    ],
    [
      "basic other set external: its name",
      { loadBalancerSku: "basic" },
      { "azure-load-balancer-mode": "vmss1" },
      "vmss1",
    ],
    [
      "basic other set internal: its name-internal",
      { loadBalancerSku: "basic" },
      { ...internal, "azure-load-balancer-mode": "vmss1" },
      "vmss1-internal",
    ],
    ["standard any set external: cluster name", {}, { "azure-load-balancer-mode": "vmss1" }, "kubernetes"],
    ["standard any set internal: cluster name-internal", {}, internal, "kubernetes-internal"],
  ])("%s", (_title, keys, annotations, expected) => {
    expect(chosen({ annotations: { ...annotations } }, plannerConfigOf({ ...keys }))).toBe(expected);
  });

  test("annotation `a,b` and a label for b select `b-internal` for an internal Service", () => {
    const config = configOf(
      { name: "a", primaryVMSet: "s1" },
      { name: "b", primaryVMSet: "s2", serviceLabelSelector: { matchLabels: { k: "v" } } },
    );
    const shape = { annotations: { ...internal, ...on("a,b") }, labels: { k: "v" } };
    expect(chosen(shape, config)).toBe("b-internal");
    expect(chosen({ annotations: { ...internal, ...on("c") } }, config)).toContain("none of them is defined");
  });

  const attached = (name: string, more: Partial<Observed> = {}): Observed =>
    start({
      loadBalancers: [identified("kubernetes"), identified(name, rules("x", 9))],
      publicIPs: [
        publicIP("my-pip", "20.9.9.9", { ipConfiguration: { id: `${idOf(name)}/frontendIPConfigurations/x` } }),
      ],
      ...more,
    });
  const excluding = configOf({ name: "lb2", primaryVMSet: "vmss1", serviceLabelSelector: { matchLabels: { a: "b" } } });
  const address = { "azure-load-balancer-ipv4": "20.9.9.9" };
  const inSpec = { spec: { loadBalancerIP: "20.9.9.9" } };

  test.each([
    ["external with IP annotation on lb2: `lb2`", { annotations: address }],
    ["external with spec IP on lb2: `lb2`", inSpec],
    ["LB annotation lb2: `lb2`", { annotations: on("lb2") }],
  ])("%s", (_title, shape) => {
    expect(chosen(shape, two, attached("lb2"))).toBe("lb2");
  });

  test.each([
    [
      "new external IP that does not exist: error",
      { annotations: { "azure-load-balancer-ipv4": "20.9.9.8" } },
      "was not found in resource group",
    ],
    [
      "private IP: validation error",
      { annotations: { "azure-load-balancer-ipv4": "10.0.0.1" } },
      "cannot use non-public LoadBalancer IP",
    ],
    ["PIP name not found: error", { annotations: { "azure-pip-name": "nowhere" } }, "doesn't exist"],
    ["IP together with LB annotation: error", { annotations: { ...address, ...on("lb2") } }, "conflicting"],
    ["spec IP together with LB annotation: error", { ...inSpec, annotations: on("lb2") }, "conflicting"],
  ])("%s", (_title, shape, message) => {
    expect(chosen(shape, two, attached("lb2"))).toContain(message);
  });

  test("a public IP tagged by another cluster does not pin the selection", () => {
    const tags = { "k8s-azure-cluster-name": "other", "k8s-azure-service": "x/y" };
    const ipConfiguration = { id: `${idOf("lb2")}/frontendIPConfigurations/x` };
    const from = attached("lb2", { publicIPs: [publicIP("my-pip", "20.9.9.9", { tags, ipConfiguration })] });
    expect(chosen({ annotations: pinned }, excluding, from)).not.toContain("not in the eligible set");
  });

  test.each([
    ["IP annotation on an LB excluded by label selector: error", { annotations: address }],
    ["spec IP on an LB excluded by label selector: error", inSpec],
  ])("%s", (_title, shape) => {
    expect(chosen(shape, excluding, attached("lb2"))).toContain("not in the eligible set");
  });

  test("service sharing an IP of lb2 follows it", () => {
    const first = ensured(start(), two, primary(on("lb2")));
    expect(rulesIn(ensured(first, two, secondary(sharing(first))))).toEqual({ lb2: ["1-TCP-80", "2-TCP-81"] });
  });

  const frontend = (name: string) => ({ frontendIPConfigurations: [{ id: `${idOf("kubernetes")}/f`, name }] });

  test("primary FIP on an external LB decides over rules on lb2", () => {
    const loadBalancers = [identified("kubernetes", frontend("aweb")), identified("lb2", rules("aweb", 1))];
    expect(plan([intentOf({ nodes })], start({ loadBalancers }), two).stages.flatMap(({ writes }) => writes)).toEqual(
      expect.arrayContaining([expect.objectContaining({ kind: "put-load-balancer", name: "kubernetes" })]),
    );
    expect(rulesIn(converge([intentOf({ nodes })], start({ loadBalancers }), two).observed)["kubernetes"]).toEqual([
      "aweb-TCP-80",
    ]);
  });

  test("primary FIP on an internal LB is ignored for an external service", () => {
    const loadBalancers = [identified("lb2-internal", frontend("aweb")), identified("kubernetes")];
    expect(rulesIn(converge([intentOf({ nodes })], start({ loadBalancers }), two).observed)).toEqual({
      kubernetes: ["aweb-TCP-80"],
    });
  });

  test("FIP on an ineligible LB is ignored", () => {
    const loadBalancers = [identified("lb2", frontend("aweb")), identified("kubernetes", rules("x", 3))];
    const { observed } = converge([intentOf({ nodes })], start({ loadBalancers }), excluding);
    expect(rulesIn(observed)["kubernetes"]).toContain("aweb-TCP-80");
  });

  const privateOn = (name: string) =>
    start({
      loadBalancers: [
        identified("kubernetes-internal"),
        identified(name, {
          ...rules("x", 9),
          frontendIPConfigurations: [{ id: `${idOf(name)}/f`, name: "aother", privateIPAddress: "10.240.9.9" }],
        }),
      ],
    });

  test.each([
    ["internal: spec IP on lb2: `lb2-internal`", internal, { loadBalancerIP: "10.240.9.9" }, "lb2-internal"],
    ["internal: LB annotation: `lb2-internal`", { ...internal, ...on("lb2") }, {}, "lb2-internal"],
    [
      "internal: unknown IP: fewest rules",
      { ...internal, "azure-load-balancer-ipv4": "10.240.9.8" },
      {},
      "kubernetes-internal",
    ],
    ["internal: IP together with LB annotation: error", { ...pinnedInside, ...on("lb2") }, {}, "conflicting"],
  ])("%s", (_title, annotations, spec, expected) => {
    expect(chosen({ annotations: { ...annotations }, spec: { ...spec } }, two, privateOn("lb2-internal"))).toContain(
      expected,
    );
  });

  test("an internal IP on an excluded load balancer is an error", () => {
    expect(chosen({ annotations: pinnedInside }, excluding, privateOn("lb2-internal"))).toContain(
      "not in the eligible set",
    );
  });

  test("internal: sharing an IP follows its LB", () => {
    const end = ensured(privateOn("lb2-internal"), two, secondary(pinnedInside));
    expect(rulesIn(end)["lb2-internal"]).toContain("2-TCP-81");
  });
});

describe("configurations of several load balancers", () => {
  test("active services derived from rules of existing LBs", () => {
    const config = configOf({ name: "lb2", primaryVMSet: "vmss1", allowServicePlacement: false });
    const loadBalancers = [identified("lb2", rules("aweb", 1))];
    expect(chosen({}, config, start({ loadBalancers }))).toBe("lb2");
    expect(chosen({ name: "web1" }, config, start({ loadBalancers }))).toBe("kubernetes");
  });

  test("rules elsewhere make no difference to a single load balancer", () => {
    const loadBalancers = [identified("lb2", rules("x", 1)), identified("kubernetes")];
    expect(chosen({}, plannerConfigOf(), start({ loadBalancers }))).toBe("kubernetes");
  });
});

describe("nodes of several load balancers", () => {
  const labeled = (list: readonly Node[], name: string, labels: Readonly<Record<string, string>>) =>
    list.map((node) => (node.metadata?.name === name ? { ...node, metadata: { ...node.metadata, labels } } : node));
  const pool = { nodeSelector: { matchLabels: { pool: "x" } } };
  const membersIn = ({ loadBalancers }: Observed) =>
    Object.fromEntries(
      loadBalancers.map(({ name, backendAddressPools }) => [
        name,
        (backendAddressPools?.[0]?.loadBalancerBackendAddresses ?? []).map((one) => one.name ?? "").toSorted(),
      ]),
    );
  const reconciled = (config: Config, list: readonly Node[], from: Observed) =>
    converge(
      ["a", "b"].map((name) => intentOf({ name, nodes: list })),
      { ...from, nodes: list },
      config,
    ).observed;

  test("node leaves an LB whose selector it no longer matches", () => {
    const config = configOf({ name: "lb2", primaryVMSet: "set", ...pool });
    const matching = labeled(nodes, "node-2", { pool: "x" });
    const first = reconciled(config, matching, start());
    expect(membersIn(first)["lb2"]).toEqual(["node-2"]);
    expect(membersIn(reconciled(config, nodes, first))["kubernetes"]).toEqual(["node-0", "node-1", "node-2"]);
  });

  test("unwanted nodes are removed", () => {
    const first = reconciled(two, nodes, start());
    const end = reconciled(two, nodes.slice(0, 2), first);
    expect(membersIn(end)).toEqual({ kubernetes: ["node-0"], lb2: ["node-1"] });
  });

  test("LBs neither existing nor being created are skipped, also when selected by node selector", () => {
    const config = configOf({ name: "lb2", primaryVMSet: "vmss1", ...pool });
    const list = labeled(nodes, "node-2", { pool: "x" });
    const { observed } = converge([intentOf({ nodes: list })], start({ nodes: list }), config);
    expect(membersIn(observed)).toEqual({ kubernetes: ["node-0", "node-1", "node-2"] });
  });

  test("node distribution stays after a restart", () => {
    const first = reconciled(two, nodes, start());
    const again = plan(
      ["b", "a"].map((name) => intentOf({ name, nodes })),
      first,
      two,
    );
    expect(again.stages).toEqual([]);
  });
});
