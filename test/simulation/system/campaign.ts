import { join } from "node:path";

import type { History } from "./history.ts";
import type { Outcome } from "./simulate.ts";

/** Outcome of a history, with the lines of its trace if they were asked for. */
export interface Report extends Outcome {
  readonly seed: number;
  /** What a failure needs, if it was shrunk. */
  readonly history?: History;
}

export interface CampaignOptions {
  /** `1,2,10-19`; or one history as JSON. */
  readonly seeds: string;
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
  trace = false,
  shrink = false,
  defect,
  ...bounds
}: CampaignOptions): AsyncGenerator<Report> {
  const which = seeds.startsWith("{") ? `--history=${seeds}` : `--seeds=${seeds}`;
  const flags = [
    which,
    ...(trace ? ["--trace"] : []),
    ...(shrink ? ["--shrink"] : []),
    ...(defect === undefined ? [] : [`--defect=${defect}`]),
  ];
  return reportsOf<Report>([join(import.meta.dir, "main.ts"), ...flags], bounds);
}

/** The lines of JSON that a program prints, in a process of its own, each with the lines before it as its trace. */
export async function* reportsOf<T>(
  program: readonly string[],
  { limits, ended }: Pick<CampaignOptions, "limits" | "ended">,
): AsyncGenerator<T> {
  const command = [process.execPath, "--no-install", ...program];
  const child = Bun.spawn(limited(command, limits), {
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
