import { expect, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";
import type { Node } from "cloud-controller-host/sdk";

import { explainDrain } from "../../../../plugins/azure-cloud/load-balancer/explain-drain.ts";
import { drainRecord } from "../../../../plugins/azure-cloud/load-balancer/model/drain.ts";
import { intentOf, plannerConfigOf } from "./fixtures.ts";
import { converge, nodesNamed, world } from "./world.ts";

const nodeIP = { loadBalancerBackendPoolConfigurationType: "nodeIP", loadBalancerDrainTimeInSeconds: 600 };
const nowMs = Date.parse("2026-01-01T00:05:00Z");
const [first, second] = nodesNamed("node-0", "node-1");
const { service } = intentOf({});

const leaving = (node: Node | undefined, record?: string): Node => ({
  ...node,
  metadata: { ...node?.metadata, ...(record !== undefined && { annotations: { [drainRecord]: record } }) },
  spec: { ...node?.spec, taints: [{ key: "karpenter.sh/disrupted", effect: "NoSchedule" }] },
});

function stateOf(node: Node, others: readonly Node[], keys: Readonly<Record<string, unknown>> = nodeIP): unknown {
  const config = plannerConfigOf(keys);
  const nodes = [first, second].filter((one) => one !== undefined);
  const intent = intentOf({ nodes });
  const { loadBalancers } = converge([intent], world({ services: [service], nodes }), config).observed;
  const explained = explainDrain(node, loadBalancers, { config, nodes: [node, ...others], services: [service], nowMs });
  return explained.map(({ facts }) => facts?.find(({ name }) => name === "state")?.value);
}

test("explains until when a node is drained, and what it waits for", () => {
  const others = second === undefined ? [] : [second];
  expect(stateOf(leaving(first, "2026-01-01T00:00:00Z"), others)).toEqual([
    "no new connections since 2026-01-01T00:00:00Z; it is removed at 2026-01-01T00:10:00Z",
  ]);
  expect(stateOf(leaving(first, "requested"), others)).toEqual([
    "waiting until Azure shows all of its addresses as down",
  ]);
  expect(
    stateOf(
      leaving(first, "requested"),
      others.map((one) => leaving(one)),
    ),
  ).toEqual(["it keeps getting connections: all other members leave as well"]);
  const atOnce = { ...nodeIP, loadBalancerDrainTimeInSeconds: 0 };
  expect(stateOf(leaving(first), others, atOnce)).toEqual(["no drain time is configured: it leaves in one step"]);
  const elsewhere: Node = { ...leaving(first), status: { addresses: [] } };
  expect(stateOf(elsewhere, others)).toEqual(["it is in no backend pool of the cluster"]);
  expect(stateOf(first ?? {}, others)).toEqual([]);
});

test("shows neither end nor state of a node in a pool that another component fills", () => {
  const balancers: readonly LoadBalancer[] = world().loadBalancers;
  const config = plannerConfigOf({ ...nodeIP, preConfiguredBackendPoolLoadBalancerTypes: "all" });
  const [explained] = explainDrain(leaving(first), balancers, { config, nodes: [], services: [], nowMs });
  expect(explained?.facts?.at(-1)?.value).toBe("it is in no backend pool of the cluster");
});

test("shows the drain of a node from the load balancers of its shard only", () => {
  const config = plannerConfigOf(nodeIP);
  const nodes = [first, second].filter((one) => one !== undefined);
  const { loadBalancers } = converge([intentOf({ nodes })], world({ services: [service], nodes }), config).observed;
  const node = leaving(first, "2026-01-01T00:00:00Z");
  const cluster = { nodes: [node, ...nodes.slice(1)], services: [service], nowMs };
  const stateIn = (keys: Partial<typeof config>): unknown => {
    const [explained] = explainDrain(node, loadBalancers, { ...cluster, config: { ...config, ...keys } });
    return explained?.facts?.at(-1)?.value;
  };
  const elsewhere = stateIn({ shardSuffix: "-blue", loadBalancerName: "kubernetes-blue" });
  expect(elsewhere).toBe("it is in no backend pool of the cluster");
  expect(stateIn({ drainRecord: `${drainRecord}-blue` })).toBe(
    "waiting until Azure shows all of its addresses as down",
  );
});
