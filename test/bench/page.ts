import { appendFile, readFile, writeFile } from "node:fs/promises";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";

import { CodedError } from "cloud-controller-host/sdk";

import { type Bench, type Figure, medians, shown } from "./report.ts";
import { loadAverage } from "./world.ts";

/** One recorded run of a bench: a line of `runs.jsonl`. */
export interface Run {
  /** Without `bun run bench` and `--record`. */
  readonly command: string;
  readonly day: string;
  readonly commit: string;
  readonly machine: string;
  /** Over the minute before. */
  readonly load: number;
  readonly figures: readonly Figure[];
}

const runsPath = join(import.meta.dir, "runs.jsonl");

/** A path is of one machine alone. */
export const commandOf = (argv: readonly string[]): string =>
  argv
    .filter((word) => word !== "--record" && word !== "--json")
    .map((word) => word.replace(/=.*\/.*$/u, "=PATH"))
    .join(" ");

/** Runs a bench and appends what it found to `runs.jsonl`. */
export async function recorded(
  argv: readonly string[],
  work: () => Promise<readonly Figure[]>,
): Promise<readonly Figure[]> {
  if (!argv.includes("--record")) return work();
  const load = loadAverage();
  const figures = await work();
  const run: Run = {
    command: commandOf(argv),
    day: new Date().toISOString().slice(0, 10),
    commit: Bun.spawnSync(["git", "rev-parse", "--short=10", "HEAD"]).stdout.toString().trim(),
    machine: `${cpus().length} × ${cpus()[0]?.model ?? "?"}, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    load,
    figures,
  };
  await appendFile(runsPath, `${JSON.stringify(run)}\n`);
  return figures;
}

/** `bun run bench page`: writes README.md and the plots from `runs.jsonl`. */
export const pageBench: Bench = {
  about: "write test/bench/README.md and its plots from the runs that were made with --record",
  options: {},
  async run() {
    const lines = (await readFile(runsPath, "utf8").catch(() => "")).split("\n").filter((line) => line !== "");
    if (lines.length === 0)
      throw new CodedError("InvalidArgument", `no runs in ${runsPath}: run benches with --record`);
    const runs = lines.map((line): Run => JSON.parse(line));
    const plots = plotsOf(runs);
    for (const [name, svg] of plots) await writeFile(join(import.meta.dir, name), svg);
    await writeFile(join(import.meta.dir, "README.md"), pageOf(runs, [...plots.keys()]));
    return [
      { name: "runs", value: runs.length },
      { name: "plots", value: plots.size },
    ];
  },
};

const byCommand = (runs: readonly Run[]): ReadonlyMap<string, readonly Run[]> =>
  Map.groupBy(runs, ({ command }) => command);

export function pageOf(runs: readonly Run[], plots: readonly string[]): string {
  const sections = [...byCommand(runs)].toSorted(([one], [other]) => one.localeCompare(other)).map(sectionOf);
  return [
    "# Benchmarks",
    "",
    "Written by `bun run bench page` from the runs in [runs.jsonl](runs.jsonl); `bun run bench NAME --record` adds one. Where a",
    "command was run more than once, a value is the median, with the lowest and highest in parentheses.",
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
  ["`MIMALLOC_PURGE_DELAY` of a second", "3.1 %", "3.0 %", "no gain"],
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
] as const;

/** Of the latest commit that the command was run on. */
function sectionOf([command, all]: readonly [string, readonly Run[]]): readonly string[] {
  const latest = all.at(-1);
  if (latest === undefined) return [];
  const { commit, day, machine } = latest;
  const runs = all.filter((run) => run.commit === commit && run.machine === machine);
  const loads = runs.map(({ load }) => load);
  const figures = medians(runs.map((run) => run.figures)).filter(({ name }) => name !== "loadAverage");
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
    unit,
    aim,
  ]);
  return [
    `## \`bun run bench ${command}\``,
    "",
    `${day}, commit ${commit}, ${machine}, load ${shown(Math.min(...loads))} to ${shown(Math.max(...loads))} before it began.`,
    "",
    ...table([head, ...cells]),
    "",
  ];
}

/** As the formatter of the project aligns it. */
function table(rows: readonly (readonly string[])[]): readonly string[] {
  const columns = rows[0]?.keys().toArray() ?? [];
  const widths = columns.map((column) => Math.max(3, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(" | ")} |`;
  const [head = [], ...body] = rows;
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body.map(line)];
}

/** What grows with the number of nodes. */
const plotted = ["firstSeconds", "allSeconds", "restCpuPercent", "reloadP99Ms", "reloadRssMiB", "restartIdleSeconds"];
const [width, height, margin] = [480, 240, 48];

/** One plot per figure of `scale` that was measured with several numbers of nodes. */
export function plotsOf(runs: readonly Run[]): ReadonlyMap<string, string> {
  const plots = new Map<string, string>();
  const scale = [...byCommand(runs.filter(({ command }) => command.startsWith("scale")))].map(([, same]) =>
    medians(same.map(({ figures }) => figures)),
  );
  for (const name of plotted) {
    const points = scale
      .map((figures) => ({ x: numberIn(figures, "nodes"), y: numberIn(figures, name) }))
      .filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))
      .toSorted((one, other) => one.x - other.x);
    if (new Set(points.map(({ x }) => x)).size < 2) continue;
    const unit = runs.flatMap(({ figures }) => figures).find((figure) => figure.name === name)?.unit ?? "";
    plots.set(`scale-${name}.svg`, plot(`${name}: ${unit}`, points));
  }
  return plots;
}

const numberIn = (figures: readonly Figure[], name: string): number =>
  Number(figures.find((figure) => figure.name === name)?.value ?? Number.NaN);

interface Point {
  readonly x: number;
  readonly y: number;
}

function plot(title: string, points: readonly Point[]): string {
  const [maxX, maxY] = [Math.max(...points.map(({ x }) => x)), Math.max(...points.map(({ y }) => y), 1e-9)];
  const at = ({ x, y }: Point): readonly [number, number] => [
    Math.round(margin + (x / maxX) * (width - 2 * margin)),
    Math.round(height - margin - (y / maxY) * (height - 2 * margin)),
  ];
  const marks = points.map((point) => {
    const [cx, cy] = at(point);
    const label = `<text x="${cx}" y="${cy - 8}" text-anchor="middle">${shown(point.y)}</text>`;
    return `<circle cx="${cx}" cy="${cy}" r="3"/>${label}<text x="${cx}" y="${height - 28}" text-anchor="middle">${point.x}</text>`;
  });
  const axes = `M${margin} ${margin / 2}V${height - margin}H${width - margin / 2}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<rect width="${width}" height="${height}" fill="#fff"/><path d="${axes}" fill="none" stroke="#888"/>`,
    `<text x="${margin}" y="16">${title.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</text>`,
    `<text x="${width / 2}" y="${height - 8}" text-anchor="middle">nodes</text>`,
    `<polyline points="${points.map((point) => at(point).join(",")).join(" ")}" fill="none" stroke="#0067b8"/>`,
    ...marks,
    "</svg>",
    "",
  ].join("\n");
}
