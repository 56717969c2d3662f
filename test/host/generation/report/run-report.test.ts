import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { SlotRig } from "../slot-rig.ts";

test("the metrics of the running generation are its number and how many enabled controllers it lacks, until it ends", async () => {
  await using rig = await SlotRig.start();
  const { report } = rig;
  const metrics = async (): Promise<string> => (await rig.metrics.render()).body;
  report.runs.started(7, "abc", ["alpha"], [{ name: "beta", reason: "a test" }]);
  expect(await metrics()).toMatch(/^host_generation 7$/mu);
  expect(await metrics()).toMatch(/^host_skipped_controllers 1$/mu);
  report.runs.ended();
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
  report.runs.started(1, "abc", ["alpha"], [{ name: "beta", reason: "a test" }]);
  report.runs.joined(1, "migration", ["gamma"]);
  const failures = await samples("host_controller_failures_total");
  expect(failures).toMatchObject({ alpha: 0, gamma: 0 });
  expect(failures).not.toHaveProperty("beta");
});

test("a plugin that is still refused for the same reason keeps the time of its refusal", async () => {
  const clock = manualClock();
  await using rig = await SlotRig.start({}, clock);
  const { report } = rig;
  const since = new Date(clock.now()).toISOString();
  const odd = { plugin: "odd", reason: "boom" };
  report.runs.withoutPlugins([odd]);
  await clock.advance(60_000);
  const now = new Date(clock.now()).toISOString();
  report.runs.withoutPlugins([odd, { plugin: "other", reason: "boom" }]);
  expect(report.status.refusedPlugins.map(({ at }) => at)).toEqual([since, now]);
  report.runs.withoutPlugins([{ ...odd, reason: "another" }]);
  expect(report.status.refusedPlugins.map(({ at }) => at)).toEqual([now]);
});
