import { describe, expect, setDefaultTimeout, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { objectsAt } from "../../../../../plugins/azure-cloud/json.ts";
import type { Resource } from "../../../../../plugins/azure-cloud/simulator/state/store.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { countOf } from "../../world.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf, sliceName } from "../cluster.ts";

setDefaultTimeout(120_000);

const addresses = { loadBalancerBackendPoolConfigurationType: "nodeIP" };
const internal = { "azure-load-balancer-internal": "true" };

/** What carries traffic, each part as one line. */
const parts = ({ world }: Cluster): readonly string[] =>
  world.simulator
    .resources()
    .filter(({ id }) => /\/(?:loadBalancers|networkSecurityGroups|privateLinkServices|publicIPAddresses)\//u.test(id))
    .flatMap(({ id, properties }) => [
      id,
      ...["frontendIPConfigurations", "loadBalancingRules", "probes", "securityRules"].flatMap((list) =>
        objectsAt(properties, list).map((item) => `${id} ${list} ${String(item["name"])}`),
      ),
      ...objectsAt(properties, "backendAddressPools").flatMap((pool) => {
        const members = { ...pool, ...Object(pool["properties"]) };
        return ["backendIPConfigurations", "loadBalancerBackendAddresses"].flatMap((list) =>
          objectsAt(members, list).map((item) => `${id} ${list} ${JSON.stringify(item)}`),
        );
      }),
    ]);

const missing = (before: readonly string[], cluster: Cluster): readonly string[] => {
  const now = new Set(parts(cluster));
  return before.filter((part) => !now.has(part));
};

/** Writes that a wrong answer hides are waited for, for up to a minute. */
const clock = fast(100);

/** 12 public Services, 12 internal ones of which one has a private link service, and 12 nodes. */
async function served(config: Readonly<Record<string, unknown>>) {
  const cluster = await openCluster(12);
  const generation = await cluster.start({ ...config, disableAPICallCache: true }, clock);
  const services = Array.from({ length: 24 }, (_, index) =>
    serviceOf(`s${index}`, {
      annotations: { ...(index >= 12 && internal), ...(index === 12 && { "azure-pls-create": "true" }) },
    }),
  );
  await Promise.all(services.map((one) => cluster.ensure(generation, one)));
  return { cluster, generation, services };
}

const ensureAll = (cluster: Cluster, generation: Generation, services: readonly Service[]) =>
  Promise.all(services.map((one) => errorOf(cluster.ensure(generation, one))));

const balancing = ["loadBalancers", "publicIPAddresses", "privateLinkServices"];
const machines = ["networkInterfaces", "virtualMachines", "virtualMachineScaleSets"];
const shortened = { empty: () => false, "cut off": (_one: unknown, index: number) => index % 2 === 0 };

for (const [mode, config, types] of [
  ["interfaces", {}, [...balancing, ...machines]],
  ["addresses", addresses, balancing],
] as const)
  describe(`a wrong answer of Azure about pools of ${mode}`, () => {
    for (const type of types)
      for (const [how, keeps] of Object.entries(shortened))
        test(`a list of ${type} that is ${how} removes nothing, in one process and after a restart`, async () => {
          const { cluster, generation, services } = await served(config);
          await using _ = cluster;
          const before = parts(cluster);
          const isOfType = ({ id }: Resource): boolean => id.split("/").at(-2) === type;
          cluster.world.simulator.changeLists((all) => [
            ...all.filter((one) => !isOfType(one)),
            ...all.filter(isOfType).filter(keeps),
          ]);
          await ensureAll(cluster, generation, [serviceOf("new"), ...services]);
          expect(missing(before, cluster)).toEqual([]);
          const next = await cluster.start({ ...config, disableAPICallCache: true }, clock);
          await ensureAll(cluster, next, services);
          expect(missing(before, cluster)).toEqual([]);
          cluster.world.simulator.changeLists();
          expect(await ensureAll(cluster, next, services)).toEqual(services.map(() => undefined));
          expect(missing(before, cluster)).toEqual([]);
        });

    for (const type of ["subnets", "networkSecurityGroups", ...balancing])
      test(`${type} that neither a list nor a read by name shows lose nothing, in one process and after a restart`, async () => {
        const { cluster, generation, services } = await served(config);
        await using _ = cluster;
        const { simulator } = cluster.world;
        const before = parts(cluster);
        const byName = new RegExp(`/${type}/[^/]+$`, "u");
        simulator.changeLists((all) => all.filter(({ id }) => !byName.test(id)));
        simulator.failNext({ method: "GET", path: byName }, { status: 404, code: "ResourceNotFound", times: 10_000 });
        simulator.clearLog();
        const linked = { ...internal, "azure-pls-create": "true" };
        const added = [serviceOf("public"), serviceOf("internal", { annotations: linked })];
        await ensureAll(cluster, generation, [...added, ...services]);
        expect(missing(before, cluster)).toEqual([]);
        const next = await cluster.start({ ...config, disableAPICallCache: true }, clock);
        await ensureAll(cluster, next, services);
        expect(missing(before, cluster)).toEqual([]);
        expect(simulator.log.some(({ method, path }) => method === "GET" && byName.test(path))).toBe(true);
      });

    test("a security group without its rules in every read is not overwritten", async () => {
      const { cluster, generation, services } = await served(config);
      await using _ = cluster;
      const before = parts(cluster);
      const bare = (one: Resource): Resource =>
        one.id.includes("/networkSecurityGroups/")
          ? { ...one, properties: { ...one.properties, securityRules: [] } }
          : one;
      cluster.world.simulator.changeLists((all) => all.map(bare));
      cluster.world.simulator.changeGets(bare);
      cluster.world.simulator.clearLog();
      const syncs = ensureAll(cluster, generation, [serviceOf("new"), ...services]);
      await eventually(
        "it was read again",
        () => countOf(cluster.world.simulator, "/networkSecurityGroups/nsg0") >= 3,
        30_000,
      );
      expect(missing(before, cluster)).toEqual([]);
      cluster.world.simulator.changeLists();
      cluster.world.simulator.changeGets();
      await syncs;
      expect(await ensureAll(cluster, generation, services)).toEqual(services.map(() => undefined));
      expect(missing(before, cluster)).toEqual([]);
    });
  });

const several = (names: readonly string[], more: object = {}) => ({
  ...addresses,
  multipleStandardLoadBalancerConfigurations: names.map((name, index) => ({
    name,
    primaryVMSet: `set${index}`,
    ...more,
  })),
});

describe("a wrong answer of the API server", () => {
  for (const count of [30, 20])
    test(`a list of nodes that lacks ${count} of 30 removes no member`, async () => {
      await using cluster = await openCluster(30);
      const generation = await cluster.start(addresses);
      await cluster.ensure(generation, serviceOf("web"));
      const before = parts(cluster);
      for (const { metadata } of cluster.nodes.slice(0, count)) cluster.hidden.add(metadata?.name ?? "");
      await errorOf(cluster.ensure(generation, serviceOf("new")));
      await errorOf(cluster.ensure(generation, serviceOf("web")));
      expect(missing(before, cluster)).toEqual([]);
    });

  for (const left of [0, 5])
    test(`a list of EndpointSlices that has ${left} of 30 endpoints removes no member of a local Service's pool, until they are gone`, async () => {
      await using cluster = await openCluster(30);
      const generation = await cluster.start(several(["kubernetes"]));
      const web = serviceOf("web", { spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 } });
      const names = cluster.nodes.map(({ metadata }) => metadata?.name ?? "");
      cluster.setEndpoints(web, names);
      await cluster.ensure(generation, web);
      const before = parts(cluster);
      const [whole] = cluster.slices;
      if (whole === undefined) throw new Error("missing: slice");
      cluster.hidden.add(sliceName(web));
      cluster.slices.push({
        ...whole,
        metadata: { ...whole.metadata, name: "part" },
        endpoints: (whole.endpoints ?? []).slice(0, left),
      });
      await errorOf(cluster.ensure(generation, web));
      expect(missing(before, cluster)).toEqual([]);
      cluster.slices.splice(0, 1);
      expect(await errorOf(cluster.ensure(generation, web))).toBeUndefined();
      expect(missing(before, cluster)).toHaveLength(30 - left);
    });

  test("an empty list of namespaces moves no Service that a namespace's labels have placed", async () => {
    await using cluster = await openCluster(2);
    const namespaceSelector = { serviceNamespaceSelector: { matchLabels: { team: "a" } } };
    const config = {
      ...addresses,
      multipleStandardLoadBalancerConfigurations: [
        { name: "kubernetes", primaryVMSet: "set0", ...namespaceSelector },
        { name: "other", primaryVMSet: "set1" },
      ],
    };
    cluster.namespaces.push({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "default", labels: { team: "a" } },
    });
    const generation = await cluster.start(config);
    const services = Array.from({ length: 12 }, (_, index) => serviceOf(`s${index}`));
    await Promise.all(services.map((one) => cluster.ensure(generation, one)));
    const before = parts(cluster);
    expect(before.filter((part) => part.includes("loadBalancers/kubernetes frontendIPConfigurations"))).toHaveLength(
      12,
    );
    cluster.hidden.add("default");
    await ensureAll(cluster, generation, services);
    expect(missing(before, cluster)).toEqual([]);
  });
});
