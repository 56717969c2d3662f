import { expect, test } from "bun:test";

import { durationText } from "../../../plugins/route/events.ts";

test.each([
  [0, "0s"],
  [1.5, "1.5ms"],
  [999, "999ms"],
  [1000, "1s"],
  [59_999, "59.999s"],
  [60_000, "1m0s"],
  [60_500, "1m0.5s"],
  [150_000, "2m30s"],
])("a duration of %p ms is formatted as Go formats it: %p", (ms, text) => {
  expect(durationText(ms)).toBe(text);
});
