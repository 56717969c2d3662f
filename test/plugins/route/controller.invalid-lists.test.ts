import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import plugin from "../../../plugins/route/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { aNode } from "./objects.ts";

test("no route is deleted while replies with code 200 that are not lists come in place of the list of nodes", async () => {
  await using cluster = await TestCluster.start();
  const memory = memoryCloud();
  const clock = manualClock();
  const { faults, watches } = cluster.api;
  // As API servers without streaming lists answer.
  faults.add({ match: { verb: "watch", resource: "nodes" }, effect: { status: 422, reason: "Invalid" }, times: 1 });
  const nodes = cluster.generation(plugin).context.informers.of(kinds.Node).store;
  for (let i = 1; i <= 5; i++) cluster.api.create(kinds.Node, aNode(`node-${i}`, [`10.120.${i}.0/24`], `10.0.1.${i}`));
  await cluster.run(plugin, {
    cloud: memory.cloud,
    clock,
    flags: { clusterCidr: "10.120.0.0/15", clusterName: "my-k8s" },
  });
  await eventually("all have routes", () => memory.routes.size === 5);

  faults.add({ match: { verb: "list", resource: "nodes" }, effect: { status: 200 }, times: 1000 });
  faults.add({ match: { verb: "watch", resource: "nodes" }, effect: { status: 410 }, times: 1 });
  faults.add({ match: { verb: "watch", resource: "nodes" }, effect: { status: 200 }, times: 1000 });
  const listed = memory.callsOf("listRoutes").length;
  watches.drop("abort");
  await eventually("there were three passes", async () => {
    await clock.advance(1000);
    return memory.callsOf("listRoutes").length >= listed + 3;
  });
  expect(nodes.size).toBe(5);
  expect(memory.callsOf("deleteRoute")).toEqual([]);
}, 120_000);
