import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

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

test("the metrics of the running generation are its number and how many enabled controllers it lacks, until it ends", async () => {
  await using rig = await SlotRig.start();
  const { report } = rig;
  const metrics = async (): Promise<string> => (await rig.metrics.render()).body;
  report.started(7, "abc", ["alpha"], [{ name: "beta", reason: "a test" }]);
  expect(await metrics()).toMatch(/^host_generation 7$/mu);
  expect(await metrics()).toMatch(/^host_skipped_controllers 1$/mu);
  report.ended();
  expect(await metrics()).toMatch(/^host_skipped_controllers 0$/mu);
});

test("results of reloads and failures of running controllers count from 0, so that a rate has the first one", async () => {
  await using rig = await SlotRig.start();
  const { report } = rig;
  const samples = async (name: string): Promise<Readonly<Record<string, number>>> =>
    Object.fromEntries(
      (await rig.metrics.samples(name)).map(({ labels, value }) => [Object.values(labels).join(), value]),
    );
  expect(await samples("host_reloads_total")).toEqual({ success: 0, refused: 0, unchanged: 0 });
  report.started(1, "abc", ["alpha"], [{ name: "beta", reason: "a test" }]);
  report.joined(1, "migration", ["gamma"]);
  const failures = await samples("host_controller_failures_total");
  expect(failures).toMatchObject({ alpha: 0, gamma: 0 });
  expect(failures).not.toHaveProperty("beta");
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

test("a plugin that is still refused for the same reason keeps the time of its refusal", async () => {
  const clock = manualClock();
  await using rig = await SlotRig.start({}, clock);
  const { report } = rig;
  const since = new Date(clock.now()).toISOString();
  const odd = { plugin: "odd", reason: "boom" };
  report.withoutPlugins([odd]);
  await clock.advance(60_000);
  const now = new Date(clock.now()).toISOString();
  report.withoutPlugins([odd, { plugin: "other", reason: "boom" }]);
  expect(report.status.refusedPlugins.map(({ at }) => at)).toEqual([since, now]);
  report.withoutPlugins([{ ...odd, reason: "another" }]);
  expect(report.status.refusedPlugins.map(({ at }) => at)).toEqual([now]);
});
