import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { writePodCidrs } from "../../../../plugins/azure-node-ipam/nodes/patch.ts";
import plugin from "../../../../plugins/azure-node-ipam/plugin.ts";
import { TestCluster } from "../../../kit/harness.ts";

/** The statuses of the attempts to write a node's CIDRs while the API server rejects the first ones. */
async function attempts(rejected: readonly number[], signal: AbortSignal): Promise<readonly unknown[]> {
  await using cluster = await TestCluster.start();
  await cluster.admin.create(kinds.Node, { metadata: { name: "node0" } });
  for (const status of rejected)
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status } });
  const { client } = cluster.generation(plugin).context;
  const { result } = await writePodCidrs(client, { metadata: { name: "node0" } }, ["10.0.0.0/24"], signal);
  return [result, ...cluster.sent({ method: "PATCH" }).map(({ status }) => status)];
}

const running = new AbortController().signal;

test.each([
  [[], ["written", 200]],
  [
    [500, 500],
    ["written", 500, 500, 200],
  ],
  [
    [403, 403, 403],
    ["refused", 403, 403, 403],
  ],
  // An attempt without a certain reply may have been carried out, whatever the next one is answered.
  [
    [500, 403, 403],
    ["unknown", 500, 403, 403],
  ],
  [
    [408, 403, 403],
    ["unknown", 408, 403, 403],
  ],
])("replies %j lead to the outcome and the attempts %j", async (rejected, wanted) => {
  expect(await attempts(rejected, running)).toEqual(wanted);
});

test("no second attempt starts after a stop", async () => {
  expect(await attempts([500, 500], AbortSignal.abort())).toEqual(["unknown", 500]);
});

test("a write that arrives late gives nothing to a node that was recreated under its name", async () => {
  await using cluster = await TestCluster.start();
  const before = await cluster.admin.create(kinds.Node, { metadata: { name: "node0" } });
  cluster.api.delete(kinds.Node, { name: "node0" });
  await cluster.admin.create(kinds.Node, { metadata: { name: "node0" } });
  const { client } = cluster.generation(plugin).context;
  expect(await writePodCidrs(client, before, ["10.0.0.0/24"], running)).toMatchObject({ result: "refused" });
  expect((await client.get(kinds.Node, { name: "node0" })).spec?.podCIDRs).toBeUndefined();
});
