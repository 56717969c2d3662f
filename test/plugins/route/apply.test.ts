import { expect, test } from "bun:test";

import { limitConcurrency } from "../../../plugins/route/apply.ts";
import { durationText } from "../../../plugins/route/events.ts";

test("limitConcurrency starts calls in order, and a failed call frees its slot", async () => {
  const limit = limitConcurrency(2);
  const gates = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
  const begun: number[] = [];
  const all = gates.map(({ promise }, index) =>
    limit(() => {
      begun.push(index);
      return promise;
    }).catch(() => undefined),
  );
  await Promise.resolve();
  expect(begun).toEqual([0, 1]);
  gates[1]?.reject(new Error("the cloud failed"));
  await all[1];
  await Promise.resolve();
  expect(begun).toEqual([0, 1, 2]);
  gates[2]?.resolve();
  await all[2];
  const last = limit(async () => void begun.push(5));
  await Promise.resolve();
  expect(begun).toEqual([0, 1, 2, 3]);
  for (const { resolve } of gates) resolve();
  await Promise.all([...all, last]);
  expect(begun).toEqual([0, 1, 2, 3, 4, 5]);
});

test.each([
  [0, "0s"],
  [0.0004, "0s"],
  [1.5, "1.5ms"],
  [999.9999, "1s"],
  [2250, "2.25s"],
  [59_999.9, "59.9999s"],
  [60_000, "1m0s"],
  [60_500, "1m0.5s"],
  [3_600_000, "60m0s"],
])("%p ms is formatted like a Go duration: %s", (ms, text) => {
  expect(durationText(ms)).toBe(text);
});
