import { expect, test } from "bun:test";

import { randomOf, Timeline } from "./timeline.ts";

test("entries run in the order of their times, and canceled ones never, however many are canceled", async () => {
  const random = randomOf(7);
  const timeline = new Timeline(random);
  const ran: number[] = [];
  const timers = Array.from({ length: 400 }, (_, index) => {
    const at = Math.floor(random() * 1_000);
    return { index, at, cancel: timeline.after(at, () => void ran.push(index)) };
  });
  const canceled = new Set(timers.filter(() => random() < 0.8));
  for (const timer of canceled) timer.cancel();
  const later = { index: 400, at: 500, cancel: timeline.after(500, () => void ran.push(400)) };
  await timeline.runUntil(1_000, () => true);
  const wanted = [...timers.filter((timer) => !canceled.has(timer)), later];
  expect(ran.map((index) => wanted.find((timer) => timer.index === index)?.at ?? -1)).toEqual(
    wanted.map(({ at }) => at).toSorted((one, other) => one - other),
  );
  expect(new Set(ran).size).toBe(wanted.length);
  expect(timeline.steps).toBe(wanted.length);
});

test("most canceled entries are dropped before they are due", () => {
  const timeline = new Timeline(randomOf(7));
  const cancels = Array.from({ length: 500 }, (_, index) => timeline.after(index, () => undefined));
  expect(timeline.size).toBe(500);
  for (const cancel of cancels.slice(100)) cancel();
  // After the 251st and the 376th: each time, more than half of those that were left.
  expect(timeline.size).toBe(124);
});

test("a canceled entry does not keep what it would have run", () => {
  const timeline = new Timeline(randomOf(7));
  const canceled = Array.from({ length: 50 }, () => {
    const work = { run: (): void => undefined };
    timeline.after(1, () => work.run())();
    return new WeakRef(work);
  });
  Bun.gc(true);
  // The collector takes some values on the stack for references.
  expect(canceled.filter((work) => work.deref() !== undefined).length).toBeLessThan(10);
});
