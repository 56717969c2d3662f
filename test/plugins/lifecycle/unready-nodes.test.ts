import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { UnreadyNodes } from "../../../plugins/lifecycle/unready-nodes.ts";

test("the instance of a node that stays unready is looked up past the caches after 20 s, and then each time that the time has doubled", async () => {
  const clock = manualClock();
  const nodes = new UnreadyNodes(clock);
  const looks: number[] = [];
  for (let second = 0; second <= 700; second += 5) {
    if (nodes.nextRead("a").read === "fresh") looks.push(second);
    await clock.advance(5_000);
  }
  expect(looks).toEqual([20, 40, 80, 160, 320, 640]);
});

test("a look that comes late makes up for no other one", async () => {
  const clock = manualClock();
  const nodes = new UnreadyNodes(clock);
  expect(nodes.nextRead("a")).toEqual({});
  await clock.advance(100_000);
  expect(nodes.nextRead("a")).toEqual({ read: "fresh" });
  await clock.advance(59_999);
  expect(nodes.nextRead("a")).toEqual({});
  await clock.advance(1);
  expect(nodes.nextRead("a")).toEqual({ read: "fresh" });
});

test("a node that has been ready in between begins again, and no other one does", async () => {
  const clock = manualClock();
  const nodes = new UnreadyNodes(clock);
  for (const uid of ["a", "b"]) nodes.lastingMs(uid);
  await clock.advance(30_000);
  nodes.keepOnly(new Set(["b"]));
  expect(nodes.lastingMs("a")).toBe(0);
  expect(nodes.lastingMs("b")).toBe(30_000);
  expect(nodes.nextRead("a")).toEqual({});
  expect(nodes.nextRead("b")).toEqual({ read: "fresh" });
});

test("an instance whose turn did not come in one pass is looked up in the next one", async () => {
  const clock = manualClock();
  const nodes = new UnreadyNodes(clock);
  const uids = Array.from({ length: 17 }, (_, index) => `${index}`);
  const looks = (): number => uids.filter((uid) => nodes.nextRead(uid).read === "fresh").length;
  expect(looks()).toBe(0);
  await clock.advance(20_000);
  expect([looks(), looks()]).toEqual([16, 0]);
  nodes.beginPass();
  expect([looks(), looks()]).toEqual([1, 0]);
});
