import { expect, test } from "bun:test";

import type { CloudContext } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { ModelLooks } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/later/model-looks.ts";
import { capturedLog } from "../../../../../host/kube/captured-log.ts";

interface LabOptions {
  readonly isShared?: boolean;
  /** What the looks find: whether a model has changed, or the error of the read. */
  readonly found?: readonly (boolean | Error)[];
  /** Results of the plans. */
  readonly plans?: readonly (Error | undefined)[];
  readonly planning?: CloudContext["planning"];
}

function open({ isShared = true, found = [], plans = [], planning }: LabOptions = {}) {
  const clock = manualClock();
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const lookedAt: number[] = [];
  const plannedAt: number[] = [];
  const looks = new ModelLooks({
    context: { clock, signal: stop.signal, log, ...(planning && { planning }) },
    isShared: () => isShared,
    haveChanged: async () => {
      const result = found[lookedAt.push(clock.monotonic() / 1000) - 1] ?? false;
      if (result instanceof Error) throw result;
      return result;
    },
    refresh: async () => plans[plannedAt.push(clock.monotonic() / 1000) - 1],
  });
  const advance = (seconds: number): Promise<void> => clock.advance(seconds * 1000);
  return { looks, lookedAt, plannedAt, advance, stop, lines, clock };
}

test("models are looked at three times after a change where deployments share them, and a changed one leads to a plan", async () => {
  const { looks, lookedAt, plannedAt, advance, clock } = open({ found: [false, true] });
  looks.changed();
  await advance(3600);
  expect([lookedAt, plannedAt, clock.sleepers]).toEqual([[60, 180, 420], [180], 0]);
});

test("models are looked at after a change of one deployment alone only where one was written or doubted since", async () => {
  const { looks, lookedAt, advance } = open({ isShared: false });
  looks.changed();
  await advance(3600);
  expect(lookedAt).toEqual([]);
  looks.doubted();
  await advance(3600);
  expect(lookedAt).toEqual([3660, 3780, 4020]);
  looks.changed();
  await advance(3600);
  expect(lookedAt).toHaveLength(3);
});

test("models are looked at a minute after the first of several changes, and again after the last", async () => {
  const { looks, lookedAt, advance, clock } = open();
  for (let changes = 0; changes < 10; changes += 1) {
    looks.changed();
    await advance(10);
  }
  expect(clock.sleepers).toBe(1);
  await advance(3600);
  // The change at 60 s comes with the look, and is the last that begins them again.
  expect(lookedAt).toEqual([60, 120, 240, 480]);
});

test("a failed read of models is repeated with the next look, and a failed plan with the next, with the error in the log", async () => {
  const { looks, lookedAt, plannedAt, advance, lines } = open({
    found: [new Error("no reply"), true, false, true],
    plans: [new Error("cannot be planned")],
  });
  looks.changed();
  await advance(3600);
  expect([lookedAt, plannedAt]).toEqual([
    [60, 180, 360, 600],
    [180, 240, 600],
  ]);
  expect(lines()).toMatchObject([{ level: "warn", err: "cannot be planned" }]);
});

test("models are looked at neither for a plan nor after the end of the process", async () => {
  const ignore = (): void => undefined;
  const planning = { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore };
  const planned = open({ planning });
  planned.looks.doubted();
  await planned.advance(3600);
  const { looks, lookedAt, plannedAt, advance, stop } = open({ found: [true], plans: [new Error("stopped")] });
  looks.changed();
  await advance(59);
  stop.abort();
  await advance(3600);
  expect([planned.lookedAt, lookedAt, plannedAt]).toEqual([[], [], []]);
});
