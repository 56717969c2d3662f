import { expect, test } from "bun:test";

import { medians } from "./report.ts";

const run = (seconds: number, nodes = 5) => [
  { name: "nodes", value: nodes },
  { name: "armLatency", value: "0ms" },
  { name: "seconds", value: seconds, unit: "s", aim: "1" },
];

test("several runs are reported as the median of each figure, with its spread", () => {
  expect(medians([run(1), run(9), run(2)])).toEqual([
    { name: "runs", value: 3, unit: "medians, with the lowest and highest value" },
    { name: "nodes", value: 5, unit: "" },
    { name: "armLatency", value: "0ms" },
    { name: "seconds", value: 2, unit: "s (1 to 9)", aim: "1" },
  ]);
  expect(medians([run(1), run(2), run(4), run(9)])[3]?.value).toBe(3);
});

test("a single run is reported as it is", () => {
  expect(medians([run(1)])).toEqual(run(1));
});
