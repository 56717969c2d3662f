import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { sampleOf } from "../../../../host/sandbox/testing/exposition.ts";
import { Suspension } from "../../../../plugins/azure-node-ipam/allocation/suspension.ts";

function openSuspension() {
  const clock = manualClock();
  const registry = new MetricsRegistry();
  const lines: string[] = [];
  let resumed = 0;
  const log = createLogger({ format: "json", verbosity: 0, write: (line) => void lines.push(line) });
  const suspension = new Suspension({ clock, log, metrics: registry.root, resumed: () => void (resumed += 1) });
  const gauge = async () => sampleOf((await registry.render()).body, "node_ipam_controller_allocation_suspended", {});
  return { clock, suspension, lines, gauge, resumed: () => resumed };
}

test("a suspension whose reason stays is logged once, and ends in its metric, too", async () => {
  const { suspension, lines, gauge } = openSuspension();
  for (const reason of ["one", "one", "two"]) suspension.suspend(reason);
  expect([lines.length, suspension.suspended, await gauge()]).toEqual([2, true, 1]);
  suspension.resume();
  expect([suspension.suspended, await gauge()]).toEqual([false, 0]);
});

test("a suspension for another writer lasts until its signs are ten minutes old, whatever else has ended before", async () => {
  const { clock, suspension, gauge, resumed } = openSuspension();
  for (const node of ["node0", "node1"]) suspension.quarantine(node, "other");
  suspension.quarantine("node2", "third");
  expect(suspension.suspended).toBe(false);
  suspension.quarantine("node3", "other");
  suspension.suspend("the nodes cannot be listed");
  suspension.resume();
  expect([suspension.suspended, await gauge()]).toEqual([true, 1]);
  await clock.advance(600_000);
  suspension.review();
  expect([suspension.suspended, resumed()]).toEqual([true, 0]);
  await clock.advance(1);
  suspension.review();
  expect([suspension.suspended, await gauge(), resumed()]).toEqual([false, 0, 1]);
});
