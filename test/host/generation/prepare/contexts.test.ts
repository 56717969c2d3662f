import { expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { main, SlotRig, untilAborted } from "../slot-rig.ts";

test("work queues end with the signal of their controller, those that it creates later included", async () => {
  await using rig = await SlotRig.start({ drainTimeout: 2_000 });
  const ended: string[] = [];
  const waiting = rig.controller("waiting", main, async (_signal, { context }) => {
    ended.push(`early: ${await context.workqueue("early").get()}`);
  });
  const late = rig.controller("late", main, async (signal, { context }) => {
    await untilAborted(signal);
    ended.push(`late: ${await context.workqueue("late").get()}`);
  });
  await rig.install(waiting, late);
  const led = rig.lead();
  await eventually("both run", () => rig.running.size === 2);
  rig.stop();
  expect((await led).outstanding).toEqual([]);
  expect(ended.toSorted()).toEqual(["early: undefined", "late: undefined"]);
});
