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
const quantile = (share: number, most: number): number =>
  quantileOf(text, "waited_seconds", 'name="mine"', share, most);

describe("a quantile of a histogram", () => {
  test("lies in its bucket, where the values are taken to be spread evenly", () => {
    expect(quantile(0.05, 100)).toBeCloseTo(0.55);
    expect(quantile(0.5, 100)).toBeCloseTo(5.5);
    expect(quantile(0.95, 100)).toBeCloseTo(55);
  });

  test("is not above what is known to be the most", () => {
    expect(quantile(0.5, 4)).toBeCloseTo(2.5);
    expect(quantile(1, 12)).toBeCloseTo(12);
  });

  test("is nought where nothing was observed", () => {
    expect(quantileOf(text, "waited_seconds", 'name="nobody"', 0.5, 10)).toBe(0);
  });
});
