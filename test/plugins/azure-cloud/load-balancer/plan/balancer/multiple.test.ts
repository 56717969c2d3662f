import { describe, expect, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { destinationsOf } from "../../../../../../plugins/azure-cloud/load-balancer/plan/security-group/rule-contents.ts";
import { matches } from "../../../../../../plugins/azure-cloud/load-balancer/service/selectors.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { converge, publicIP, world } from "../../world.ts";
import { balancer, chosenFrom, type Config, configOf, nodes, rules } from "./several-balancers.ts";

const gold = { matchLabels: { tier: "gold" } };
const start = (about: Partial<Observed> = {}) =>
  world({ nodes, namespaceLabels: new Map([["default", { k: "v" }]]), ...about });

const chosen = (shape: ServiceShape, config: Config, from = start()) => chosenFrom(from, shape, config);

describe("eligible load balancers", () => {
  const lb2 = { name: "lb2", primaryVMSet: "vmss1" };
  const only = (names: string) => ({ annotations: { "azure-load-balancer-configurations": names } });

  test("a load balancer is named as its config spells it, and Services find it in any case", () => {
    expect(chosen(only("lb2"), configOf({ ...lb2, name: "LB2" }))).toBe("LB2");
  });

  test("annotation `LB2 ,other` selects lb2 of the configs kubernetes and lb2", () => {
    expect(chosen(only("LB2 ,other"), configOf(lb2))).toBe("lb2");
  });

  test("an annotation that names no config is an error", () => {
    expect(chosen(only("a,b"), configOf(lb2))).toContain("selects 2 load balancers by annotation");
  });

  test("a matching label selector excludes configs without selectors", () => {
    expect(chosen({ labels: { tier: "gold" } }, configOf({ ...lb2, serviceLabelSelector: gold }))).toBe("lb2");
  });

  test("configs without selectors are left when no selector matches", () => {
    expect(chosen({}, configOf({ ...lb2, serviceLabelSelector: gold }))).toBe("kubernetes");
  });

  test("namespace labels select", () => {
    expect(chosen({}, configOf({ ...lb2, serviceNamespaceSelector: { matchLabels: { k: "v" } } }))).toBe("lb2");
    expect(chosen({}, configOf({ ...lb2, serviceNamespaceSelector: { matchLabels: { k: "w" } } }))).toBe("kubernetes");
  });

  test("an empty selection is an error with the reason of each config", () => {
    expect(chosen(only("lb2"), configOf({ ...lb2, serviceLabelSelector: gold }))).toContain(
      "lb2 (its label selector does not match)",
    );
    expect(chosen(only("lb2"), configOf({ ...lb2, allowServicePlacement: false }))).toContain(
      "AllowServicePlacement set to false",
    );
  });

  test("a config with allowServicePlacement false is excluded unless it is active", () => {
    const config = configOf({ ...lb2, allowServicePlacement: false });
    const active = balancer("lb2", rules("aweb", 1));
    expect(chosen({}, config, start({ loadBalancers: [balancer("kubernetes", rules("x", 5))] }))).toBe("kubernetes");
    expect(chosen({}, config, start({ loadBalancers: [active] }))).toBe("lb2");
  });

  test("a missing config with the cluster's name is an error", () => {
    const config = plannerConfigOf({
      loadBalancerBackendPoolConfigurationType: "nodeIP",
      multipleStandardLoadBalancerConfigurations: [lb2],
    });
    expect(chosen({}, config)).toContain("no configuration named kubernetes");
  });
});

describe("the most eligible load balancer", () => {
  const config = configOf({ name: "lb2", primaryVMSet: "vmss1" }, { name: "lb3", primaryVMSet: "vmss2" });
  const on = (...loadBalancers: readonly LoadBalancer[]) => chosen({}, config, start({ loadBalancers }));

  test("first eligible when none exists", () => expect(on()).toBe("kubernetes"));
  test("else first non-existing", () => expect(on(balancer("kubernetes", rules("x", 1)))).toBe("lb2"));
  test("existing empty LB wins over others", () =>
    expect(on(balancer("kubernetes", rules("x", 1)), balancer("lb3"))).toBe("lb3"));
  test("else fewest rules", () => {
    expect(
      on(balancer("kubernetes", rules("x", 3)), balancer("lb2", rules("y", 1)), balancer("lb3", rules("z", 2))),
    ).toBe("lb2");
  });
  test("an internal Service with only external load balancers gets the first eligible one", () => {
    const annotations = { "azure-load-balancer-internal": "true" };
    const loadBalancers = [balancer("kubernetes", rules("x", 3)), balancer("lb2"), balancer("lb3")];
    expect(chosen({ annotations }, config, start({ loadBalancers }))).toBe("kubernetes-internal");
  });
  test("new Services that are planned together are spread", () => {
    const intents = ["a", "b", "c"].map((name) => intentOf({ nodes, name }));
    const { observed } = converge(intents, start(), config);
    expect(observed.loadBalancers.map(({ name = "" }) => name).toSorted()).toEqual(["kubernetes", "lb2", "lb3"]);
  });
});

describe("the name of the load balancer", () => {
  const config = configOf({ name: "lb2", primaryVMSet: "vmss1" });
  const pinned = { "azure-pip-name": "my-pip" };
  const attached = (name: string) =>
    start({
      loadBalancers: [balancer("kubernetes"), balancer(name, rules("x", 9))],
      publicIPs: [
        publicIP("my-pip", "20.9.9.9", {
          ipConfiguration: {
            id: `/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/${name}/frontendIPConfigurations/x`,
          },
        }),
      ],
    });

  test("an external Service with the name of a public IP on lb2 gets `lb2`", () => {
    expect(chosen({ annotations: pinned }, config, withIds(attached("lb2")))).toBe("lb2");
  });

  test("an IP together with a load balancer annotation is an error", () => {
    const annotations = { ...pinned, "azure-load-balancer-configurations": "lb2" };
    expect(chosen({ annotations }, config)).toContain("conflicting load balancer configuration");
  });

  test("an IP on a load balancer that a label selector excludes is an error", () => {
    const excluding = configOf({ name: "lb2", primaryVMSet: "vmss1", serviceLabelSelector: gold });
    expect(chosen({ annotations: pinned }, excluding, withIds(attached("lb2")))).toContain("not in the eligible set");
  });

  test("an internal Service with an IP on lb2 gets `lb2-internal`", () => {
    const annotations = { "azure-load-balancer-internal": "true", "azure-load-balancer-ipv4": "10.240.9.9" };
    const frontends = { frontendIPConfigurations: [{ name: "aother", privateIPAddress: "10.240.9.9" }] };
    const loadBalancers = [balancer("lb2-internal", { ...rules("x", 9), ...frontends })];
    expect(chosen({ annotations }, config, withIds(start({ loadBalancers })))).toBe("lb2-internal");
  });

  test("a Service stays where its frontend is, although another load balancer is emptier", () => {
    const first = converge([intentOf({ nodes })], start(), config).observed;
    expect(
      plan([intentOf({ nodes })], { ...first, loadBalancers: [...first.loadBalancers, balancer("lb2")] }, config)
        .stages,
    ).toEqual([]);
  });
});

/** ARM fills in ids. */
const withIds = (observed: Observed): Observed => ({
  ...observed,
  loadBalancers: observed.loadBalancers.map((one) => ({
    ...one,
    id: `/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/${one.name}`,
  })),
});

describe("choosing among several load balancers", () => {
  const config = configOf({ name: "lb2", primaryVMSet: "vmss1" });
  const onLb2 = { "azure-load-balancer-configurations": "lb2" };
  const names = ({ loadBalancers }: Observed) => loadBalancers.map(({ name }) => name);

  test("an external Service with its own frontend migrates with its address", () => {
    const first = converge([intentOf({ nodes })], start(), config).observed;
    const { observed, rounds } = converge([intentOf({ nodes, annotations: onLb2 })], first, config);
    expect([names(observed), rounds]).toEqual([["lb2"], 2]);
    const address = (state: Observed) => state.publicIPs.find(({ name }) => name === "kubernetes-aweb")?.ipAddress;
    expect(address(observed)).toBe(address(first));
  });

  test("an external primary Service that shares its frontend is an error and does not migrate", () => {
    const pinned = { "azure-pip-name": "my-pip" };
    const other = { name: "zother", spec: { ports: [{ protocol: "TCP", port: 443, nodePort: 30_443 }] } };
    const first = converge(
      [intentOf({ nodes, annotations: pinned }), intentOf({ nodes, ...other, annotations: pinned })],
      start(),
      config,
    ).observed;
    const result = plan([intentOf({ nodes, annotations: onLb2 })], first, config);
    expect([result.results.get("default/web")?.problem?.code, result.stages]).toEqual(["MigrationBlocked", []]);
  });

  test("a local Service that changes its load balancer loses its pool on the old one", () => {
    const spec = { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 };
    const first = converge(
      [intentOf({ nodes, spec })],
      start({ endpointNodes: new Map([["default/web", ["node-1"]]]) }),
      config,
    ).observed;
    expect(
      first.loadBalancers[0]?.backendAddressPools?.map(({ name, loadBalancerBackendAddresses }) => [
        name,
        loadBalancerBackendAddresses?.map((one) => one.name),
      ]),
    ).toEqual([["default-web", ["node-1"]]]);
    const { observed } = converge([intentOf({ nodes, spec, annotations: onLb2 })], first, config);
    expect([names(observed), observed.loadBalancers[0]?.backendAddressPools?.map(({ name }) => name)]).toEqual([
      ["lb2"],
      ["default-web"],
    ]);
    const cluster = converge([intentOf({ nodes, annotations: onLb2 })], observed, config).observed;
    expect(cluster.loadBalancers[0]?.backendAddressPools?.map(({ name }) => name)).toEqual(["kubernetes"]);
  });

  test("the load balancer of a local Service stays while its public IP is created again", () => {
    const asks = (usage: string) => [
      intentOf({
        nodes,
        spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 },
        annotations: { "azure-pip-ip-tags": `FirstPartyUsage=${usage}` },
      }),
    ];
    const { observed } = converge(asks("/a"), start(), config);
    const writes = plan(asks("/b"), observed, config).stages.flatMap((stage) => stage.writes.map(({ kind }) => kind));
    expect(writes).toEqual(["put-load-balancer", "delete-public-ip"]);
  });

  test("a Service that turns internal loses its stale rules on the old load balancer", () => {
    const first = converge([intentOf({ nodes })], start(), config).observed;
    const annotations = { "azure-load-balancer-internal": "true" };
    expect(names(converge([intentOf({ nodes, annotations })], first, config).observed)).toEqual([
      "kubernetes-internal",
    ]);
  });
});

describe("nodes of several load balancers", () => {
  const placed = (config: Config, about: Partial<Observed>) => {
    const intents = ["a", "b"].map((name) => intentOf({ nodes, name }));
    const { observed } = converge(intents, start(about), config);
    return Object.fromEntries(
      observed.loadBalancers.map(({ name, backendAddressPools }) => [
        name,
        backendAddressPools?.[0]?.loadBalancerBackendAddresses?.map((one) => one.name ?? "").toSorted(),
      ]),
    );
  };
  const vmSets = new Map([
    ["node-0", "vmss0"],
    ["node-1", "vmss1"],
    ["node-2", "vmss9"],
  ]);

  test("primaryVMSet arrangement; the node of no set goes to the one with the fewest nodes", () => {
    expect(placed(configOf({ name: "lb2", primaryVMSet: "vmss1" }), { vmSets })).toEqual({
      kubernetes: ["node-0", "node-2"],
      lb2: ["node-1"],
    });
  });

  test("node selector places a node", () => {
    const labeled = nodes.map((node, index) =>
      index === 2 ? { ...node, metadata: { ...node.metadata, labels: { pool: "x" } } } : node,
    );
    const config = configOf({ name: "lb2", primaryVMSet: "vmss1", nodeSelector: { matchLabels: { pool: "x" } } });
    const intents = ["a", "b"].map((name) => intentOf({ nodes: labeled, name }));
    const { observed } = converge(intents, start({ vmSets, nodes: labeled }), config);
    const lb2 = observed.loadBalancers.find(({ name }) => name === "lb2");
    expect(lb2?.backendAddressPools?.[0]?.loadBalancerBackendAddresses?.map((one) => one.name)).toEqual([
      "node-1",
      "node-2",
    ]);
  });

  test("the pool of a local Service has the nodes with its endpoints, whatever their load balancer, and so have its rules for node ports", () => {
    const config = configOf({ name: "lb2", primaryVMSet: "vmss1" });
    const local = (nodePort: number) =>
      intentOf({
        nodes,
        name: "a",
        annotations: { "azure-disable-load-balancer-floating-ip": "true" },
        spec: {
          externalTrafficPolicy: "Local",
          healthCheckNodePort: 32_000,
          ports: [{ protocol: "TCP", port: 80, nodePort }],
        },
      });
    const others = ["kubernetes", "lb2"].map((name) =>
      intentOf({ nodes, name: `on-${name}`, annotations: { "azure-load-balancer-configurations": name } }),
    );
    const endpointNodes = new Map([["default/a", ["node-1"]]]);
    const { observed: before } = converge([local(30_080), ...others], start({ vmSets, endpointNodes }), config);
    const { observed } = converge(
      [local(30_443)],
      { ...before, services: others.map(({ service }) => service) },
      config,
    );
    const pools = observed.loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
    const own = pools.find(({ name }) => name === "default-a");
    expect(own?.loadBalancerBackendAddresses?.map(({ ipAddress }) => ipAddress)).toEqual(["10.240.0.5"]);
    const opened = (observed.securityGroup?.securityRules ?? []).filter(({ destinationPortRanges = [] }) =>
      destinationPortRanges.includes("30443"),
    );
    expect(opened.flatMap(destinationsOf)).toEqual(["10.240.0.5"]);
  });

  test("a load balancer that no node is assigned to takes all nodes", () => {
    const all = new Map(nodes.map(({ metadata }) => [metadata?.name ?? "", "vmss0"]));
    expect(placed(configOf({ name: "lb2", primaryVMSet: "vmss1" }), { vmSets: all })["lb2"]).toEqual([
      "node-0",
      "node-1",
      "node-2",
    ]);
  });

  test("a node that was excluded returns to the load balancer of its set", () => {
    const config = configOf({ name: "lb2", primaryVMSet: "vmss1" });
    const excluded = nodes.map((node, index) =>
      index === 1
        ? {
            ...node,
            metadata: { ...node.metadata, labels: { "node.kubernetes.io/exclude-from-external-load-balancers": "" } },
          }
        : node,
    );
    const membersOf = ({ loadBalancers }: Observed) =>
      loadBalancers.flatMap(({ name, backendAddressPools = [] }) =>
        (backendAddressPools[0]?.loadBalancerBackendAddresses ?? []).map((one) => `${name}: ${one.name}`),
      );
    const converged = (all: typeof nodes, from: Observed) =>
      converge(
        ["a", "b"].map((name) => intentOf({ nodes: all, name })),
        { ...from, nodes: all },
        config,
      ).observed;
    const before = converged(excluded, start({ vmSets }));
    expect(membersOf(before)).not.toContain("lb2: node-1");
    expect(membersOf(converged(nodes, before))).toContain("lb2: node-1");
  });

  test("a node that no load balancer takes is reported", () => {
    const selector = { nodeSelector: { matchLabels: { pool: "x" } } };
    const config = plannerConfigOf({
      loadBalancerBackendPoolConfigurationType: "nodeIP",
      multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0", ...selector }],
    });
    const { nodeEvents } = plan([intentOf({ nodes })], start({ vmSets }), config);
    expect([...nodeEvents].map(([name, events]) => [name, events[0]?.reason])).toEqual([
      ["node-1", "FailedToFindLoadBalancerForNode"],
      ["node-2", "FailedToFindLoadBalancerForNode"],
    ]);
  });
});

describe("label selectors", () => {
  const expression = (operator: string, ...values: readonly string[]) => ({
    matchExpressions: [{ key: "a", operator, values: [...values] }],
  });

  test.each([
    ["matchLabels", { matchLabels: { a: "b" } }, { a: "b", c: "d" }, true],
    ["matchLabels of another value", { matchLabels: { a: "b" } }, { a: "c" }, false],
    ["In", expression("In", "b", "c"), { a: "c" }, true],
    ["In without the label", expression("In", "b"), {}, false],
    ["NotIn", expression("NotIn", "b"), { a: "b" }, false],
    ["NotIn without the label", expression("NotIn", "b"), {}, true],
    ["Exists", expression("Exists"), { a: "" }, true],
    ["DoesNotExist", expression("DoesNotExist"), { a: "" }, false],
    ["an unknown operator matches nothing", expression("Like", "b"), { a: "b" }, false],
    ["a property of every object is not an operator", expression("constructor", "b"), { a: "b" }, false],
    ["an empty selector matches everything", {}, {}, true],
  ])("%s", (_title, selector, labels, expected) => {
    expect(matches(selector, labels)).toBe(expected);
  });
});

test("Services go where the fewest ports are, those planned with them included", () => {
  const port = (number: number) => ({ name: `p${number}`, protocol: "TCP", port: number, nodePort: 30_000 + number });
  const of = (name: string, count: number) =>
    intentOf({ name, nodes, spec: { ports: Array.from({ length: count }, (_, index) => port(index + 1)) } });
  const intents = [of("a", 5), of("b", 1), of("c", 1)];
  const { stages } = plan(intents, start(), configOf({ name: "lb2", primaryVMSet: "vmss1" }));
  const puts = stages.flatMap(({ writes }) => writes.filter(({ kind }) => kind === "put-load-balancer"));
  expect(puts.map(({ name, services }) => [name, services])).toEqual([
    ["kubernetes", ["default/a"]],
    ["lb2", ["default/b", "default/c"]],
  ]);
});

test("a pool that still has network interfaces gets no addresses before they have left it", () => {
  const config = configOf({ name: "lb2", primaryVMSet: "vmss1" });
  const intents = [intentOf({ nodes, annotations: { "azure-load-balancer-configurations": "kubernetes" } })];
  const { observed } = converge(intents, start(), config);
  const [one = {}] = observed.loadBalancers;
  const [pool = {}] = one.backendAddressPools ?? [];
  const { loadBalancerBackendAddresses: _addresses, ...empty } = pool;
  const loadBalancers = [{ ...one, backendAddressPools: [empty] }];
  const member = { ipConfigurationId: "/nic0/ipconfig0", node: "node-0", complete: true, gone: false };
  const poolMembers = new Map([[`${one.id}/backendAddressPools/${pool.name}`.toLowerCase(), [member]]]);
  const { stages } = plan(intents, { ...observed, loadBalancers, poolMembers }, config);
  expect(stages.flatMap(({ writes }) => writes.map(({ kind }) => kind))).toEqual(["release-pools"]);
});
