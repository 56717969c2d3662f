import { describe, expect, test } from "bun:test";

import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, nodesNamed, world } from "../../world.ts";

const nodes = nodesNamed("node-0");
const vmSets = new Map([["node-0", "vmss0"]]);
const key = "azure-load-balancer-gateway-frontend-id";
const gateway =
  "/subscriptions/sub0/resourceGroups/rg9/providers/Microsoft.Network/loadBalancers/gw/frontendIPConfigurations/f";
const standard = plannerConfigOf();

/** The Gateway Load Balancer of the Service's frontend after each of its versions in turn. */
function chainAfter(versions: readonly Readonly<Record<string, string>>[], config = standard): string | undefined {
  let observed = world({ nodes, vmSets });
  for (const annotations of versions)
    observed = converge([intentOf({ nodes, annotations })], observed, config).observed;
  return observed.loadBalancers[0]?.frontendIPConfigurations?.[0]?.gatewayLoadBalancer?.id;
}

describe("the frontend of a Service", () => {
  test("is chained to the Gateway Load Balancer that the Service names, at once and later", () => {
    expect(chainAfter([{ [key]: gateway }])).toBe(gateway);
    expect(chainAfter([{}, { [key]: gateway }])).toBe(gateway);
  });

  test("loses its Gateway Load Balancer with an empty value, and keeps it without the annotation", () => {
    expect(chainAfter([{ [key]: gateway }, { [key]: "" }])).toBeUndefined();
    expect(chainAfter([{ [key]: gateway }, {}])).toBe(gateway);
  });

  test("is chained to no Gateway Load Balancer if it is internal or basic", () => {
    expect(chainAfter([{ [key]: gateway, "azure-load-balancer-internal": "true" }])).toBeUndefined();
    expect(chainAfter([{ [key]: gateway }], plannerConfigOf({ loadBalancerSku: "basic" }))).toBeUndefined();
  });
});

test.each([
  ["has not changed", {}, []],
  ["changes itself", { "azure-load-balancer-tcp-idle-timeout": "10" }, ["load-balancers"]],
])(
  "an older Service that asks for a port of a shared address is refused and its former port stays open, and not the one that has it and %s",
  (_, change, written) => {
    const shared = { "azure-load-balancer-ipv4": "20.9.9.9" };
    const withPort = (name: string, port: number, annotations = {}) =>
      intentOf({
        name,
        nodes,
        annotations: { ...shared, ...annotations },
        spec: { ports: [{ protocol: "TCP", port, nodePort: 30_000 + port }] },
      });
    const before = [withPort("a-older", 80), withPort("b-newer", 443)];
    const { observed } = converge(before, world({ nodes, vmSets }), standard);
    const after = [withPort("a-older", 443), withPort("b-newer", 443, change)];
    const services = after.map(({ service }) => service);
    const { results, stages } = plan(after, { ...observed, services }, standard);
    expect(results.get("default/a-older")?.problem?.code).toBe("PortConflict");
    expect(results.get("default/b-newer")).not.toContainKey("problem");
    expect<readonly string[]>(stages.map(({ name }) => name)).toEqual(written);
  },
);
