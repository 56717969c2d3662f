import { expect, test } from "bun:test";

import { isUninitialized, keyOf, kinds, type KubeObject, taints } from "cloud-controller-host/sdk";
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

/** The controller with one worker, on nodes that are not initialized, and what becomes of its events. */
async function startWith(nodeCount: number, event: (name: string, left: () => number) => void) {
  await using opening = new AsyncDisposableStack();
  const cluster = opening.use(await TestCluster.start());
  const memory = memoryCloud();
  for (let index = 0; index < nodeCount; index++) {
    const name = `node${index}`;
    const address = `10.240.${index >> 8}.${index % 256}`;
    memory.machines.set(name, { nodeAddresses: [{ type: "InternalIP", address }] });
    const spec = { taints: [{ key: taints.uninitialized, value: "true", effect: "NoSchedule" }] };
    cluster.api.create(kinds.Node, { metadata: { name }, spec });
  }
  const left = () => cluster.api.list(kinds.Node).filter(isUninitialized).length;
  const generation = cluster.generation(cloudNode);
  const bound = cloudNode.bind(undefined);
  if (!bound.ok) throw new Error(bound.problems.join("; "));
  const init = bound.value(complete({ ...defaultOptions, concurrentNodeSyncs: 1 }), memory.cloud);
  const events = { event: (subject: KubeObject) => event(keyOf(subject), left) };
  const controller = await init({ ...generation.context, events });
  if ("skipped" in controller) throw new Error(controller.skipped);
  await generation.synced();
  const stop = new AbortController();
  const running = controller.run(stop.signal);
  const stack = opening.move();
  return {
    left,
    async stop() {
      stop.abort();
      await running;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

test("the events of many nodes are recorded in several turns of the event loop, all of them before run() returns", async () => {
  let turn = 0;
  const counting = setInterval(() => (turn += 1), 0);
  const recorded: { readonly name: string; readonly turn: number }[] = [];
  await using controller = await startWith(count, (name) => {
    burn(2);
    recorded.push({ name, turn });
  });
  await eventually("all nodes are initialized", () => controller.left() === 0);
  await eventually("their events are being recorded", () => recorded.length > 0);
  await controller.stop();
  clearInterval(counting);

  expect(new Set(recorded.map(({ name }) => name)).size).toBe(count);
  const turns = Map.groupBy(recorded, (it) => it.turn);
  expect(Math.max(...[...turns.values()].map(({ length }) => length))).toBeLessThan(count / 2);
});

test("a thousand events that wait are recorded although further nodes wait to be initialized", async () => {
  let leftAtFirst: number | undefined;
  let recorded = 0;
  await using controller = await startWith(1_050, (_name, left) => {
    leftAtFirst ??= left();
    recorded += 1;
  });
  await eventually("all events are recorded", () => recorded === 1_050, 60_000);
  expect(leftAtFirst).toBe(50);
  await controller.stop();
}, 120_000);
