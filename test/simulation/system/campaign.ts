import { join } from "node:path";

import type { History } from "./history.ts";
import type { Outcome } from "./simulate.ts";

/** What became of a history, with the lines of its trace if they were asked for. */
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
}

/** Runs histories in a process of their own, and reports each one as it ends. */
export async function* campaign({
  seeds,
  trace = false,
  shrink = false,
  defect,
}: CampaignOptions): AsyncGenerator<Report> {
  const which = seeds.startsWith("{") ? `--history=${seeds}` : `--seeds=${seeds}`;
  const flags = [
    which,
    ...(trace ? ["--trace"] : []),
    ...(shrink ? ["--shrink"] : []),
    ...(defect === undefined ? [] : [`--defect=${defect}`]),
  ];
  const child = Bun.spawn([process.execPath, "--no-install", join(import.meta.dir, "main.ts"), ...flags], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
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
    if (status !== 0) throw new Error(`the simulation ended with status ${status}`);
  } finally {
    child.kill();
  }
}

/** How many of the seeds a defect needs to be found, and what finds it; undefined: it is not found. */
export async function findDefect(
  defect: string,
  seeds: string,
): Promise<{ readonly seeds: number; readonly by: string } | undefined> {
  let tried = 0;
  for await (const { violations } of campaign({ seeds, defect })) {
    tried += 1;
    if (violations[0] !== undefined) return { seeds: tried, by: violations[0].invariant };
  }
  return undefined;
}

/** A failure for people: what broke, the way to run it again, and what happened last. */
export function describeFailure({ seed, violations, history, trace }: Report): string {
  return [
    ...violations.map(({ invariant, text }) => `${invariant}: ${text}`),
    `replay with: bun run bench simulation --system --replay='${history === undefined ? seed : JSON.stringify(history)}'`,
    ...trace.slice(-60),
  ].join("\n");
}
