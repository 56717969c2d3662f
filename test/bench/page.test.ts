import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { pageOf, sizesPath } from "./page.ts";
import { plotsOf } from "./plot.ts";
import { commandOf, recordedRuns, resultsOf, type Run } from "./runs.ts";
import { withSizes } from "./sizes.ts";

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
  const page = pageOf(resultsOf(runs), []);
  expect(page).toContain("## `bun run bench scale --nodes=10`");
  expect(page).toContain("commit abc, 2 × CPU, 8 GiB, 3 runs, load 0.50 to 4 before");
  expect(page).toMatch(/\| firstSeconds \| 2 +\| s \(1 to 3\) +\| at most 3 s +\|/);
});

test("a figure is plotted over the numbers of nodes, where there are several", () => {
  expect(plotsOf(resultsOf([run(10, 1)])).size).toBe(0);
  const plot =
    plotsOf(resultsOf([run(10, 9, { commit: "old" }), run(20, 4), run(10, 1)])).get("scale-firstSeconds.svg") ?? "";
  expect(plot).toContain(">4</text>");
  expect(plot).toContain('points="240,156 432,48"');
});

test("the table of sizes has one row for each number of nodes, of the shortest command", () => {
  const named = ["initializedRssMiB", "reloadRssMiB", "reloads", "cpuSeconds", "restCpuPercent", "handOverMs"];
  const sized = (nodes: number, value: number, options = ""): Run => ({
    ...run(nodes, 1, { command: `scale --nodes=${nodes}${options}` }),
    figures: [{ name: "nodes", value: nodes }, ...named.map((name) => ({ name, value }))],
  });
  const results = resultsOf([sized(10, 7, " --reloads=5"), sized(10, 3), sized(50, 4, " --reloads=20")]);
  const services = "| Services | At most | Until all have an address | CPU until then | Restart | CPU of a restart |\n";
  const nodes = "| Nodes | Memory | With reloads | CPU until all are initialized | CPU at rest | Hand-over |\n";
  const rows = withSizes(`${nodes}\n${services}`, results).split("\n\n")[0]?.split("\n").slice(2) ?? [];
  expect(rows.map((row) => row.replaceAll(/ +/g, " "))).toEqual([
    "| 10 | 3 MB | 3 MB after 3 | 3.0 s | 30m | 0.0 s |",
    "| 50 | 4 MB | 4 MB after 4 | 4.0 s | 40m | 0.0 s |",
  ]);
});

test("a recorded command names no path of the machine", () => {
  expect(commandOf(["compare", "--go=./bin/ccm", "--record", "--nodes=5"])).toBe("compare --go=PATH --nodes=5");
});

test("a comparison has a column for the other program", () => {
  const figures = [{ name: "seconds", value: 1.5, unit: "s", against: "not in 120 s" }];
  const page = pageOf(resultsOf([run(10, 1, { command: "compare --go=PATH", figures })]), []);
  expect(page).toMatch(/\| Figure +\| This host \| The Go binary \| Unit \| Aim \|/);
  expect(page).toMatch(/\| seconds \| 1\.50 +\| not in 120 s +\| s +\|/);
});

test("a plot names the API server where it was not a real one, and its unit without the spread of several runs", () => {
  const figures = (seconds: number) => [
    { name: "nodes", value: 20 },
    { name: "server", value: "sandbox" },
    { name: "firstSeconds", value: seconds, unit: "s" },
  ];
  const runs = [run(10, 1), run(10, 2), run(20, 0, { figures: figures(4) })];
  const plot = plotsOf(resultsOf(runs)).get("scale-firstSeconds.svg") ?? "";
  expect(plot).toContain(">firstSeconds: s</text>");
  expect(plot).toContain(">10</text>");
  expect(plot).toContain(">20, sandbox</text>");
});

test("a page without a table of sizes is an error", () => {
  expect(() => withSizes("| Nodes | Memory |\n", [])).toThrow("no table with the columns Nodes, Memory, With reloads");
});

test("the page, its plots and the sizes of a deployment are those of the recorded runs", async () => {
  const results = resultsOf(await recordedRuns());
  const plots = plotsOf(results);
  const file = (name: string): Promise<string> => readFile(join(import.meta.dir, name), "utf8");
  expect(await file("README.md")).toBe(pageOf(results, [...plots.keys()]));
  for (const [name, svg] of plots) expect(await file(name)).toBe(svg);
  const sizes = await readFile(sizesPath, "utf8");
  expect(withSizes(sizes, results)).toBe(sizes);
  expect(sizes).toMatch(/^\| 15000 +\| \d+ MB/mu);
  expect(sizes).toMatch(/^\| 500 +\| \d+ MB +\| [\d.]+ s /mu);
});

test("a unit that is too long for a cell, such as a chain of requests, follows the table", () => {
  const chain = `${"GET loadBalancers, ".repeat(5)}PUT virtualMachines × 2`;
  const unit = `s for 35 in sequence: ${chain}`;
  const figures = [{ name: "chainSeconds", value: 1.5, unit }];
  const page = pageOf(resultsOf([run(10, 1, { figures })]), []);
  expect(page).toContain("| chainSeconds | 1.50  | s for 35 in sequence, see below |");
  expect(page).toContain(`\n\nchainSeconds: ${chain}.\n`);
});
