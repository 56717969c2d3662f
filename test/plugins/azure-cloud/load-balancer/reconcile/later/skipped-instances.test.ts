import { expect, test } from "bun:test";

import type { CloudContext, Node } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { SkippedInstances } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/later/skipped-instances.ts";
import { capturedLog } from "../../../../../host/kube/captured-log.ts";
import { instanceID, nodeOf } from "../../../world.ts";

const idOf = (index: number): string => instanceID(index).slice("azure://".length);

const nodeAt = (index: number, status: "True" | "Unknown"): Node => ({
  ...nodeOf(`vmss000000${index}`, { providerID: instanceID(index) }),
  status: { conditions: [{ type: "Ready", status }] },
});

interface LabOptions {
  readonly nodes: readonly Node[];
  /** Results of the plans: an error, or the instances that are skipped again. */
  readonly plans?: readonly (Error | readonly number[])[];
  readonly planning?: CloudContext["planning"];
}

function open({ nodes, plans = [], planning }: LabOptions) {
  const clock = manualClock();
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const present = [...nodes];
  const plannedAt: number[] = [];
  const skipped = new SkippedInstances({
    context: { clock, signal: stop.signal, log, ...(planning && { planning }) },
    nodes: () => present,
    refresh: async () => {
      const result = plans[plannedAt.push(clock.monotonic() / 1000) - 1] ?? [];
      if (result instanceof Error) return result;
      for (const index of result) skipped.add(idOf(index));
      return undefined;
    },
  });
  const advance = (seconds: number): Promise<void> => clock.advance(seconds * 1000);
  return { skipped, present, plannedAt, advance, stop, lines };
}

test("an instance that was stopped joins once its node is ready", async () => {
  const { skipped, present, plannedAt, advance } = open({ nodes: [nodeAt(0, "Unknown"), nodeAt(1, "True")] });
  skipped.add(idOf(0).toUpperCase());
  await advance(3600);
  expect(plannedAt).toEqual([]);
  present[0] = nodeAt(0, "True");
  await advance(3600);
  expect(plannedAt).toEqual([3630]);
});

test("an instance that Azure still shows as stopped is tried again after ever longer pauses, up to five minutes", async () => {
  const { skipped, plannedAt, advance } = open({
    nodes: [nodeAt(0, "True")],
    plans: Array.from({ length: 6 }, () => [0]),
  });
  skipped.add(idOf(0));
  await advance(3600);
  expect(plannedAt).toEqual([30, 90, 210, 450, 750, 1050, 1350]);
});

test("a stopped instance that loses its node meanwhile is tried soon after the node is ready again", async () => {
  const { skipped, present, plannedAt, advance } = open({ nodes: [nodeAt(0, "True")], plans: [[0], [0]] });
  skipped.add(idOf(0));
  await advance(90);
  present[0] = nodeAt(0, "Unknown");
  await advance(120);
  present[0] = nodeAt(0, "True");
  await advance(30);
  expect(plannedAt).toEqual([30, 90, 240]);
});

test("a stopped instance without a node is forgotten, and followed again once it is skipped again", async () => {
  const { skipped, present, plannedAt, advance } = open({ nodes: [] });
  skipped.add(idOf(0));
  await advance(30);
  present.push(nodeAt(0, "True"));
  await advance(3600);
  expect(plannedAt).toEqual([]);
  skipped.add(idOf(0));
  await advance(30);
  expect(plannedAt).toEqual([3660]);
});

test("stopped instances are tried by one loop, again after an error, which is logged", async () => {
  const { skipped, plannedAt, advance, lines } = open({
    nodes: [nodeAt(0, "True"), nodeAt(1, "True")],
    plans: [new Error("throttled")],
  });
  for (const index of [0, 1]) skipped.add(idOf(index));
  await advance(3600);
  expect(plannedAt).toEqual([30, 90]);
  expect(JSON.stringify(lines())).toContain("throttled");
});

test("stopped instances are followed neither for a plan nor after the end of the process", async () => {
  const ignore = (): void => undefined;
  const planning = { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore };
  const plan = open({ nodes: [nodeAt(0, "True")], planning });
  plan.skipped.add(idOf(0));
  await plan.advance(3600);
  expect(plan.plannedAt).toEqual([]);
  const ended = open({ nodes: [nodeAt(0, "True")], plans: [new Error("aborted")] });
  ended.skipped.add(idOf(0));
  ended.stop.abort();
  await ended.advance(3600);
  expect(ended.plannedAt).toEqual([]);
});
