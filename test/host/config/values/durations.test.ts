import { describe, expect, test } from "bun:test";

import * as fc from "fast-check";

import { formatDuration, hour, minute, parseDuration, second } from "../../../../host/config/values/durations.ts";

describe("parsing durations as Go does", () => {
  const good: readonly [text: string, milliseconds: number][] = [
    ["0", 0],
    ["-0", 0],
    ["0s", 0],
    ["5s", 5 * second],
    ["+5s", 5 * second],
    ["-5s", -5 * second],
    ["1h2m3s", hour + 2 * minute + 3 * second],
    ["12h", 12 * hour],
    ["1.5h", 1.5 * hour],
    [".5s", 500],
    ["1.s", second],
    ["250ms", 250],
    ["1us", 0.001],
    ["1µs", 0.001],
    ["1μs", 0.001],
    ["1ns", 0.000_001],
    ["3s1h", hour + 3 * second],
    ["2562047h47m16s", 9_223_372_036_000],
  ];
  test.each(good)("%s", (text, milliseconds) => {
    expect(parseDuration(text)).toEqual({ ok: true, value: milliseconds });
  });

  const invalid = "must be a duration, such as 15s or 1h30m";
  const unitless = "must be a duration with units, such as 15s or 1h30m";
  const bad: readonly [text: string, problem: string][] = [
    ["", invalid],
    ["x", invalid],
    [".", invalid],
    ["-", invalid],
    ["5", unitless],
    ["1h5", unitless],
    ["5d", 'unknown unit "d" in a duration; use h, m, s, ms, us or ns'],
    ["1h-5m", 'unknown unit "h-" in a duration; use h, m, s, ms, us or ns'],
    ["3toString", 'unknown unit "toString" in a duration; use h, m, s, ms, us or ns'],
    ["2562048h", invalid],
  ];
  test.each(bad)("%p is refused", (text, problem) => {
    expect(parseDuration(text)).toEqual({ ok: false, problem });
  });
});

describe("formatting durations as Go does", () => {
  const cases: readonly [milliseconds: number, text: string][] = [
    [0, "0s"],
    [12 * hour, "12h0m0s"],
    [5 * minute, "5m0s"],
    [90 * second, "1m30s"],
    [10 * second, "10s"],
    [1500, "1.5s"],
    [250, "250ms"],
    [1.5, "1.5ms"],
    [0.0015, "1.5µs"],
    [0.000_001, "1ns"],
    [-90 * second, "-1m30s"],
    [hour + 0.25, "1h0m0.00025s"],
  ];
  test.each(cases)("%d ms", (milliseconds, text) => {
    expect(formatDuration(milliseconds)).toBe(text);
  });
});

test("parses every formatted duration to the same duration", () => {
  const nanoseconds = fc.integer({ min: -1e15, max: 1e15 }).map((count) => count / 1e6);
  const whole = fc.integer({ min: -9_000_000_000_000, max: 9_000_000_000_000 });
  fc.assert(
    fc.property(fc.oneof(nanoseconds, whole), (milliseconds) => {
      const parsed = parseDuration(formatDuration(milliseconds));
      expect(parsed.ok && formatDuration(parsed.value)).toBe(formatDuration(milliseconds));
      expect(parsed.ok && Math.abs(parsed.value - milliseconds) < 1e-6).toBe(true);
    }),
    { seed: 20_260_819, numRuns: 500 },
  );
});
