import { expect, test } from "bun:test";

import { isUninitialized, keyOf, kinds, taints } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../../host/config/flags/options.ts";
import { complete } from "../../../host/config/validate/complete.ts";
import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";

const count = 40;

/** Recording takes that long: the log line, its redaction and the Event object. */
function burn(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until;);
}

test("the events of many nodes are recorded in several turns of the event loop, all of them before run() returns", async () => {
  await using cluster = await TestCluster.start();
  const memory = memoryCloud();
  for (let index = 0; index < count; index++) {
    const name = `node${index}`;
    memory.machines.set(name, { nodeAddresses: [{ type: "InternalIP", address: `10.240.0.${index}` }] });
    const spec = { taints: [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }] };
    await cluster.admin.create(kinds.Node, { metadata: { name }, spec });
  }
  const generation = cluster.generation(cloudNode);
  let turn = 0;
  const counting = setInterval(() => (turn += 1), 0);
  const recorded: { readonly name: string; readonly turn: number }[] = [];
  const events: typeof generation.context.events = {
    event(subject) {
      burn(2);
      recorded.push({ name: keyOf(subject), turn });
    },
  };
  const bound = cloudNode.bind(undefined);
  if (!bound.ok) throw new Error(bound.problems.join("; "));
  const init = bound.value(complete({ ...defaultOptions, concurrentNodeSyncs: 1 }), memory.cloud);
  const controller = await init({ ...generation.context, events });
  if ("skipped" in controller) throw new Error(controller.skipped);
  await generation.synced();
  const stop = new AbortController();
  const running = controller.run(stop.signal);
  await eventually("all nodes are initialized", () => cluster.api.list(kinds.Node).every((it) => !isUninitialized(it)));
  await eventually("their events are being recorded", () => recorded.length > 0);
  stop.abort();
  await running;
  clearInterval(counting);

  expect(new Set(recorded.map(({ name }) => name)).size).toBe(count);
  const turns = Map.groupBy(recorded, (it) => it.turn);
  expect(Math.max(...[...turns.values()].map(({ length }) => length))).toBeLessThan(count / 2);
});
