import { expect, test } from "bun:test";

import { commandOf, pageOf, plotsOf, type Run } from "./page.ts";

const run = (nodes: number, seconds: number, more: Partial<Run> = {}): Run => ({
  command: `scale --nodes=${nodes}`,
  day: "2026-11-23",
  commit: "abc",
  machine: "2 × CPU, 8 GiB",
  load: 0.5,
  figures: [
    { name: "nodes", value: nodes },
    { name: "firstSeconds", value: seconds, unit: "s", aim: "at most 3 s" },
  ],
  ...more,
});

test("the page has the median and the spread of the runs of each command, on the latest commit and machine alone", () => {
  const runs = [
    run(10, 99, { commit: "old" }),
    run(10, 99, { machine: "other" }),
    run(10, 3),
    run(10, 1),
    run(10, 2, { load: 4 }),
  ];
  const page = pageOf(runs, []);
  expect(page).toContain("## `bun run bench scale --nodes=10`");
  expect(page).toContain("commit abc, 2 × CPU, 8 GiB, load 0.50 to 4 before");
  expect(page).toMatch(/\| firstSeconds \| 2 +\| s \(1 to 3\) +\| at most 3 s +\|/);
});

test("a figure is plotted over the numbers of nodes, where there are several", () => {
  expect(plotsOf([run(10, 1)]).size).toBe(0);
  const plot = plotsOf([run(10, 1), run(20, 4)]).get("scale-firstSeconds.svg") ?? "";
  expect(plot).toContain(">4</text>");
  expect(plot).toContain('points="240,156 432,48"');
});

test("a recorded command names no path of the machine", () => {
  expect(commandOf(["compare", "--go=./bin/ccm", "--record", "--nodes=5"])).toBe("compare --go=PATH --nodes=5");
});

test("a comparison has a column for the other program", () => {
  const figures = [{ name: "seconds", value: 1.5, unit: "s", against: "not in 120 s" }];
  const page = pageOf([run(10, 1, { command: "compare --go=PATH", figures })], []);
  expect(page).toMatch(/\| Figure +\| This host \| The Go binary \| Unit \| Aim \|/);
  expect(page).toMatch(/\| seconds \| 1\.50 +\| not in 120 s +\| s +\|/);
});
