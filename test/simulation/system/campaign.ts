import { join } from "node:path";

import { compilation } from "../../kit/compilation.ts";
import type { History } from "./history.ts";
import type { Outcome } from "./simulate.ts";

/** Outcome of a history, with the lines of its trace if they were asked for. */
export interface Report extends Outcome {
  readonly seed: number;
  readonly cpuSeconds: number;
  /** What a failure needs, if its seed alone is not enough. */
  readonly history?: History;
}

export interface CampaignOptions {
  /** `1,2,10-19`; or one history as JSON. */
  readonly seeds: string;
  /** Hours of a large cluster. */
  readonly hours?: boolean;
  /** Short histories in which much happens at once. */
  readonly minutes?: boolean;
  /** Kinds of action of which each happens in a minute. */
  readonly needs?: readonly string[];
  readonly trace?: boolean;
  readonly shrink?: boolean;
  /** A defect to put into the product. */
  readonly defect?: string;
  readonly limits?: Limits;
  /** Called when the process has ended, with the CPU seconds that it took. */
  readonly ended?: (cpuSeconds: number) => void;
}

/** A process that needs more is killed. */
export interface Limits {
  readonly cpuSeconds: number;
  readonly memoryMiB: number;
}

/** The process of a campaign ended before its last history did. */
export class CampaignEndedError extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the simulation ended with status ${status}`);
    this.status = status;
  }
}

/** Time by the clock that a process gets for each CPU second: it may share its core. */
const patience = 5;

function limited(command: readonly string[], limits: Limits | undefined): string[] {
  if (limits === undefined) return [...command];
  const { cpuSeconds, memoryMiB } = limits;
  return ["sh", "-c", `ulimit -t ${cpuSeconds}; ulimit -d ${memoryMiB * 1024}; exec "$@"`, "sh", ...command];
}

/** Runs histories in a process of their own, and reports each one as it ends. */
export function campaign({
  seeds,
  hours = false,
  minutes = false,
  needs = [],
  trace = false,
  shrink = false,
  defect,
  ...bounds
}: CampaignOptions): AsyncGenerator<Report> {
  const which = seeds.startsWith("{") ? `--history=${seeds}` : `--seeds=${seeds}`;
  const flags = [
    which,
    ...(hours ? ["--hours"] : []),
    ...(minutes ? ["--minutes", `--needs=${needs.join()}`] : []),
    ...(trace ? ["--trace"] : []),
    ...(shrink ? ["--shrink"] : []),
    ...(defect === undefined ? [] : [`--defect=${defect}`]),
  ];
  return reportsOf<Report>([join(import.meta.dir, "main.ts"), ...flags], bounds);
}

/** Seeds from `first` on in ranges, one for each of so many processes. */
export function rangesOf(first: number, count: number, processes: number): readonly string[] {
  const end = first + count;
  const size = Math.max(1, Math.ceil(count / processes));
  return Array.from({ length: processes }, (_, index) => first + index * size)
    .filter((from) => from < end)
    .map((from) => `${from}-${Math.min(from + size, end) - 1}`);
}

/** Reports of campaigns that run side by side, each as it comes. Ends all of them when its reader stops. */
export async function* sideBySide<T>(campaigns: readonly AsyncGenerator<T>[]): AsyncGenerator<T> {
  const next = (of: AsyncGenerator<T>) => of.next().then((result) => ({ of, result }));
  const pending = new Map(campaigns.map((of) => [of, next(of)]));
  try {
    while (pending.size > 0) {
      const { of, result } = await Promise.race(pending.values());
      pending.delete(of);
      if (result.done === true) continue;
      pending.set(of, next(of));
      yield result.value;
    }
  } finally {
    await Promise.all(campaigns.map((of) => of.return(undefined)));
  }
}

/** The first lines in which two runs of one history differ, after the last that they share; empty: both are the same. */
export function firstDifference(one: Report, other: Report): readonly string[] {
  if (one.hash === other.hash) return [];
  const { length } = one.trace;
  const found = one.trace.findIndex((line, index) => line !== other.trace[index]);
  const at = found < 0 ? length : found;
  return [
    `two runs of seed ${one.seed} differ in line ${at + 1}`,
    `  both: ${one.trace[at - 1] ?? "(none)"}`,
    `  one: ${one.trace[at] ?? "(end)"}`,
    `  other: ${other.trace[at] ?? "(end)"}`,
  ];
}

/** The lines of JSON that a program prints, in a process of its own, each with the lines before it as its trace. */
export async function* reportsOf<T>(
  program: readonly string[],
  { limits, ended }: Pick<CampaignOptions, "limits" | "ended">,
): AsyncGenerator<T> {
  const command = [process.execPath, "--no-install", ...program];
  const child = Bun.spawn(limited(command, limits), {
    env: { ...process.env, ...compilation },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
    ...(limits && { timeout: limits.cpuSeconds * patience * 1000 }),
  });
  try {
    let lines: string[] = [];
    let rest = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const complete = `${rest}${chunk}`.split("\n");
      rest = complete.pop() ?? "";
      for (const line of complete) {
        if (line.startsWith("{")) {
          yield { ...JSON.parse(line), trace: lines };
          lines = [];
        } else lines.push(line);
      }
    }
    const status = await child.exited;
    if (status !== 0) throw new CampaignEndedError(status);
  } finally {
    child.kill("SIGKILL");
    await child.exited;
    ended?.(Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1_000_000);
  }
}

/** A failure for people: what broke, the way to run it again, and what happened last. */
export function describeFailure({ seed, violations, history, trace }: Report): string {
  return [
    ...violations.map(({ invariant, text }) => `${invariant}: ${text}`),
    `replay with: bun run bench simulation --system --replay='${history === undefined ? seed : JSON.stringify(history)}'`,
    ...trace.filter((line) => !uneventful.test(line)).slice(-60),
  ].join("\n");
}

/** Reads, renewals and events that succeeded: most of a trace. `--replay` prints it whole. */
const uneventful =
  / (?:kube|azure) (?:GET |\w+ \S*(?:\/leases\/|\/events|\/oauth2\/)).* -> 2\d\d$|\] "Event occurred" /u;
