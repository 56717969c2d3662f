import { describe, expect, test } from "bun:test";

import { defineController, kinds, type Node, type Taint } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { keepServiceTaints, serviceTaints } from "../../../plugins/azure-cloud/instances/out-of-service.ts";
import { TestCluster } from "../../kit/harness.ts";

const shutdown: Taint = { key: "node.cloudprovider.kubernetes.io/shutdown", effect: "NoSchedule" };
const outOfService: Taint = { key: "node.kubernetes.io/out-of-service", effect: "NoExecute" };
const other: Taint = { key: "mine", effect: "NoSchedule" };

const node = (ready: string, taints: readonly Taint[]): Node => ({
  metadata: { name: "n" },
  spec: { taints },
  status: { conditions: [{ type: "Ready", status: ready }] },
});

describe("the out-of-service taint (TestUpdateNodeTaint)", () => {
  const rows: readonly (readonly [string, Node, readonly Taint[] | undefined])[] = [
    [
      "is added to a node that is shut down and not ready",
      node("False", [other, shutdown]),
      [other, shutdown, outOfService],
    ],
    ["is added when the kubelet is silent", node("Unknown", [shutdown]), [shutdown, outOfService]],
    ["is not added a second time", node("False", [shutdown, outOfService]), undefined],
    ["is not added to a node that is merely not ready", node("False", [other]), undefined],
    ["stays on a node that is not ready, though it is not shut down", node("False", [outOfService]), undefined],
    ["is taken from a node that is ready", node("True", [outOfService, other]), [other]],
    ["leaves a ready node without it alone", node("True", [shutdown]), undefined],
  ];
  for (const [name, given, wanted] of rows) test(name, () => expect(serviceTaints(given)).toEqual(wanted));
});

/** The host runs the cloud's own work as it runs a controller's; here it is one. */
const keeper = defineController({
  name: "taint-keeper",
  construct: () => (context) => {
    context.informers.of(kinds.Node);
    return { run: (signal) => keepServiceTaints(context, signal) };
  },
});

test("the taint comes and goes on a real cluster, a failed write is repeated, and other nodes are let be", async () => {
  await using cluster = await TestCluster.start();
  const down = node("False", [other, shutdown]);
  await cluster.admin.create(kinds.Node, down);
  await cluster.admin.create(kinds.Node, { ...node("False", [other]), metadata: { name: "merely-broken" } });
  cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 500 } });
  const { cloud } = memoryCloud();
  await using _ = await cluster.run(keeper, { cloud });

  const taintsOf = async (): Promise<readonly Taint[]> =>
    (await cluster.admin.get(kinds.Node, { name: "n" })).spec?.taints ?? [];
  await eventually("the node is out of service", async () => (await taintsOf()).length === 3);
  const current = await cluster.admin.get(kinds.Node, { name: "n" });
  const ready = { ...current, status: { conditions: [{ type: "Ready", status: "True" }] } };
  await cluster.admin.replace(kinds.Node, ready, { subresource: "status" });
  await eventually("the node is in service", async () => (await taintsOf()).length === 2);
  expect(new Set(cluster.writes().map(({ path }) => path))).toEqual(new Set(["/api/v1/nodes/n"]));
});
