import { expect, test } from "bun:test";
import { getEventListeners } from "node:events";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { Places } from "../../../plugins/service-lb/places.ts";

test("keys that have waited for a place leave nothing on the signal of the generation", async () => {
  const { signal } = new AbortController();
  const places = new Places(manualClock(), 1);
  const [first, ...others] = Array.from({ length: 5 }, () => places.enter(signal));
  expect(getEventListeners(signal, "abort")).toHaveLength(4);
  (await first)?.[Symbol.dispose]();
  for (const other of others) (await other)?.[Symbol.dispose]();
  expect(getEventListeners(signal, "abort")).toEqual([]);
});
