import { join } from "node:path";

import type { Bite } from "./bites.ts";
import { CampaignEndedError, type CampaignOptions, reportsOf } from "./campaign.ts";
import type { Outcome } from "./simulate.ts";

/** A kept history to run, with a defect in the product or without. */
export interface KeptRow {
  readonly kept: string;
  readonly defect?: string;
}

export interface KeptReport extends KeptRow, Pick<Outcome, "happened"> {
  /** The first one. */
  readonly violation: Outcome["violations"][number] | undefined;
  readonly cpuSeconds: number;
}

/** A defect and the kept history that shows it. */
export type KeptDefect = Required<KeptRow>;

type Run = (rows: readonly KeptRow[], options: Pick<CampaignOptions, "limits">) => AsyncIterable<KeptReport>;

/** Rows of one process: what its modules hold on to grows with each. */
const rowsPerProcess = 12;
/** A kept history takes two to six CPU seconds; one that needs so many is beyond its limits. */
const maxSeconds = 60;

const inProcess: Run = (rows, options) =>
  reportsOf<KeptReport>([join(import.meta.dir, "kept-main.ts"), JSON.stringify(rows)], options);

/** What the kept histories of defects show: `skipped` where a history fails without its defect as well. */
export async function* keptBites(
  defects: readonly KeptDefect[],
  memoryMiB: number,
  run: Run = inProcess,
): AsyncGenerator<{ readonly defect: string } & Bite> {
  const limits = { cpuSeconds: maxSeconds, memoryMiB };
  /** True for each kept history that is clean without a defect. */
  const clean = new Map<string, boolean>();

  const biteOf = ({ defect, kept }: KeptDefect, by: Bite["by"], cpuSeconds: number) => {
    const isFound = by !== undefined && clean.get(kept) === true;
    return {
      defect,
      histories: 1,
      skipped: clean.get(kept) === true ? 0 : 1,
      history: isFound ? kept : undefined,
      by: isFound ? by : undefined,
      cpuSeconds,
    };
  };
  /** The process that it shared with others has ended during it: whether it is the one that needs too much shows alone. */
  async function* alone(row: KeptRow): AsyncGenerator<KeptReport | "its limits"> {
    try {
      yield* run([row], { limits });
    } catch (error) {
      if (!(error instanceof CampaignEndedError) || error.status < 128) throw error;
      yield "its limits";
    }
  }
  async function* reports(rows: readonly KeptRow[]): AsyncGenerator<readonly [KeptRow, KeptReport | "its limits"]> {
    for (let done = 0; done < rows.length;) {
      const left = rows.slice(done, done + rowsPerProcess);
      try {
        for await (const report of run(left, { limits: { ...limits, cpuSeconds: maxSeconds + 10 * left.length } })) {
          done += 1;
          yield [report, report];
        }
      } catch (error) {
        const row = rows[done];
        if (!(error instanceof CampaignEndedError) || error.status < 128 || row === undefined) throw error;
        done += 1;
        for await (const report of alone(row)) yield [row, report];
      }
    }
  }

  const rows = [...Map.groupBy(defects, ({ kept }) => kept)].flatMap(([kept, ofHistory]) => [{ kept }, ...ofHistory]);
  for await (const [{ kept, defect }, report] of reports(rows)) {
    const by = report === "its limits" ? report : report.violation?.invariant;
    if (defect === undefined) clean.set(kept, by === undefined);
    else yield biteOf({ defect, kept }, by, report === "its limits" ? maxSeconds : report.cpuSeconds);
  }
}
