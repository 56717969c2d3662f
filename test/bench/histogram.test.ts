import { describe, expect, test } from "bun:test";

import { quantileOf } from "./histogram.ts";

const text = [
  'waited_seconds_bucket{le="0.1",name="other"} 50',
  'waited_seconds_bucket{le="0.1",name="mine"} 0',
  'waited_seconds_bucket{le="1",name="mine"} 10',
  'waited_seconds_bucket{le="10",name="mine"} 90',
  'waited_seconds_bucket{le="+Inf",name="mine"} 100',
  'waited_seconds_count{name="mine"} 100',
].join("\n");
const quantile = (share: number, max: number): number => quantileOf(text, "waited_seconds", 'name="mine"', share, max);

describe("a histogram quantile", () => {
  test("interpolates linearly within its bucket", () => {
    expect(quantile(0.05, 100)).toBeCloseTo(0.55);
    expect(quantile(0.5, 100)).toBeCloseTo(5.5);
    expect(quantile(0.95, 100)).toBeCloseTo(55);
  });

  test("never exceeds the highest finite bound", () => {
    expect(quantile(0.5, 4)).toBeCloseTo(2.5);
    expect(quantile(1, 12)).toBeCloseTo(12);
  });

  test("is zero without observations", () => {
    expect(quantileOf(text, "waited_seconds", 'name="nobody"', 0.5, 10)).toBe(0);
  });
});
