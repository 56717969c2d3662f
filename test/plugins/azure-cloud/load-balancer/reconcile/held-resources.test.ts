import { expect, test } from "bun:test";

import type { ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { movesNodes } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/held-resources.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";

const config = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
const [before, after] = [nodesNamed("node-0"), nodesNamed("node-0", "node-1")];
const port = (number: number) => ({ ports: [{ protocol: "TCP", port: number, nodePort: 30_000 + number }] });

/** The writes for a Service that has had port 80 and one node. */
function writesFor(intent: ServiceIntent) {
  const { observed } = converge([intentOf({ nodes: before, spec: port(80) })], world({ nodes: before }), config);
  const next = { ...observed, nodes: intent.nodes, services: [intent.service] };
  return { next, writes: plan([intent], next, config).stages.flatMap((stage) => stage.writes) };
}

test("a write of a load balancer moves nodes where a node joins a pool that was there", () => {
  const { next, writes } = writesFor(intentOf({ nodes: after, spec: port(80) }));
  expect(writes.map((write) => [write.kind, movesNodes(write, next)])).toEqual([["put-load-balancer", true]]);
  const other = { id: `${writes[0]?.id}-internal`, backendAddressPools: [{ name: "kubernetes" }] };
  expect(writes.map((write) => movesNodes(write, { ...next, loadBalancers: [other] }))).toEqual([false]);
});

test("a write for another port of a Service moves no nodes", () => {
  const { next, writes } = writesFor(intentOf({ nodes: before, spec: port(443) }));
  expect(writes.map((write) => [write.kind, movesNodes(write, next)])).toEqual([
    ["put-load-balancer", false],
    ["put-security-group", false],
  ]);
});
