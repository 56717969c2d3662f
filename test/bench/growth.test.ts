import { expect, test } from "bun:test";

import { growthOf } from "./growth.ts";

/** The same noise in each run: between -1 and 1. */
const noise = (index: number): number => Math.sin(index * 12.9898) * Math.cos(index * 78.233);
const series = (length: number, value: (index: number) => number): readonly number[] =>
  Array.from({ length }, (_, index) => value(index));

test("the growth of a series is its slope per step, without an error for a straight line", () => {
  const { slope, error } = growthOf(series(30, (index) => 5 + 0.25 * index));
  expect(slope).toBeCloseTo(0.25, 9);
  expect(error).toBeCloseTo(0, 6);
});

test("noise around a constant is not reported as growth", () => {
  const { slope, error } = growthOf(series(45, (index) => 200 + 8 * noise(index)));
  expect(Math.abs(slope)).toBeLessThan(error);
  expect(error).toBeLessThan(0.5);
});

test("growth shows through noise that is larger than its step", () => {
  const { slope, error } = growthOf(series(45, (index) => 200 + 0.5 * index + 8 * noise(index)));
  expect(slope - error).toBeGreaterThan(0);
});

test("single outliers are not reported as growth, also at the end", () => {
  const { slope } = growthOf(series(42, (index) => (index === 41 ? 400 : 200)));
  expect(slope).toBe(0);
});

test("two samples say nothing", () => {
  expect(growthOf([1, 2])).toEqual({ slope: 0, error: Number.POSITIVE_INFINITY });
});

test("the error is that of least squares with Student's factor", () => {
  // The sum of squares that is left is 68/35; with four degrees of freedom the factor is 2.776.
  const { slope, error } = growthOf([0, 1, 3, 2, 4, 5]);
  expect(slope).toBeCloseTo(33 / 35, 9);
  expect(error).toBeCloseTo(2.776 * Math.sqrt(68 / 35 / 4 / 17.5), 9);
});
