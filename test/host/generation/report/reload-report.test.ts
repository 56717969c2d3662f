import { expect, test } from "bun:test";

import { SlotRig } from "../slot-rig.ts";

test("the metrics of reloads count each result, and have the time without controllers and the last outcome", async () => {
  await using rig = await SlotRig.start();
  const { report } = rig;
  const metrics = async (): Promise<string> => (await rig.metrics.render()).body;
  report.swapped(2, "test", 0.5, 20);
  report.refused("test", new Error("boom"), 0.25);
  const afterRefusal = await metrics();
  expect(afterRefusal).toMatch(/^host_reload_gap_seconds_sum 0\.02$/mu);
  expect(afterRefusal).toMatch(/^host_reload_duration_seconds_sum 0\.75$/mu);
  for (const result of ["success", "refused"])
    expect(afterRefusal).toMatch(new RegExp(`^host_reloads_total\\{result="${result}"\\} 1$`, "mu"));
  expect(afterRefusal).toMatch(/^host_last_reload_successful 0$/mu);
  report.prepared(3, "test", 0.5);
  expect(await metrics()).toMatch(/^host_last_reload_successful 1$/mu);
});

test("a retry that is refused for the reason before it has no record of its own, and the last outcome is the latest", async () => {
  await using rig = await SlotRig.start();
  const { report } = rig;
  const refuse = (trigger: string, reason: string): void => report.refused(trigger, new Error(reason), 0.25, 7_000);
  const retry = "retry of a refused reload";
  refuse("a change", "no answer");
  refuse(retry, "no answer");
  refuse("SIGHUP", "no answer");
  report.swapped(2, retry, 0.5, 20);
  refuse("another change", "no answer");
  refuse(retry, "no such scale set");
  refuse(retry, "no such scale set");
  const reasons = report.status.recentReloads.map(({ trigger, reason }) => `${trigger}: ${reason}`);
  expect(reasons).toEqual([
    "a change: no answer; the reload is tried again",
    "SIGHUP: no answer; the reload is tried again",
    `${retry}: generation 2 runs`,
    "another change: no answer; the reload is tried again",
    `${retry}: no such scale set; the reload is tried again`,
  ]);
  expect(report.status.lastOutcome).toMatchObject({ trigger: retry, reason: reasons.at(-1)?.slice(retry.length + 2) });
});

test("the record of a reload has what has changed since the one before", async () => {
  await using rig = await SlotRig.start();
  const { report } = rig;
  report.pluginsChanged();
  report.swapped(2, "test", 0.5, 20);
  report.swapped(3, "test", 0.5, 20);
  expect(report.status.recentReloads.map(({ changed }) => changed)).toEqual([["plugins"], []]);
});
