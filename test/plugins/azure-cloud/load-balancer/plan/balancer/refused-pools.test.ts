import { describe, expect, test } from "bun:test";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, type ServiceShape } from "../../fixtures.ts";
import { converge, world } from "../../world.ts";
import { configOf, nodes } from "./several-balancers.ts";

const config = configOf();
const local = { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 };
const invalid = { "azure-load-balancer-tcp-idle-timeout": "1" };
const withPodsOn = (...names: readonly string[]) => new Map([["default/web", names]]);

const before = converge(
  [intentOf({ nodes, spec: local })],
  world({ nodes, endpointNodes: withPodsOn("node-1") }),
  config,
).observed;

/** The members of each pool that a plan for the Service writes, and what it says about it. */
function planned(shape: ServiceShape, change: Partial<Observed>, more: Partial<typeof config> = {}) {
  const { stages, results } = plan([intentOf({ nodes, ...shape })], { ...before, ...change }, { ...config, ...more });
  const writes = stages.flatMap((stage) => stage.writes);
  const pools = writes.flatMap((write) =>
    write.kind === "put-load-balancer" ? (write.body.backendAddressPools ?? []) : [],
  );
  return {
    kinds: writes.map(({ kind }) => kind),
    pools: pools.map((pool) => [pool.name, pool.loadBalancerBackendAddresses?.map(({ name }) => name)]),
    problem: results.get("default/web")?.problem?.code,
  };
}

describe("the pool of a local Service that is refused", () => {
  test("has the nodes of its Pods, and nothing else of it is written", () => {
    const shape = { spec: { ...local, sessionAffinity: "ClientIP" }, annotations: invalid };
    expect(planned(shape, { endpointNodes: withPodsOn("node-0", "node-2") })).toEqual({
      kinds: ["put-load-balancer"],
      pools: [["default-web", ["node-0", "node-2"]]],
      problem: "InvalidService",
    });
    const [rule] = before.loadBalancers[0]?.loadBalancingRules ?? [];
    expect(rule?.loadDistribution).toBe("Default");
  });

  test("stays as it is while the Pods do, or where they are not known", () => {
    const shape = { spec: local, annotations: invalid };
    const nothing = { kinds: [], pools: [], problem: "InvalidService" as const };
    expect(planned(shape, {})).toEqual(nothing);
    expect(planned(shape, { endpointNodes: new Map() })).toEqual(nothing);
  });

  test("stays as it is in service gateway mode, in which nothing is written", () => {
    const endpointNodes = withPodsOn("node-2");
    expect(planned({ spec: local }, { endpointNodes }, { serviceGateway: true }).kinds).toEqual([]);
    expect(planned({ spec: local }, { endpointNodes }).kinds).toEqual(["put-load-balancer"]);
  });

  test("is not created on a load balancer that has none of its rules", () => {
    const [balancer] = before.loadBalancers;
    const bare = { ...balancer, loadBalancingRules: [] };
    const endpointNodes = withPodsOn("node-2");
    const change = { loadBalancers: [bare], endpointNodes };
    expect(planned({ spec: local, annotations: invalid }, change).kinds).toEqual([]);
  });
});
