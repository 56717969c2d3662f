import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { Views } from "../../../host/console/views.ts";
import { idleSources, idleStatus } from "./idle-status.ts";

const write = (milliseconds: number, operation = "PUT") => ({
  at: "2026-11-22T02:00:00Z",
  controller: "cloud",
  generation: 1,
  system: "cloud" as const,
  operation,
  resource: `lb-${milliseconds}`,
  milliseconds,
  causes: [],
  fields: [],
});

test("the work of a queue per second is measured over five seconds or more, for all pages together", async () => {
  const clock = manualClock();
  let done = 100;
  const labels = { name: "service" };
  const samples = (name: string) =>
    Promise.resolve(
      name === "workqueue_work_duration_seconds"
        ? [{ name: "workqueue_work_duration_seconds_count", labels, value: done }]
        : [],
    );
  const views = new Views({ ...idleSources, clock, metrics: { samples } });
  const rate = async () => (await views.controllers()).queues[0]?.perSecond;
  expect(await rate()).toBeUndefined();
  done = 150;
  await clock.advance(4_999);
  expect(await rate()).toBeUndefined();
  await clock.advance(5_001);
  expect(await rate()).toBe(5);
  done = 170;
  await clock.advance(4_000);
  expect(await rate()).toBe(5);
  await clock.advance(1_000);
  expect(await rate()).toBe(4);
  done = 0;
  await clock.advance(5_000);
  expect(await rate()).toBe(0);
});

test("the slowest operations of the cloud are shown, the slowest first, and changes of other writers are counted", () => {
  const records = [
    write(900),
    write(4_000),
    write(9_000),
    write(0, "drift"),
    { ...write(9_999), system: "kubernetes" as const },
  ];
  const { slowest, drift } = new Views({ ...idleSources, writes: { records, count: 5 } }).cloud();
  expect(slowest.map(({ resource }) => resource)).toEqual(["lb-9000", "lb-4000"]);
  expect(drift).toBe(1);
  const many = Array.from({ length: 30 }, (_, index) => write(2_000 + index));
  expect(new Views({ ...idleSources, writes: { records: many, count: 30 } }).cloud().slowest).toHaveLength(10);
});

test("the latest reload comes first", () => {
  const reload = {
    at: "2026-11-22T02:00:00Z",
    trigger: "SIGHUP",
    result: "reloaded" as const,
    reason: "",
    changed: ["a"],
  };
  const status = () => ({ ...idleStatus, recentReloads: [reload, { ...reload, trigger: "config" }] });
  expect(new Views({ ...idleSources, status }).leadership().reloads.map(({ trigger }) => trigger)).toEqual([
    "config",
    "SIGHUP",
  ]);
});
