import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { annotations, type CloudContext, keyOf, type Service } from "cloud-controller-host/sdk";

import { objectsAt } from "../../../../../plugins/azure-cloud/json.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { type Cluster, openCluster, serviceOf, type ServiceOptions } from "../cluster.ts";

setDefaultTimeout(120_000);

const group = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const addresses = { loadBalancerBackendPoolConfigurationType: "nodeIP" };
const external = {};
const internal = { annotations: { "azure-load-balancer-internal": "true" } };
const linked = { annotations: { ...internal.annotations, "azure-pls-create": "true" } };

type Settings = Readonly<Record<string, unknown>>;

interface Change {
  readonly key: string;
  readonly to: Settings;
  readonly from?: Settings;
  /** What a flag of the process decides. */
  readonly flags?: Partial<CloudContext>;
  readonly services?: ServiceOptions;
  /** What a reload is refused for; undefined where nothing would go. */
  readonly lost: RegExp | undefined;
  /** What the syncs of the Services fail with after a restart; undefined where they succeed and change nothing. */
  readonly failure: RegExp | undefined;
}

const byConfig = /would be removed within 600 s, because the config places them elsewhere/u;
const other = { clusterName: "other" };

const changes: readonly Change[] = [
  {
    key: "--cluster-name",
    to: {},
    flags: other,
    lost: /^frontends a[0-9a-f]{31} of load balancer kubernetes$/u,
    failure: byConfig,
  },
  {
    key: "--cluster-name (internal)",
    to: {},
    flags: other,
    services: internal,
    lost: /^frontends \S+ of load balancer kubernetes-internal$/u,
    failure: byConfig,
  },
  {
    key: "--cluster-name beside loadBalancerName",
    from: { loadBalancerName: "lb" },
    to: {},
    flags: other,
    lost: /^frontend addresses a\S+ kubernetes-a\S+ of load balancer lb$/u,
    failure: byConfig,
  },
  {
    key: "loadBalancerName",
    to: { loadBalancerName: "other" },
    lost: /^frontends \S+ of load balancer kubernetes$/u,
    failure: byConfig,
  },
  {
    key: "loadBalancerName (private link)",
    to: { loadBalancerName: "other" },
    services: linked,
    lost: /^private link services pls-\S+ of resource group rg0$/u,
    failure: byConfig,
  },
  {
    key: "loadBalancerResourceGroup",
    to: { loadBalancerResourceGroup: "rg1" },
    lost: /^addresses \S+ of Service default\/a of resource group rg1/u,
    failure: /ResourceGroupNotFound/u,
  },
  {
    key: "resourceGroup",
    to: { resourceGroup: "rg1" },
    lost: /^addresses \S+ of Service default\/a of resource group rg1/u,
    failure: /was not found/u,
  },
  {
    key: "subscriptionId",
    to: { subscriptionId: "sub1" },
    lost: /SubscriptionNotFound/u,
    failure: /SubscriptionNotFound/u,
  },
  {
    key: "networkResourceSubscriptionID",
    to: { networkResourceSubscriptionID: "sub1" },
    lost: /SubscriptionNotFound/u,
    failure: /SubscriptionNotFound/u,
  },
  {
    key: "subnetName",
    to: { subnetName: "subnet1" },
    services: internal,
    lost: undefined,
    failure: undefined,
  },
  { key: "vnetName", to: { vnetName: "other" }, services: internal, lost: undefined, failure: /failed to get subnet/u },
  {
    key: "vnetResourceGroup",
    to: { vnetResourceGroup: "other" },
    services: internal,
    lost: undefined,
    failure: /failed to get subnet/u,
  },
  {
    key: "securityGroupName",
    to: { securityGroupName: "other" },
    lost: undefined,
    failure: /security group other was not found/u,
  },
  {
    key: "securityGroupResourceGroup",
    to: { securityGroupResourceGroup: "rg1" },
    lost: undefined,
    failure: /security group nsg0 was not found/u,
  },
  {
    key: "multipleStandardLoadBalancerConfigurations",
    from: addresses,
    to: { multipleStandardLoadBalancerConfigurations: [{ name: "lb1", primaryVMSet: "vmss0" }] },
    lost: undefined,
    failure: /no configuration named kubernetes/u,
  },
  {
    key: "loadBalancerBackendPoolConfigurationType",
    to: addresses,
    lost: /^members by interface vmss0000000 of backend pool kubernetes of load balancer kubernetes$/u,
    failure: byConfig,
  },
  {
    key: "privateLinkServiceResourceGroup",
    to: { privateLinkServiceResourceGroup: "rg1" },
    services: linked,
    lost: /^private links of Service default\/a of resource group rg1/u,
    failure: /rg1/u,
  },
  { key: "vmType", to: { vmType: "standard" }, lost: undefined, failure: undefined },
  {
    key: "primaryScaleSetName",
    from: { primaryScaleSetName: "vmss0" },
    to: { primaryScaleSetName: "other" },
    lost: undefined,
    failure: undefined,
  },
];

/** What carries traffic. */
const traffic = ({ world }: Cluster): unknown =>
  world.simulator
    .resources()
    .filter(({ id }) => id.startsWith(`${group}/`) && !/\/(?:networkInterfaces|virtualNetworks)\//u.test(id))
    .map(({ id, properties }) => [
      id,
      ["frontendIPConfigurations", "loadBalancingRules", "backendAddressPools", "securityRules"].map((list) =>
        objectsAt(properties, list).map((item) => JSON.stringify(item)),
      ),
    ]);

async function openWith({ from = {}, services: options = external }: Change) {
  const cluster = await openCluster(2);
  const network = cluster.world.simulator.get(`${group}/virtualNetworks/vnet0`);
  if (network === undefined) throw new Error("missing: virtual network");
  const second = { name: "subnet1", properties: { addressPrefixes: ["10.240.128.0/17"] } };
  const subnets = [...objectsAt(network.properties, "subnets"), second];
  cluster.world.simulator.put(network.id, { ...network, properties: { ...network.properties, subnets } });
  const services: readonly Service[] = ["a", "b", "c"].map((name) => serviceOf(name, options));
  const first = await cluster.start(from);
  for (const one of services) await cluster.ensure(first, one);
  return { cluster, services };
}

for (const change of changes)
  describe(`a changed ${change.key}`, () => {
    const { from, to, flags = {}, lost, failure } = change;

    test(
      lost === undefined
        ? "removes nothing when it is reloaded"
        : "is refused when it is reloaded, with what it would remove",
      async () => {
        const { cluster } = await openWith(change);
        await using _ = cluster;
        const before = cluster.writes().length;
        const next = await cluster.start({ ...from, ...to }, undefined, flags);
        const found = await next.balancers
          .unrequestedRemovals([])
          .catch((error: unknown) => ({ removals: [String(error)] }));
        if (lost === undefined) expect(found?.removals ?? []).toEqual([]);
        else expect(found?.removals).toContainEqual(expect.stringMatching(lost));
        expect(cluster.writes()).toHaveLength(before);
      },
    );

    test("changes no traffic of three Services after a restart", async () => {
      const { cluster, services } = await openWith(change);
      await using _ = cluster;
      const before = traffic(cluster);
      const next = await cluster.start({ ...from, ...to }, undefined, flags);
      const errors = await Promise.all(services.map((one) => errorOf(cluster.ensure(next, one))));
      const text = errors.map((error) => (error instanceof Error ? error.message : ""));
      expect(text).toEqual(services.map(() => (failure === undefined ? "" : expect.stringMatching(failure))));
      expect(traffic(cluster)).toEqual(before);
    });
  });

describe("a Service whose frontend a shard has left on its own load balancer", () => {
  const { metadata, ...rest } = serviceOf("of-the-shard");
  const marked = {
    ...rest,
    metadata: { ...metadata, annotations: { [annotations.servedBy]: "a-lease-of-the-shard" } },
  };

  test.each([
    ["moves", "kubernetes-blue", "marks a Service", [marked], undefined],
    ["moves from an internal one", "kubernetes-blue", "marks a Service", [marked], "internal"],
    ["stays", "kubernetes-blue", "marks none", [], undefined],
    ["stays", "kubernetesblue", "marks a Service, and has another name", [marked], undefined],
  ] as const)("%s: from %s, where that shard %s", async (what, loadBalancerName, _shard, others, kind) => {
    await using cluster = await openCluster(1);
    const web = serviceOf("web", kind === "internal" ? internal : external);
    for (const one of others) cluster.services.set(keyOf(one), one);
    await cluster.ensure(await cluster.start({ loadBalancerName }), web);
    const error = await errorOf(cluster.ensure(await cluster.start(), web));
    if (what === "stays") expect(error).toMatchObject({ message: expect.stringMatching(byConfig) });
    else expect(error).toBeUndefined();
  });

  test("a Service leaves the load balancer of a shard that has handed it over, where no other one is marked", async () => {
    await using cluster = await openCluster(1);
    const shard = await cluster.start({ loadBalancerName: "kubernetes-blue" });
    await cluster.ensure(shard, marked);
    const own = await cluster.start();
    await cluster.ensure(own, serviceOf("of-the-shard"));
    expect(cluster.writes().slice(-3)).toContain("PUT loadBalancers/kubernetes");
  });
});

describe("twelve Services that are labeled for a shard", () => {
  const servedBy =
    (lease: string, labels: Readonly<Record<string, string>>, options = {}) =>
    (name: string) => {
      const { metadata, ...rest } = serviceOf(name, options);
      const marks = lease === "" ? {} : { [annotations.servedBy]: lease };
      return { ...rest, metadata: { ...metadata, labels, annotations: { ...metadata?.annotations, ...marks } } };
    };
  const names = Array.from({ length: 12 }, (_, index) => `web-${index}`);
  const blue = { own: "lease-of-blue", isAlive: () => Promise.resolve(true) };

  test.each([
    ["marks them", "lease", external, false],
    ["marks none", "", external, false],
    ["marks them, to a process that starts once they have its mark", "lease", external, true],
    ["marks them, to a process that starts once they have its mark, internal ones", "lease", internal, true],
  ] as const)(
    "twelve Services that are labeled for a shard move from a deployment that %s",
    async (_what, lease, options, areMarked) => {
      await using cluster = await openCluster(1);
      const former = await cluster.start(addresses);
      for (const one of names.map(servedBy(lease, {}, options))) await cluster.ensure(former, one);
      const moved = names.map(servedBy(blue.own, { shard: "blue" }, options));
      if (areMarked)
        for (const one of moved) cluster.services.set(keyOf(one), { ...cluster.services.get(keyOf(one)), ...one });
      const shard = await cluster.start(addresses, undefined, { shard: "blue", shards: blue });
      await Promise.all(moved.map((one) => cluster.ensure(shard, one)));
      const name = options === internal ? "kubernetes-blue-internal" : "kubernetes-blue";
      const balancer = cluster.world.simulator.get(`${group}/loadBalancers/${name}`);
      expect(objectsAt(balancer?.properties ?? {}, "frontendIPConfigurations")).toHaveLength(12);
      expect(shard.warnings()).toEqual([]);
    },
  );

  test.each([
    ["", { shard: "blue" }],
    [", also once another label of theirs changes", { shard: "blue", tier: "web" }],
  ])(
    "twelve Services of a shard stay on its load balancer if it starts with another cluster name%s",
    async (_what, labels) => {
      await using cluster = await openCluster(1);
      const shard = { shard: "blue", shards: blue };
      const first = await cluster.start(addresses, undefined, shard);
      for (const one of names.map(servedBy(blue.own, { shard: "blue" }))) await cluster.ensure(first, one);
      const next = await cluster.start(addresses, undefined, { ...shard, ...other });
      const services = names.map(servedBy(blue.own, labels));
      const errors = await Promise.all(services.map((one) => errorOf(cluster.ensure(next, one))));
      const texts = errors.map((error) => (error instanceof Error ? error.message : ""));
      // One alone is below the limit.
      expect(texts.filter((text) => text.startsWith("11 of 12 frontends and 11 of 12 rules"))).toHaveLength(11);
    },
  );
});
