import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { controllerHarness, TestCluster } from "cloud-controller-host/sandbox";
import { kinds } from "cloud-controller-host/sdk";
import { controllerConformance, type CreateWork, eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import plugin from "./plugin.ts";

// Longer than the limit of `eventually`, whose error names what did not happen.
setDefaultTimeout(60_000);

const zone = "topology.kubernetes.io/zone";

test("labels a node with its zone's short name and records an event", async () => {
  await using cluster = await TestCluster.start(); // an API server in the process, in milliseconds
  await cluster.run(plugin, { cloud: memoryCloud().cloud }); // the host's informers, queues, events and metrics
  await cluster.admin.create(kinds.Node, { metadata: { name: "n", labels: { [zone]: "eastus-2" } } });
  await eventually("the node has the label", () => {
    const node = cluster.api.get(kinds.Node, { name: "n" });
    return node?.metadata?.labels?.["example.com/zone-short"] === "2";
  });
  await eventually("the event is recorded", () => cluster.event("ZoneLabeled"));
  expect(cluster.writes().map(({ method, path }) => `${method} ${path}`)).toEqual(["PATCH /api/v1/nodes/n"]);
});

/** The suite's own nodes have no zone, so this controller needs work of its own. */
const work: CreateWork = async ({ admin, round }) => {
  await admin.create(kinds.Node, { metadata: { name: `zoned-${round}`, labels: { [zone]: `eastus-${round}` } } });
};

describe("controller conformance", () => {
  for (const { name, run } of controllerConformance(plugin, controllerHarness(), { work })) test(name, run);
});
