import { expect, test } from "bun:test";

import { cidrsOverlap, kinds, type Node, parseCIDR } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import type { RunningController } from "../../../host/sandbox/testing/generation.ts";
import { TestCluster } from "../../kit/harness.ts";
import { aNode, podCIDRWrites, runIpam } from "./nodes.ts";

const seed = 20_261_122;

/** Pairs of nodes that share addresses. */
function clashes(nodes: readonly Node[]): readonly string[] {
  const given = nodes.flatMap((node) => (node.spec?.podCIDRs ?? []).map((text) => ({ node, cidr: parseCIDR(text) })));
  return given.flatMap(({ node, cidr }, index) =>
    given
      .slice(index + 1)
      .filter((other) => cidrsOverlap(cidr, other.cidr))
      .map((other) => `${node.metadata?.name} ${cidr.text} and ${other.node.metadata?.name} ${other.cidr.text}`),
  );
}

test("500 nodes at once get 500 CIDRs of each family, with one write and no read per node", async () => {
  await using cluster = await TestCluster.start();
  await runIpam(cluster, { clusterCidr: "10.0.0.0/14,2001:db8::/48", serviceClusterIpRange: "10.0.0.0/16" });
  for (let index = 0; index < 500; index++) cluster.api.create(kinds.Node, aNode(`node${index}`));
  const nodes = await eventually("all have their CIDRs", () => {
    const all = cluster.api.list(kinds.Node);
    return all.every(({ spec }) => spec?.podCIDRs?.length === 2) && all;
  });
  expect(nodes).toHaveLength(500);
  const texts = nodes.flatMap(({ spec }) => spec?.podCIDRs ?? []);
  expect(new Set(texts).size).toBe(1000);
  expect(clashes(nodes)).toEqual([]);
  const services = parseCIDR("10.0.0.0/16");
  expect(texts.filter((text) => cidrsOverlap(parseCIDR(text), services))).toEqual([]);
  expect(podCIDRWrites(cluster)).toHaveLength(500);
  expect(cluster.sent({ method: "GET" }).filter(({ path }) => path.startsWith("/api/v1/nodes/"))).toEqual([]);
  expect(cluster.events()).toEqual([]);
});

const clusterCIDR = "10.0.0.0/26";
const flags = { clusterCidr: clusterCIDR, nodeCidrMaskSizeIpv4: 31 };
const blocks = 32;

const name = fc.constantFrom(...Array.from({ length: 12 }, (_, index) => `node${index}`));
const effect = fc.constantFrom(
  { effect: "disconnect" as const, afterwards: true },
  { effect: "disconnect" as const, afterwards: false },
  { effect: { status: 500 }, afterwards: false },
  { effect: { status: 504 }, afterwards: true },
  { effect: { status: 409 }, afterwards: false },
  { effect: { status: 422 }, afterwards: false },
);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("create" as const), name }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), name }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("fail" as const), effect, times: fc.integer({ min: 1, max: 4 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("fail reads" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("pause" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("resume" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("drop" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 0, max: 8 }) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function carryOut(cluster: TestCluster, action: Exclude<Step, { readonly do: "restart" }>): Promise<void> | undefined {
  const { api } = cluster;
  if (action.do === "wait") return Bun.sleep(action.ms);
  const exists = "name" in action && api.get(kinds.Node, { name: action.name }) !== undefined;
  if (action.do === "create" && !exists) api.create(kinds.Node, aNode(action.name));
  if (action.do === "delete" && exists) api.delete(kinds.Node, { name: action.name });
  if (action.do === "fail")
    api.faults.add({ match: { verb: "patch", resource: "nodes" }, ...action.effect, times: action.times });
  if (action.do === "fail reads")
    api.faults.add({ match: { verb: "get", resource: "nodes" }, effect: { status: 500 } });
  if (action.do === "pause") api.watches.pause();
  if (action.do === "resume") api.watches.resume();
  if (action.do === "drop") api.watches.drop("abort");
  return undefined;
}

async function settle(cluster: TestCluster, running: RunningController): Promise<void> {
  cluster.api.faults.clear();
  cluster.api.watches.resume();
  await eventually("every node has its CIDR, and no block is leaked", async () => {
    const nodes = cluster.api.list(kinds.Node);
    const usage = await cluster.metric("node_ipam_controller_cidrset_usage_cidrs", { clusterCIDR });
    return nodes.every(({ spec }) => spec?.podCIDRs?.length === 1) && (usage ?? 0) * blocks === nodes.length;
  });
  expect(running.controller.warnings?.()).toEqual([]);
}

test(
  `no CIDR is assigned twice and none leaks, across failures, node churn and restarts (seed ${seed})`,
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60, size: "max" }), async (steps) => {
        await using cluster = await TestCluster.start();
        let running = await runIpam(cluster, flags);
        for (const action of steps) {
          if (action.do === "restart") {
            await running.stop();
            running = await runIpam(cluster, flags);
          } else await carryOut(cluster, action);
          expect(clashes(cluster.api.list(kinds.Node))).toEqual([]);
        }
        await settle(cluster, running);
        expect(clashes(cluster.api.list(kinds.Node))).toEqual([]);
      }),
      { seed, numRuns: 12, endOnFailure: true },
    );
  },
  { timeout: 60_000 },
);
