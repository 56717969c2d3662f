import { expect, test } from "bun:test";

import { fullPace, type Pace, paceOf } from "./pace.ts";

const seeds = Array.from({ length: 4_000 }, (_, seed) => seed);
const paces = seeds.map(paceOf);

/** Percentage of seeds whose pace is so. */
const shareOf = (isSo: (pace: Pace) => boolean): number => (100 * paces.filter(isSo).length) / paces.length;

test.each<readonly [what: string, percent: number, isSo: (pace: Pace) => boolean]>([
  ["the default timings of leader election", 25, ({ lease }) => lease === "default"],
  ["relaxed ones", 45, ({ lease }) => lease === "relaxed"],
  ["slow ones", 30, ({ lease }) => lease === "slow"],
  ["five eventful minutes", 40, ({ eventfulMs }) => eventfulMs === 300_000],
  ["a quarter of an hour", 60, ({ eventfulMs }) => eventfulMs === fullPace.eventfulMs],
  ["ten silent minutes, in which the rarest work is due", 20, ({ silentMs }) => silentMs === fullPace.silentMs],
  ["two silent minutes", 80, ({ silentMs }) => silentMs === 120_000],
  // Neither decides the other.
  ["slow timings and ten silent minutes", 6, ({ lease, silentMs }) => lease === "slow" && silentMs === 600_000],
  ["five eventful and ten silent minutes", 8, ({ eventfulMs, silentMs }) => eventfulMs < silentMs],
])("a share of all seeds has %s: %d %%", (_what, percent, isSo) => {
  expect(Math.abs(shareOf(isSo) - percent)).toBeLessThan(2.5);
});

test("the pace of a seed is always the same, and leaves everything the longest time to be well again", () => {
  expect(seeds.map(paceOf)).toEqual(paces);
  expect(paces.filter(({ convergeMs }) => convergeMs !== undefined)).toEqual([]);
});
