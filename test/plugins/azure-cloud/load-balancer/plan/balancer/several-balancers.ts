import type { LoadBalancer } from "@azure/arm-network";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { nodesNamed } from "../../world.ts";

export const nodes = nodesNamed("node-0", "node-1", "node-2");

/** A config with several load balancers: `kubernetes`, and those given. */
export const configOf = (...configurations: readonly object[]) =>
  plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }, ...configurations],
  });
export type Config = ReturnType<typeof configOf>;

export const balancer = (name: string, more: Partial<LoadBalancer> = {}): LoadBalancer => ({
  name,
  location: "eastus",
  sku: { name: "Standard" },
  ...more,
});

/** That many rules of the Service with this frontend. */
export const rules = (name: string, count: number): Pick<LoadBalancer, "loadBalancingRules"> => ({
  loadBalancingRules: Array.from({ length: count }, (_, index) => ({
    name: `${name}-TCP-${index}`,
    protocol: "Tcp",
    frontendPort: index,
  })),
});

/** Name of the load balancer that the plan writes for a Service, or its problem. */
export function chosenFrom(from: Observed, shape: ServiceShape, config: Config): string | undefined {
  const { stages, results } = plan([intentOf({ nodes, ...shape })], from, config);
  const problem = results.get("default/web")?.problem;
  const put = stages.flatMap(({ writes }) => writes).find(({ kind }) => kind === "put-load-balancer");
  return problem?.messages.join() ?? put?.name;
}
