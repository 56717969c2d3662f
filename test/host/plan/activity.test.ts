import { expect, test } from "bun:test";

import { CodedError, type ProcessOptions, RefusedError, type WorkQueue } from "cloud-controller-host/sdk";

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

/** The activity after one attempt for each outcome of the key `web`, of a queue called service. */
async function after(...outcomes: readonly (readonly (Error | undefined)[])[]): Promise<Activity> {
  const activity = new Activity(systemClock);
  let sync: ProcessOptions["sync"] = () => Promise.resolve();
  const inner: Pick<WorkQueue, "name" | "process"> = {
    name: "service",
    process: (options) => {
      sync = (key) => options.sync(key);
      return Promise.resolve();
    },
  };
  const left = outcomes.flat();
  // Nothing else of a queue is called here.
  const queue = activity.queue(Object.assign(Object.create(null), inner));
  await queue.process({
    workers: 1,
    signal: new AbortController().signal,
    sync: () => {
      const error = left.shift();
      return error === undefined ? Promise.resolve() : Promise.reject(error);
    },
  });
  for (const _ of outcomes) await sync("default/web");
  return activity;
}

const shown = ({ failures, refusals, hasRecovered }: Activity) => ({ failures, refusals, hasRecovered });
const failed = new CodedError("Unreachable", "no answer");
const refused = new Error("sync", { cause: new RefusedError("PortConflict", "port 80 is taken") });
const nothing = { failures: [], refusals: [], hasRecovered: false };

test("a key that is refused three times is refused, and one that fails three times has failed", async () => {
  const refusals = [["service default/web", "sync: port 80 is taken"]] as const;
  expect(shown(await after([refused, refused, refused]))).toEqual({ ...nothing, refusals });
  const failures = ["service default/web: no answer"];
  expect(shown(await after([failed, failed, failed]))).toEqual({ ...nothing, failures });
  expect(shown(await after([failed, failed, failed], [refused, refused, refused]))).toEqual({ ...nothing, refusals });
  expect(shown(await after([refused, refused, refused], [failed, failed, failed]))).toEqual({ ...nothing, failures });
});

test("a failure that passes has left a trace, also when it had been reported; a refusal that passes has not", async () => {
  expect(shown(await after([refused, refused, undefined]))).toEqual(nothing);
  expect(shown(await after([refused, refused, refused], [undefined]))).toEqual(nothing);
  expect(shown(await after([failed, undefined]))).toEqual({ ...nothing, hasRecovered: true });
  expect(shown(await after([failed, failed, failed], [undefined]))).toEqual({ ...nothing, hasRecovered: true });
});
