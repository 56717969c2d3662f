import { expect, test } from "bun:test";

import type { Explanation } from "cloud-controller-host/sdk";

import { objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { fast, openCluster, serviceOf } from "./cluster.ts";

const balancerPath = "/providers/Microsoft.Network/loadBalancers/kubernetes-internal";
const linkPath = "/providers/Microsoft.Network/privateLinkServices/theirs";

/** Titles at any depth. */
const titlesIn = (all: readonly Explanation[] = []): readonly string[] =>
  all.flatMap(({ title, children }) => [title, ...titlesIn(children)]);

test("a private link service is explained below its own frontends, however many it has, and below no other", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({}, fast(100));
  const internal = { annotations: { "azure-load-balancer-internal": "true" } };
  const services = ["a", "b", "c"].map((name) => serviceOf(name, internal));
  for (const service of services) await cluster.ensure(generation, service);
  const ids = objectsAt(simulator.get(balancerPath)?.properties, "frontendIPConfigurations").map((one) =>
    stringAt(one, "id"),
  );
  simulator.put(linkPath, {
    location: "eastus",
    properties: {
      loadBalancerFrontendIpConfigurations: ids.slice(0, 2).map((id) => ({ id })),
      ipConfigurations: [{ name: "theirs", properties: { subnet: { id: "/subnets/subnet0" } } }],
    },
  });
  await using cloud = await cluster.world.create();
  const explained = await Promise.all(
    services.map((service) => cloud.explain?.service?.(service, cluster.nodes, [...cluster.services.values()])),
  );
  const links = explained.map((one) => titlesIn(one).filter((title) => title.startsWith("private link service")));
  expect(links).toEqual([["private link service theirs"], ["private link service theirs"], []]);
});

test("a rule is explained with its own probe among those of other Services", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start({}, fast(100));
  const services = ["a", "b"].map((name) => serviceOf(name));
  for (const service of services) await cluster.ensure(generation, service);
  await using cloud = await cluster.world.create();
  for (const service of services) {
    const explained = await cloud.explain?.service?.(service, cluster.nodes, [...cluster.services.values()]);
    const own = JSON.stringify(explained);
    for (const { spec } of services)
      expect(own.includes(`Tcp ${spec?.ports?.[0]?.nodePort} every`)).toBe(spec === service.spec);
  }
});
