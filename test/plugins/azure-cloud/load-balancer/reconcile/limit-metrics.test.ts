import { expect, test } from "bun:test";

import { limitMetrics } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/limit-metrics.ts";
import { openCluster, serviceOf } from "../cluster.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";

const nodes = nodesNamed("node-0");
const web = intentOf({ nodes });
const addresses = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });

/** The gauge's values by limit and resource. */
function gauge(config = plannerConfigOf()) {
  const values = new Map<string, number>();
  const none = { inc: () => undefined, observe: () => undefined };
  const metrics = limitMetrics(
    {
      counter: () => none,
      histogram: () => none,
      gauge: ({ name }) => ({
        set: (value, labels) =>
          void values.set([name.replace("cloudprovider_azure_", ""), ...Object.values(labels ?? {})].join("/"), value),
      }),
    },
    config,
  );
  return { metrics, seen: (observed: Parameters<typeof metrics.seen>[0]) => metrics.seen(observed), values };
}

test("the shares of Azure's limits in use are metrics of each load balancer, of its nodes and of the security group", () => {
  const { metrics, seen, values } = gauge();
  expect(metrics.status).toEqual([]);
  const { observed } = converge([web], world({ nodes }), plannerConfigOf());
  const [balancer] = observed.loadBalancers;
  const inboundNatRules = Array.from({ length: 14 }, (_, index) => ({ name: `nat-${index}` }));
  const link = (id: string) => ({ loadBalancerFrontendIpConfigurations: [{ id: `${id}/frontendIPConfigurations/f` }] });
  const privateLinkServices = [link(balancer?.id?.toUpperCase() ?? ""), link(`${balancer?.id}-internal`)];
  seen({ ...observed, loadBalancers: [{ ...balancer, inboundNatRules }], privateLinkServices });
  expect(Object.fromEntries(values)).toEqual({
    "limit_used_ratio/load balancer rules/kubernetes": 15 / 1500,
    "limit_used_ratio/load balancer frontends/kubernetes": 1 / 600,
    "limit_used_ratio/rules of a network interface/kubernetes": 1 / 300,
    "limit_used_ratio/private link services/kubernetes": 1 / 8,
    "limit_used_ratio/security rules/nsg0": 2 / 1000,
    "limit_used_ratio/security rule sources/nsg0": 2 / 4000,
    "limit_used_ratio/security rule destinations/nsg0": 2 / 4000,
  });
  const facts = metrics.status[0]?.facts ?? [];
  expect(facts[0]).toEqual({ name: "load balancer rules, kubernetes", value: "15 of at most 1500" });
  expect(facts).toHaveLength(7);
  seen({ ...observed, loadBalancers: [{ ...balancer, inboundNatRules: Array.from({ length: 1_200 }, () => ({})) }] });
  expect(metrics.status[0]?.facts?.[0]?.value).toBe("1201 of at most 1500, nearly all");
  seen(world());
  expect(values.get("limit_used_ratio/load balancer rules/kubernetes")).toBe(0);
  expect(values.get("limit_used_ratio/security rules/nsg0")).toBe(1 / 1000);
});

test("pools of addresses have no network interfaces with a limit", () => {
  const { seen, values } = gauge(addresses);
  seen(converge([web], world({ nodes }), addresses).observed);
  expect([...values.keys()].some((key) => key.includes("network interface"))).toBe(false);
});

test("a running cloud sets them with each observation", async () => {
  await using cluster = await openCluster(1);
  await cluster.ensure(await cluster.start(), serviceOf("web"));
  expect(cluster.world.measured).toContain(
    "cloudprovider_azure_limit_used_ratio{limit=load balancer rules,resource=kubernetes}",
  );
});
