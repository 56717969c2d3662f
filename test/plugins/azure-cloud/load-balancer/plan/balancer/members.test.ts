import { describe, expect, test } from "bun:test";

import type { Observed, PoolMember } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { Write } from "../../../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, nodesNamed, world } from "../../world.ts";

const config = plannerConfigOf();
const addresses = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
const nodes = nodesNamed("node-0", "node-1", "node-2");
const intent = (list = nodes) => intentOf({ nodes: list });
const poolId =
  "/subscriptions/sub0/resourcegroups/rg0/providers/microsoft.network/loadbalancers/kubernetes/backendaddresspools/kubernetes";
const created = converge([intent()], world({ nodes }), config).observed;
const createdByAddress = converge([intent()], world({ nodes }), addresses).observed;

const labeled = (name: string, labels: Readonly<Record<string, string>>) =>
  nodes.map((node) =>
    node.metadata?.name === name ? { ...node, metadata: { ...node.metadata, labels: { ...labels } } } : node,
  );

const member = (node: string, more: Partial<PoolMember> = {}): PoolMember => ({
  ipConfigurationId: `/instances/${node}/ipConfigurations/ipconfig0`,
  node,
  gone: false,
  complete: true,
  ...more,
});

const withMembers = (...members: readonly PoolMember[]): Observed => ({
  ...created,
  poolMembers: new Map([[poolId, members]]),
});

const updateOf = (observed: Observed, list = nodes) =>
  plan([intent(list)], observed, config)
    .stages.flatMap(({ writes }) => writes)
    .find((write: Write) => write.kind === "update-members");

const changes = (observed: Observed, list = nodes) => {
  const { join = [], leave = [] } = updateOf(observed, list) ?? {};
  return { join, leave: leave.map((id) => id.split("/")[2]) };
};

const excluded = { "node.kubernetes.io/exclude-from-external-load-balancers": "" };

describe("IP configurations to remove from a pool", () => {
  const all = [member("node-0"), member("node-1"), member("node-2")];

  test("not-found and excluded removed", () => {
    const some = {
      ...withMembers(member("node-0"), member("node-1"), member("x", { gone: true })),
      nodes: labeled("node-1", excluded),
    };
    expect(changes(some, nodes.slice(0, 1)).leave).toEqual(["node-1", "x"]);
  });

  test("an excluded node leaves the pool of a load balancer with a configured name", () => {
    const named = plannerConfigOf({ vmType: "standard", loadBalancerName: "edge" });
    const { observed } = converge([intent()], world({ nodes }), named);
    const id = poolId.replace("/loadbalancers/kubernetes/", "/loadbalancers/edge/");
    expect(observed.poolMembers.get(id)?.map(({ node }) => node)).toEqual(["node-0", "node-1", "node-2"]);
    const excluding = { ...observed, nodes: labeled("node-1", excluded) };
    expect(plan([intent(nodes)], excluding, named).stages.flatMap(({ writes }) => writes)).toMatchObject([
      {
        kind: "update-members",
        loadBalancer: "edge",
        join: [],
        leave: ["/instances/node-1/ipConfigurations/ipconfig0"],
      },
    ]);
  });

  test("excluded skipped when the pool would be empty", () => {
    const some = { ...withMembers(member("node-1")), nodes: labeled("node-1", excluded) };
    expect(changes(some, []).leave).toEqual([]);
  });

  test("all not-found removed even if empty", () => {
    expect(changes(withMembers(member("x", { gone: true })), []).leave).toEqual(["x"]);
  });

  test("an instance that could not be resolved stays", () => {
    expect(changes(withMembers(...all, { ...member("x"), node: undefined })).leave).toEqual([]);
  });

  test.each([
    ["unmanaged", { "kubernetes.azure.com/managed": "FALSE" }],
    ["of another resource group", { "kubernetes.azure.com/resource-group": "elsewhere" }],
    ["excluded", excluded],
  ])("a node that is %s leaves and does not join", (_what, labels) => {
    const list = labeled("node-2", labels);
    expect(changes({ ...withMembers(...all), nodes: list }, list)).toEqual({ join: [], leave: ["node-2"] });
    expect(changes({ ...withMembers(...all.slice(0, 2)), nodes: list }, list)).toEqual({ join: [], leave: [] });
  });

  test("a node of the cluster's own resource group, in any case, stays", () => {
    const list = labeled("node-2", { "kubernetes.azure.com/resource-group": "RG0" });
    expect(changes({ ...withMembers(...all), nodes: list }, list)).toEqual({ join: [], leave: [] });
  });

  test("a node whose object was deleted leaves", () => {
    expect(changes({ ...withMembers(...all), deletedNodes: new Set(["node-2"]) }, nodes.slice(0, 2)).leave).toEqual([
      "node-2",
    ]);
  });
});

describe("joining pools", () => {
  test("only nodes that are not complete members join", () => {
    expect(
      changes(withMembers(member("node-0"), member("NODE-1"), member("node-2", { complete: false }))).join,
    ).toEqual(["node-2"]);
  });

  test("a node that was excluded or deleted after its intent was made does not join", () => {
    const some = withMembers(member("node-0"), member("node-1"));
    expect(changes(some).join).toEqual(["node-2"]);
    expect(changes({ ...some, nodes: labeled("node-2", excluded) }).join).toEqual([]);
    expect(changes({ ...some, deletedNodes: new Set(["node-2"]) }).join).toEqual([]);
  });

  test("control-plane nodes do not join unless the config lets them", () => {
    const list = labeled("node-2", { "node-role.kubernetes.io/control-plane": "" });
    const join = (used: typeof config) =>
      plan([intent(list)], { ...withMembers(member("node-0"), member("node-1")), nodes: list }, used).stages.map(
        ({ name }) => name,
      );
    expect(join(config)).toEqual([]);
    expect(join(plannerConfigOf({ excludeMasterFromStandardLB: false }))).toEqual(["members"]);
  });

  test("an interface in the pool of another load balancer is left alone; that of the -internal one makes no difference", () => {
    const inPool = (balancer: string): Observed => {
      const other = poolId.replace("/kubernetes/", `/${balancer}/`);
      return {
        ...created,
        poolMembers: new Map([
          [poolId, [member("node-0"), member("node-1")]],
          [other, [member("node-2")]],
        ]),
      };
    };
    expect(changes(inPool("theirs")).join).toEqual([]);
    expect(changes(inPool("kubernetes-internal")).join).toEqual(["node-2"]);
  });

  test("one pass over a pool serves every Service", () => {
    const intents = ["a", "b", "c"].map((name) => intentOf({ name, nodes }));
    const writes = plan(intents, world({ nodes }), config).stages.flatMap((stage) => stage.writes);
    const updates = writes.filter(({ kind }) => kind === "update-members");
    expect(updates.map(({ services }) => services)).toEqual([["default/a", "default/b", "default/c"]]);
  });
});

test("a local Service has the pool of all where the cluster has one load balancer", () => {
  const local = intentOf({ nodes, spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 } });
  const { loadBalancers } = converge([local], world({ nodes }), addresses).observed;
  const pools = loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
  expect(pools.map(({ name }) => name)).toEqual(["kubernetes"]);
});

describe("pools by node IP", () => {
  const names = (observed: Observed) =>
    observed.loadBalancers[0]?.backendAddressPools?.[0]?.loadBalancerBackendAddresses?.map(({ name }) => name);

  test("adds missing node IPs, removes stale ones, skips the master and sets the VNet", () => {
    const list = labeled("node-0", { "kubernetes.io/role": "master" });
    const { observed } = converge([intent(list)], { ...createdByAddress, nodes: list }, addresses);
    expect(names(observed)).toEqual(["node-1", "node-2"]);
    expect(observed.loadBalancers[0]?.backendAddressPools?.[0]?.virtualNetwork?.id).toEndWith("/virtualNetworks/vnet0");
    expect(names(converge([intent()], observed, addresses).observed)).toEqual(["node-1", "node-2", "node-0"]);
  });

  /** Nodes that report a second address of each family, such as that of another network interface. */
  const multiHomed = nodes.map((node, index) => ({
    ...node,
    status: {
      addresses: [
        ...(node.status?.addresses ?? []),
        { type: "InternalIP", address: `10.250.0.${index}` },
        { type: "InternalIP", address: `fd01::${index}` },
      ],
    },
  }));

  test("a pool has one address of each node with several, the first of its family", () => {
    const dual = intentOf({ nodes: multiHomed, spec: { ipFamilies: ["IPv4", "IPv6"] } });
    const members = ({ loadBalancers }: Observed) =>
      loadBalancers[0]?.backendAddressPools?.map(({ loadBalancerBackendAddresses = [] }) =>
        loadBalancerBackendAddresses.map(({ ipAddress }) => ipAddress),
      );
    const first = [
      ["10.240.0.4", "10.240.0.5", "10.240.0.6"],
      ["fd00::4", "fd00::5", "fd00::6"],
    ];
    const { observed } = converge([dual], world({ nodes: multiHomed }), addresses);
    expect(members(observed)).toEqual(first);
    const loadBalancers = observed.loadBalancers.map((one) => ({
      ...one,
      backendAddressPools: (one.backendAddressPools ?? []).map(({ loadBalancerBackendAddresses = [], ...pool }) => ({
        ...pool,
        loadBalancerBackendAddresses: [
          ...loadBalancerBackendAddresses,
          { name: "another", ipAddress: pool.name?.endsWith("IPv6") ? "fd01::0" : "10.250.0.0" },
        ],
      })),
    }));
    expect(members(converge([dual], { ...observed, loadBalancers }, addresses).observed)).toEqual(first);
  });

  test("a removal that would empty the pool leaves it unchanged", () => {
    expect(names(converge([intent([])], createdByAddress, addresses).observed)).toEqual(["node-0", "node-1", "node-2"]);
  });

  test("moves the VNet to pool level", () => {
    const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/virtualNetworks/vnet0";
    const loadBalancers = createdByAddress.loadBalancers.map((one) => ({
      ...one,
      backendAddressPools: (one.backendAddressPools ?? []).map(({ virtualNetwork: _network, ...pool }) => ({
        ...pool,
        loadBalancerBackendAddresses: (pool.loadBalancerBackendAddresses ?? []).map((each) => ({
          ...each,
          virtualNetwork: { id },
        })),
      })),
    }));
    const { observed } = converge([intent()], { ...createdByAddress, loadBalancers }, addresses);
    expect(observed.loadBalancers[0]?.backendAddressPools).toEqual(
      createdByAddress.loadBalancers[0]?.backendAddressPools ?? [],
    );
  });

  test("removes interfaces before it adds addresses", () => {
    const first = plan([intent()], created, addresses);
    expect(first.stages.flatMap(({ writes }) => writes.map(({ kind }) => kind))).toEqual(["release-pools"]);
    expect(first.results.get("default/web")?.settled).toBe(false);
    expect(names(converge([intent()], created, addresses).observed)).toEqual(["node-0", "node-1", "node-2"]);
  });

  test("drops IP entries and clears the VNet", () => {
    const [pool] = converge([intent()], createdByAddress, config).observed.loadBalancers[0]?.backendAddressPools ?? [];
    expect(pool).not.toHaveProperty("virtualNetwork");
    expect(pool).not.toHaveProperty("loadBalancerBackendAddresses");
  });
});

describe("preconfigured pools", () => {
  const joins = (types: string, internal: boolean): boolean => {
    const used = plannerConfigOf({ preConfiguredBackendPoolLoadBalancerTypes: types });
    const shape = intentOf({ nodes, annotations: internal ? { "azure-load-balancer-internal": "true" } : {} });
    const built = converge([shape], world({ nodes }), config).observed;
    const empty = { ...built, poolMembers: new Map() };
    return plan([shape], empty, used).stages.some(({ name }) => name === "members");
  };

  test.each([
    ["all", false, true],
    ["all", true, true],
    ["external", false, true],
    ["external", true, false],
    ["internal", false, false],
    ["internal", true, true],
    ["", false, false],
    ["", true, false],
  ])(
    "the type %p makes the pool of a Service that is internal (%p) preconfigured: %p",
    (types, internal, preConfigured) => {
      expect(joins(types, internal)).toBe(!preConfigured);
    },
  );

  test("a load balancer with pre-configured pools is not deleted with its last Service", () => {
    const used = plannerConfigOf({ preConfiguredBackendPoolLoadBalancerTypes: "all" });
    const { observed } = converge([{ ...intent(), action: "delete" }], created, used);
    expect(observed.loadBalancers).toEqual(created.loadBalancers);
    expect(observed.publicIPs).toEqual(created.publicIPs);
    expect(observed.poolMembers.get(poolId)?.length).toBe(3);
  });
});
