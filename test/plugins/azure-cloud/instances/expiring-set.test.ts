import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { ExpiringSet } from "../../../../plugins/azure-cloud/instances/expiring-set.ts";

test("remembered absences of nodes that come and go do not accumulate", async () => {
  const clock = manualClock();
  const cache = new ExpiringSet(clock);
  for (let minute = 0; minute < 60; minute++) {
    for (let node = 0; node < 100; node++) cache.add(`minute-${minute}-node-${node}`, 30_000);
    expect(cache.has(`minute-${minute}-node-0`)).toBe(true);
    await clock.advance(61_000);
    expect(cache.has(`minute-${minute}-node-0`)).toBe(false);
  }
  expect(cache.size).toBeLessThanOrEqual(200);
});

test("an absence is remembered until its TTL has passed, or until it is deleted", async () => {
  const clock = manualClock();
  const cache = new ExpiringSet(clock);
  cache.add("gone", 30_000);
  cache.add("back", 30_000);
  cache.delete("back");
  expect(cache.has("back")).toBe(false);
  await clock.advance(29_999);
  expect(cache.has("gone")).toBe(true);
  await clock.advance(1);
  expect(cache.has("gone")).toBe(false);
});

test("an absence with a longer TTL is remembered although others are dropped", async () => {
  const clock = manualClock();
  const cache = new ExpiringSet(clock);
  cache.add("long", 120_000);
  await clock.advance(61_000);
  cache.add("other", 30_000);
  expect(cache.has("long")).toBe(true);
});
