import { expect, test } from "bun:test";

import { defineController } from "cloud-controller-host/sdk";
import { memoryCloud } from "cloud-controller-host/sdk/testing";

import { TestCluster } from "../../../../host/sandbox/testing/cluster.ts";
import { rejection } from "../../../kit/rejection.ts";

test.each([
  ["nothing", "null"],
  ["a run that is not a function", '{ "run": true }'],
])("a test cluster names the controller whose init returns %s, and what to return", async (_, outcome) => {
  await using cluster = await TestCluster.start();
  // As in JavaScript, where nothing checks the type.
  const plugin = defineController({ name: "odd-controller", construct: () => () => JSON.parse(outcome) });
  expect(await rejection(cluster.run(plugin, { cloud: memoryCloud().cloud }))).toBe(
    'controller "odd-controller": init must return { run(signal) } or skipped("reason")',
  );
});
