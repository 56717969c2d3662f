import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

test("time does not advance on its own", async () => {
  const clock = manualClock(1000);
  let woken = false;
  const sleep = clock.sleep(10).then(() => (woken = true));
  await clock.advance(9);
  expect([clock.now(), clock.monotonic(), woken, clock.sleepers]).toEqual([1009, 9, false, 1]);
  await clock.advance(1);
  expect([clock.now(), woken, clock.sleepers]).toEqual([1010, true, 0]);
  await sleep;
});

test("sleeps end in the order of their deadlines, each at its deadline", async () => {
  const clock = manualClock(0);
  const seen: string[] = [];
  const sleeper = async (name: string, ms: number): Promise<void> => {
    await clock.sleep(ms);
    seen.push(`${name} ${clock.now()}`);
  };
  const both = Promise.all([sleeper("late", 20), sleeper("early", 5)]);
  await clock.advance(100);
  await both;
  expect(seen).toEqual(["early 5", "late 20"]);
  expect(clock.now()).toBe(100);
});

test("a sleep that starts during an advance ends in the same advance when it is due", async () => {
  const clock = manualClock(0);
  let turns = 0;
  const loop = async (): Promise<void> => {
    while (turns < 5) {
      await clock.sleep(10);
      turns++;
    }
  };
  const running = loop();
  await clock.advance(49);
  expect(turns).toBe(4);
  await clock.advance(1);
  await running;
  expect(turns).toBe(5);
});

test("a sleep ends at once when its signal aborts, and leaves nothing behind", async () => {
  const clock = manualClock();
  const aborter = new AbortController();
  const sleep = clock.sleep(1000, aborter.signal);
  aborter.abort();
  await sleep;
  await clock.sleep(1000, AbortSignal.abort());
  expect(clock.sleepers).toBe(0);
});
