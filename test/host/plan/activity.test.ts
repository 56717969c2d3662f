import { expect, test } from "bun:test";

import { systemClock } from "../../../host/async/clock.ts";
import { Activity } from "../../../host/plan/activity.ts";

test("work that is due after a stall of the machine is waited for", async () => {
  const activity = new Activity(systemClock);
  const events: string[] = [];
  const resting = activity.rests(AbortSignal.timeout(20_000)).then(() => events.push("rests"));
  setTimeout(
    () =>
      void activity.track(async () => {
        await Bun.sleep(600);
        events.push("works");
      }),
    30,
  );
  Bun.sleepSync(1_000);
  await resting;
  expect(events).toEqual(["works", "rests"]);
});

test("a wait that is aborted does not count as rest", async () => {
  const activity = new Activity(systemClock);
  const endless = activity.track(() => Bun.sleep(2_000));
  expect(await activity.rests(AbortSignal.timeout(100))).toBe(false);
  await endless;
});
