import { expect, test } from "bun:test";

import { type Node, taints } from "cloud-controller-host/sdk";

import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, nodesNamed, world } from "../../world.ts";

const config = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
const several = plannerConfigOf({
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
});
const nodes = nodesNamed("node-0", "node-1", "node-2");
const created = converge([intentOf({ nodes })], world({ nodes }), config).observed;

/** Names in the pool after the plan of a process that knows `listed` from its last node sync, and sees `observed` now. */
function membersAfter(listed: readonly Node[], observed: readonly Node[], of = config): readonly string[] {
  const { stages } = plan([intentOf({ nodes: listed })], { ...created, nodes: observed }, of);
  const [write] = stages.flatMap(({ writes }) => writes);
  const body = write?.kind === "put-load-balancer" ? write.body : created.loadBalancers[0];
  const [pool] = body?.backendAddressPools ?? [];
  return (pool?.loadBalancerBackendAddresses ?? []).map(({ name = "" }) => name);
}

const all = ["node-0", "node-1", "node-2"];
const changed = (name: string, change: (node: Node) => Node): readonly Node[] =>
  nodes.map((node) => (node.metadata?.name === name ? change(node) : node));
const leaving = (node: Node): Node => ({
  ...node,
  spec: { ...node.spec, taints: [{ key: taints.toBeDeletedByAutoscaler, effect: "NoSchedule" }] },
});
const withoutAddress = (node: Node): Node => ({ ...node, status: {} });

test.each<[string, readonly Node[], readonly Node[], readonly string[]]>([
  ["stays although the last node sync of this process lacks it", nodes.slice(1), nodes, all],
  ["stays although the last node sync has it without its address", changed("node-0", withoutAddress), nodes, all],
  ["leaves when its node is gone", nodes.slice(1), nodes.slice(1), ["node-1", "node-2"]],
  ["leaves when its node is about to leave", nodes.slice(1), changed("node-0", leaving), ["node-1", "node-2"]],
  [
    "leaves when its node has lost its address",
    nodes.slice(1),
    changed("node-0", withoutAddress),
    ["node-1", "node-2"],
  ],
])("a member that another deployment has added to a pool of addresses %s", (_, listed, observed, members) => {
  expect(membersAfter(listed, observed)).toEqual(members);
  expect(membersAfter(listed, observed, several)).toEqual(members);
});

test("a node that the last node sync lacks joins no pool of addresses", () => {
  const more = nodesNamed("node-0", "node-1", "node-2", "node-3");
  expect(membersAfter(nodes, more)).toEqual(all);
});

test("an address in a pool of others makes no node a member", () => {
  const more = nodesNamed("node-0", "node-1", "node-2", "node-3");
  const address = more[3]?.status?.addresses?.find(({ type }) => type === "InternalIP")?.address ?? "";
  expect(address).not.toBe("");
  const loadBalancers = created.loadBalancers.map((one) => ({
    ...one,
    backendAddressPools: [
      ...(one.backendAddressPools ?? []),
      { name: "others", loadBalancerBackendAddresses: [{ name: "node-3", ipAddress: address }] },
    ],
  }));
  expect(plan([intentOf({ nodes })], { ...created, loadBalancers, nodes: more }, config).stages).toEqual([]);
});

test("a member that is out of service stays for other Services when one is deleted", () => {
  const outOfService = changed("node-0", (node) => ({
    ...node,
    spec: { ...node.spec, taints: [{ key: taints.outOfService, effect: "NoExecute" }] },
  }));
  const intents = ["web", "other"].map((name) => intentOf({ name, nodes: outOfService }));
  const { observed } = converge(intents, world({ nodes: outOfService }), several);
  const deletion = { ...intentOf({ name: "other" }), action: "delete" as const, nodes: [] };
  const { stages } = plan([deletion], observed, several);
  const pools = stages.flatMap(({ writes }) =>
    writes.flatMap((write) => (write.kind === "put-load-balancer" ? (write.body.backendAddressPools ?? []) : [])),
  );
  expect(pools.map((pool) => pool.loadBalancerBackendAddresses?.map(({ name }) => name))).toEqual([all]);
});

test("the nodes of an empty sync are those of the pool that are still there", () => {
  expect(membersAfter([], nodes)).toEqual(all);
});
