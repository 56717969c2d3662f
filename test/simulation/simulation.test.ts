import { expect, setDefaultTimeout, test } from "bun:test";

import { isThorough } from "../kit/thorough.ts";
import { campaign } from "./campaign.ts";
import { scheduleOf } from "./schedule.ts";
import { simulate } from "./simulation.ts";

setDefaultTimeout(600_000);

/** Seeds that are always run: the first ones, and those that have found a defect once, of the product or of the simulation. */
const fixedSeeds = 400;
const oncePerDefect = [112, 632, 767, 963, 1_000_484, 1_009_577, 2_007_211, 2_012_977, 1_795_951_999_007] as const;
/** How long further, fresh seeds are run. */
const freshMs = isThorough ? 60_000 : 5_000;

test("no schedule of a fixed set breaks an invariant of leadership and generations", async () => {
  const { failure } = await campaign(1, fixedSeeds);
  expect(failure?.report).toBeUndefined();
  for (const seed of oncePerDefect) expect((await campaign(seed, 1)).failure?.report).toBeUndefined();
});

test("no schedule of a fresh set does", async () => {
  const first = Math.floor(Date.now() / 1000) * 1000;
  const { seeds, failure } = await campaign(first, Number.POSITIVE_INFINITY, freshMs);
  expect(failure?.report, `after ${seeds} seeds from ${first}`).toBeUndefined();
});

test("the same seed takes the same steps", async () => {
  const [one, other] = [await simulate(scheduleOf(7)), await simulate(scheduleOf(7))];
  expect([one.steps, one.duration]).toEqual([other.steps, other.duration]);
});
