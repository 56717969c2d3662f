import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { eventsOf, Views } from "../../../host/console/views.ts";
import { cloudWrite, idleSources, idleStatus } from "./idle-status.ts";

const write = (milliseconds: number, operation = "PUT") =>
  cloudWrite({ operation, resource: `lb-${milliseconds}`, milliseconds });

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
    write(999),
    write(1_000),
    write(4_000),
    write(9_000),
    write(0, "drift"),
    { ...write(9_999), system: "kubernetes" as const },
  ];
  const { slowest, drift } = new Views({ ...idleSources, writes: { records, count: 5 } }).cloud();
  expect(slowest.map(({ resource }) => resource)).toEqual(["lb-9000", "lb-4000", "lb-1000"]);
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

test("the latest 200 events are shown, the newest first", () => {
  const event = { at: "2026-11-22T02:00:00Z", type: "Normal" as const, message: "", source: "service", subject: "" };
  const events = Array.from({ length: 201 }, (_, index) => ({ ...event, reason: `r${index}` }));
  const shown = eventsOf(events).map(({ reason }) => reason);
  expect([shown.length, shown[0], shown.at(-1)]).toEqual([200, "r200", "r1"]);
});

test("a controller stands by until its generation runs", async () => {
  const statesOf = async (running: boolean) => {
    const status = () => ({
      ...idleStatus,
      running,
      controllers: ["route"],
      skipped: [{ name: "ipam", reason: "off" }],
    });
    return (await new Views({ ...idleSources, status }).controllers()).controllers;
  };
  const skipped = { name: "ipam", state: "not running" as const, reason: "off" };
  expect(await statesOf(false)).toEqual([{ name: "route", state: "standing by" }, skipped]);
  expect(await statesOf(true)).toEqual([{ name: "route", state: "running" }, skipped]);
});

test("a controller whose further lock another process holds stands by, and names the lock and its holder", async () => {
  const further = { lease: "migration", leading: false, leader: "kcm_1", controllers: [] };
  const main = { lease: "main", leading: true, leader: "one", controllers: ["route"] };
  const answerWith = async (own: object) => {
    const locks = [main, { ...further, ...own }];
    const views = new Views({ ...idleSources, status: () => ({ ...idleStatus, locks, controllers: ["route", "lb"] }) });
    return (await views.controllers()).controllers;
  };
  const route = { name: "route", state: "running" as const, lock: "main" };
  const waiting = { name: "lb", state: "standing by" as const };
  expect(await answerWith({})).toEqual([route, { ...waiting, reason: "waits for the lock migration, held by kcm_1" }]);
  expect(await answerWith({ leader: "" })).toEqual([route, { ...waiting, reason: "waits for the lock migration" }]);
  // It is held, and the caches are read again.
  expect(await answerWith({ leading: true, leader: "one" })).toEqual([route, waiting]);
  const held = { leading: true, leader: "one", controllers: ["lb"] };
  expect(await answerWith(held)).toEqual([route, { name: "lb", state: "running", lock: "migration" }]);
});

test("a leader that no longer renews its Lease is not shown as leading", async () => {
  const overview = (own: object) => {
    const locks = [{ lease: "main", leading: false, leader: "gone_1", controllers: [], ...own }];
    const status = { ...idleStatus, leading: false, leader: "gone_1", locks };
    return new Views({ ...idleSources, status: () => status }).overview();
  };
  const lease = { name: "Lease", value: "held by gone_1" };
  const renewed = await overview({});
  expect([renewed.leader, renewed.verified]).toEqual(["gone_1", expect.arrayContaining([lease])]);
  const expired = await overview({ expired: true });
  expect(expired.leader).toBe("");
  expect(expired.verified).not.toContainEqual(lease);
});

test("the overview of a shadow is marked as one", async () => {
  const status = () => ({ ...idleStatus, leading: false, shadow: { differences: [], notCompared: [] } });
  expect((await new Views({ ...idleSources, status }).overview()).shadow).toBe(true);
  expect(await new Views(idleSources).overview()).not.toHaveProperty("shadow");
});

test("an answer waits for the one before, and a failure of that one is not its own", async () => {
  const views = new Views(idleSources);
  const before = Promise.withResolvers<string>();
  const failing = views.answer(() => before.promise);
  let started = false;
  const next = views.answer(() => (started = true));
  await Bun.sleep(1);
  expect(started).toBe(false);
  before.reject(new Error("the cloud does not answer"));
  expect(await failing.catch(String)).toContain("the cloud does not answer");
  expect(await next).toBe(true);
});
