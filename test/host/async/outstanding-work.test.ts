import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { OutstandingWork } from "../../../host/async/outstanding-work.ts";

function ledger() {
  const clock = manualClock();
  return { clock, outstanding: new OutstandingWork(clock) };
}

test("a ledger is waited for until the last work has settled, in whichever way", async () => {
  const { clock, outstanding } = ledger();
  const [first, last] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  outstanding.add("run", "a", first.promise);
  outstanding.add("init", "b", last.promise);
  let left: unknown;
  const settled = outstanding.settled(1_000).then((entries) => (left = entries));
  first.resolve();
  await clock.advance(999);
  expect([left, outstanding.entries]).toEqual([undefined, [{ kind: "init", name: "b", since: expect.any(Number) }]]);
  last.reject(new Error("boom"));
  await settled;
  expect([left, clock.sleepers]).toEqual([[], 0]);
});

test("a ledger is waited for no longer than the limit, and not at all while it is empty", async () => {
  const { clock, outstanding } = ledger();
  expect(await outstanding.settled(1_000)).toEqual([]);
  outstanding.add("dispose", "a", new Promise(() => undefined));
  const settled = outstanding.settled(1_000);
  await clock.advance(1_000);
  expect(await settled).toMatchObject([{ kind: "dispose", name: "a" }]);
});

test("work is waited for by its name, whatever else is outstanding or is added later", async () => {
  const { outstanding } = ledger();
  const never = new Promise<void>(() => undefined);
  const works = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  for (const { promise } of works) outstanding.add("run", "a", promise);
  outstanding.add("run", "b", never);
  let hasReturned = false;
  const returned = outstanding.returned("a").then(() => (hasReturned = true));
  outstanding.add("run", "a", never);
  works[0]?.reject(new Error("boom"));
  await Bun.sleep(0);
  expect(hasReturned).toBe(false);
  works[1]?.resolve();
  await returned;
  await outstanding.returned("nothing of this name");
});
