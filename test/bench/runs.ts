import { appendFile, readFile } from "node:fs/promises";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";

import { type Figure, medians } from "./report.ts";
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

export const runsPath = join(import.meta.dir, "runs.jsonl");

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

/** Every recorded run, the oldest first. */
export async function recordedRuns(): Promise<readonly Run[]> {
  const lines = (await readFile(runsPath, "utf8").catch(() => "")).split("\n").filter((line) => line !== "");
  return lines.map((line): Run => JSON.parse(line));
}

/** A command as it did on the latest commit and machine that it was recorded on; runs before that are superseded. */
export interface Result extends Pick<Run, "command" | "day" | "commit" | "machine"> {
  readonly runs: number;
  /** The lowest and the highest load before a run. */
  readonly load: readonly [number, number];
  /** Medians. */
  readonly figures: readonly Figure[];
}

export function resultsOf(runs: readonly Run[]): readonly Result[] {
  return [...Map.groupBy(runs, ({ command }) => command).values()].flatMap((all) => {
    const latest = all.at(-1);
    if (latest === undefined) return [];
    const { command, day, commit, machine } = latest;
    const same = all.filter((run) => run.commit === commit && run.machine === machine);
    const loads = same.map(({ load }) => load);
    const figures = medians(same.map((run) => run.figures));
    const load = [Math.min(...loads), Math.max(...loads)] as const;
    return { command, day, commit, machine, runs: same.length, load, figures };
  });
}

export const numberIn = ({ figures }: Pick<Result, "figures">, name: string): number =>
  Number(figures.find((figure) => figure.name === name)?.value ?? Number.NaN);
