import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { CodedError } from "cloud-controller-host/sdk";

import { plotsOf } from "./plot.ts";
import { type Bench, shown } from "./report.ts";
import { recordedRuns, type Result, resultsOf, runsPath } from "./runs.ts";
import { withSizes } from "./sizes.ts";
import { table } from "./table.ts";

/** The page with the sizes of a deployment. */
export const sizesPath = join(import.meta.dir, "../../deploy/README.md");

/** `bun run bench page`: writes README.md and the plots from `runs.jsonl`. */
export const pageBench: Bench = {
  about: "write test/bench/README.md and its plots from the runs that were made with --record",
  options: {},
  async run() {
    const runs = await recordedRuns();
    if (runs.length === 0) throw new CodedError("InvalidArgument", `no runs in ${runsPath}: run benches with --record`);
    const results = resultsOf(runs);
    const plots = plotsOf(results);
    for (const [name, svg] of plots) await writeFile(join(import.meta.dir, name), svg);
    await writeFile(join(import.meta.dir, "README.md"), pageOf(results, [...plots.keys()]));
    await writeFile(sizesPath, withSizes(await readFile(sizesPath, "utf8"), results));
    return [
      { name: "runs", value: runs.length },
      { name: "plots", value: plots.size },
    ];
  },
};

export function pageOf(results: readonly Result[], plots: readonly string[]): string {
  const sections = results.toSorted((one, other) => one.command.localeCompare(other.command)).map(sectionOf);
  return [
    "# Benchmarks",
    "",
    "Written by `bun run bench page` from the runs in [runs.jsonl](runs.jsonl); `bun run bench NAME --record` adds one. Where a",
    "command was run more than once, a value is the median, with the lowest and highest in parentheses. Runs before the latest",
    "commit of a command are not on this page.",
    "",
    ...plots.flatMap((file) => [`![${file.replace(/\.svg$/, "").replaceAll("-", " ")}](${file})`, ""]),
    ...sections.flat(),
    "## Tried, and left out",
    "",
    "The informer alone takes 0.4 to 0.6 ms of processor time for each report of a node's status, on two busy cores. Its 15 KB",
    "are parsed in 0.02 ms. The settings of the runtime were compared in one run each, the others in several.",
    "",
    ...table(tried),
    "",
  ].join("\n");
}

const tried = [
  ["Change", "With it", "Without it", "Why it was left out"],
  [
    "`status.images` cut out of a line before it is parsed",
    "11.6 µs per line",
    "17.6 µs",
    "a hundredth of what a report costs",
  ],
  ["Lines parsed from Latin-1, by `Response.json`, by `Bun.JSONL`", "20.7, 21.0, 19.2 µs", "18.9 µs", "no gain"],
  [
    "The watch read at most every 100 ms",
    "0.35 to 0.39 ms per report",
    "0.51 to 0.56 ms",
    "each change of a node arrives up to 100 ms later, and so do own writes, for which a reload waits",
  ],
  ["Bun's thresholds for its compiler", "3.4 % of a core at 50 reports/s", "3.0 %", "no gain"],
  ["`BUN_JSC_forceRAMSize` of 768 MiB", "3.0 %", "3.0 %", "no gain"],
  ["`BUN_GC_TIMER_INTERVAL` of a minute", "3.1 %", "3.0 %", "no gain"],
  [
    "`Bun.gc(false)` after a reload at 15,000 nodes, in place of `fullGC()`",
    "165, 166 ms, the longest stall",
    "163, 193 ms",
    "no gain: a collection is 58 to 99 ms of it",
  ],
  ["`MIMALLOC_PURGE_DELAY` of a second", "3.1 %", "3.0 %", "no gain"],
  [
    "`MIMALLOC_PURGE_DELAY=-1`: no memory goes back to the system",
    "6.1 to 7.8 % at 100 reports/s",
    "9.7 to 10.9 %",
    "34 MiB more at 500 nodes",
  ],
  [
    "The garbage collector without `BUN_JSC_forceRAMSize`, or with 768 MiB, while 8,000 nodes are listed",
    "0.73, 0.79 s of processor time",
    "0.64 to 0.66 s",
    "no gain",
  ],
  [
    "The delay of the event loop sampled every 50 ms in place of 10 ms, in a process without other work",
    "0.11 to 0.12 % of a core",
    "0.36 to 0.38 %",
    "most stalls of 50 ms would pass unseen",
  ],
  [
    "Strings of labels and of `nodeInfo` shared between stored nodes, as those of conditions are",
    "10.2 MiB for 5,000 nodes",
    "10.4 MiB",
    "`JSON.parse` shares most of them; 2 µs per report",
  ],
  ["A loop in place of `find` to see whether a node is ready", "13 ms per pass over 15,000", "13 ms", "no gain"],
  [
    "A stream's body read without the wrapper that releases its signal, 5,000 lines of 15 KB",
    "0.30 to 0.72 s of processor time",
    "0.12 to 0.65 s",
    "no gain",
  ],
  [
    "A metric's labels compared with those of its last value before the key of its series is made",
    "0.4 to 1.0 µs per value",
    "0.9 to 1.8 µs",
    "a hundredth of what a node costs at a start",
  ],
  [
    "The image's files without white space and in shorter syntax, at a start",
    "0.63 s of processor time",
    "0.65 s",
    "no gain, and traces of packages lose their lines",
  ],
  [
    "Bun's thresholds for its first compiler six times as high, no second one, or one thread for the collector, at a start",
    "0.67, 0.68, 0.72 s of processor time",
    "0.73 s, 0.62 to 0.74 s",
    "no gain",
  ],
  [
    "Turns of loops of 2 ms in place of 5 ms, at a restart with 5,000 nodes",
    "54 ms of processor time in the longest turn, 4 turns of more than 40 ms",
    "57 ms, 7 turns",
    "a page of ARM and the garbage collector take longer",
  ],
  [
    "Ten short histories with Bun's own thresholds for its compilers, with the first one after 100 or 2,000 calls, or without the second one",
    "21.0 and 22.9, 18.9 and 21.8, 17.5 and 19.9, 23.7 and 27.9 s of processor time",
    "20.1, 23.5 s",
    "no gain beyond what runs differ by",
  ],
  [
    "The same with `BUN_GC_TIMER_DISABLE`, with 32 GiB of `BUN_JSC_forceRAMSize`, or with one thread for the collector",
    "21.0 and 21.0, 21.5 and 22.6, 20.7 and 26.2 s",
    "20.1, 23.5 s",
    "no gain",
  ],
  [
    "Thresholds of 3,000 in place of 10,000 for Bun's second compiler, the 16th to 30th short history of a process",
    "14.5, 16.1 s; 28.7 s on a very busy machine",
    "18.7, 18.7 s; 28.7 s",
    "no gain in the first 15; not certain in the others",
  ],
  [
    "A metric's oldest series looked for only beyond the limit of series",
    "1.4 to 2.5 µs per value",
    "1.3 to 2.0 µs",
    "no gain",
  ],
] as const;

const maxWidth = 80;

/** What the cell of a unit has, and what follows the table: a chain of requests is too long for a cell. */
function partsOf(unit: string): readonly [cell: string, note?: string] {
  const at = unit.length > maxWidth ? unit.indexOf(": ") : -1;
  return at < 0 ? [unit] : [`${unit.slice(0, at)}, see below`, unit.slice(at + 2)];
}

function sectionOf({ command, day, commit, machine, runs, load, figures: all }: Result): readonly string[] {
  const figures = all.filter(({ name }) => name !== "loadAverage" && name !== "runs");
  const isComparison = figures.some(({ against }) => against !== undefined);
  const head = [
    "Figure",
    isComparison ? "This host" : "Value",
    ...(isComparison ? ["The Go binary"] : []),
    "Unit",
    "Aim",
  ];
  const cells = figures.map(({ name, value, unit = "", aim = "", against = "" }) => [
    name,
    shown(value),
    ...(isComparison ? [shown(against)] : []),
    partsOf(unit)[0],
    aim,
  ]);
  const notes = figures.flatMap(({ name, unit = "" }) => {
    const [, note] = partsOf(unit);
    return note === undefined ? [] : [`${name}: ${note}.`, ""];
  });
  const times = runs === 1 ? "one run" : `${runs} runs`;
  const loads = [...new Set(load.map(shown))].join(" to ");
  return [
    `## \`bun run bench ${command}\``,
    "",
    `${day}, commit ${commit}, ${machine}, ${times}, load ${loads} before it began.`,
    "",
    ...table([head, ...cells]),
    "",
    ...notes,
  ];
}
