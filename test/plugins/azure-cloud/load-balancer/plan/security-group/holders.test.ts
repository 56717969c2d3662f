import { expect, test } from "bun:test";

import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, nodesNamed, world } from "../../world.ts";

const config = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
const nodes = nodesNamed("node-0", "node-1");
const external = { "azure-load-balancer-ipv4": "20.9.9.9" };
const ownRules = { "azure-disable-load-balancer-floating-ip": "true" };

test.each([
  ["TCP", "TCP", external],
  ["UDP", "UDP", external],
  ["TCP without floating IP", "TCP", { ...external, ...ownRules }],
])(
  "the former port of a Service that is refused for another one stays open while the others on its address are planned: %s",
  (_, protocol, annotations) => {
    const withPort = (name: string, port: number, more = {}) =>
      intentOf({
        name,
        nodes,
        annotations: { ...annotations, ...more },
        spec: { ports: [{ protocol, port, nodePort: 30_000 + port }] },
      });
    const before = [withPort("a-older", 80), withPort("b-newer", 443)];
    const { observed } = converge(before, world({ nodes }), config);
    expect(observed.securityGroup?.securityRules).not.toBeEmpty();
    const after = [
      withPort("a-older", 443),
      withPort("b-newer", 443, { "azure-load-balancer-tcp-idle-timeout": "10" }),
    ];
    const services = after.map(({ service }) => service);
    const { results, stages } = plan(after, { ...observed, services }, config);
    expect(results.get("default/a-older")?.problem?.code).toBe("PortConflict");
    expect(stages.map(({ name }) => name)).not.toContain("security-group");
  },
);
