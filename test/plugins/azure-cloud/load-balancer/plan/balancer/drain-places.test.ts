import { describe, expect, test } from "bun:test";

import type { Node } from "cloud-controller-host/sdk";

import type { NodeDrain } from "../../../../../../plugins/azure-cloud/load-balancer/model/drain.ts";
import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { PlannerConfig } from "../../../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { drainingIn } from "../../../../../../plugins/azure-cloud/load-balancer/plan/balancer/drain-places.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { converge, nodesNamed, world } from "../../world.ts";

const config = plannerConfigOf({
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  loadBalancerDrainTimeInSeconds: 600,
});
const leaving = (node: Node): Node => ({
  ...node,
  spec: { ...node.spec, taints: [{ key: "karpenter.sh/disrupted", effect: "NoSchedule" }] },
});
const nodes = nodesNamed("node-0", "node-1").map((node, index) => (index === 0 ? leaving(node) : node));
const drain: NodeDrain = { cause: "taint", record: "requested", elapsedMs: 0 };
const created = converge([intentOf({ nodes })], world({ nodes }), config).observed;

interface Case {
  readonly by?: PlannerConfig;
  readonly about?: Partial<Observed>;
  readonly shapes?: readonly ServiceShape[];
}

/** The place of the first node, which drains. */
function placeOf({ by = config, about = {}, shapes = [{}] }: Case = {}) {
  const services = shapes.map((shape) => intentOf(shape).service);
  const drains = new Map([["node-0", drain]]);
  const found = drainingIn({ ...created, services, drains, ...about }, by);
  const [first] = found.addresses.values();
  return { place: first?.place, excluded: [...found.leaving.values()].flatMap((names) => [...names]) };
}

const other = (change: (node: Node) => Node): Partial<Observed> => ({
  nodes: nodes.map((node, index) => (index === 1 ? change(node) : node)),
});
const labeled = (labels: Readonly<Record<string, string>>) =>
  other((node) => ({ ...node, metadata: { ...node.metadata, labels } }));

describe("a node that drains", () => {
  test("has others in its pool, and must not join it again", () => {
    const { place, excluded } = placeOf();
    expect(place).toMatchObject({ hasOthers: true, isDown: false, isLocal: false, drainMs: 600_000 });
    expect(excluded).toEqual(["node-0"]);
  });

  test.each<[string, Partial<Observed>]>([
    ["leaves as well", other(leaving)],
    ["is not managed", labeled({ "kubernetes.azure.com/managed": "false" })],
    ["is of the control plane", labeled({ "node-role.kubernetes.io/control-plane": "" })],
    [
      "is down",
      {
        loadBalancers: created.loadBalancers.map((balancer) => ({
          ...balancer,
          backendAddressPools: (balancer.backendAddressPools ?? []).map((pool) => ({
            ...pool,
            loadBalancerBackendAddresses: (pool.loadBalancerBackendAddresses ?? []).map((one) =>
              one.name === "node-1" ? { ...one, adminState: "Down" } : one,
            ),
          })),
        })),
      },
    ],
  ])("has no others where the only other member %s", (_what, about) => {
    expect(placeOf({ about }).place?.hasOthers).toBe(false);
  });

  test("has others where the only other member belongs to another resource group, as pools of addresses have it", () => {
    const about = labeled({ "kubernetes.azure.com/resource-group": "other" });
    expect(placeOf({ about }).place?.hasOthers).toBe(true);
  });

  test("is not among those that must not join where no time is configured", () => {
    expect(placeOf({ by: { ...config, drainSeconds: 0 } })).toMatchObject({ place: { drainMs: 0 }, excluded: [] });
  });

  test.each<[string, Case]>([
    ["another component fills", { by: { ...config, preConfiguredPools: { internal: false, external: true } } }],
    ["another shard has", { by: { ...config, shardSuffix: "-a", loadBalancerName: "kubernetes-a" } }],
    ["has network interfaces", { by: { ...config, pools: "interfaces" } }],
    ["no Service uses", { shapes: [{ name: "elsewhere" }] }],
  ])("has no place in a pool that %s", (_what, about) => {
    expect(placeOf(about)).toEqual({ place: undefined, excluded: [] });
  });

  test("drains for the longest time of the Services that are on the load balancer", () => {
    const seconds = "azure-load-balancer-drain-seconds";
    const shapes = [{ annotations: { [seconds]: "60" } }, { name: "elsewhere", annotations: { [seconds]: "3600" } }];
    expect(placeOf({ shapes }).place?.drainMs).toBe(60_000);
    const { service } = intentOf({ annotations: { [seconds]: "3600" } });
    const gone = { ...service, metadata: { ...service.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
    expect(placeOf({ about: { services: [intentOf({}).service, gone] } }).place?.drainMs).toBe(600_000);
  });
});
