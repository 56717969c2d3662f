import { campaign, CampaignEndedError, type Limits } from "./campaign.ts";
import type { InvariantName } from "./invariants/table.ts";

/** What a defect needs to be found. */
export interface Bite {
  /** Histories that were run: the last one found it, or none did. */
  readonly seeds: number;
  /** The invariant that it broke, or how its process ended; undefined: it was not found. */
  readonly by: InvariantName | "its limits" | undefined;
  readonly cpuSeconds: number;
}

/** Puts a defect into the product and runs histories until one breaks an invariant. */
export async function findDefect(defect: string, seeds: string, limits: Limits): Promise<Bite> {
  let tried = 0;
  let by: Bite["by"];
  let cpuSeconds = 0;
  const ended = (seconds: number): void => void (cpuSeconds = seconds);
  try {
    for await (const { violations } of campaign({ seeds, defect, limits, ended })) {
      tried += 1;
      by = violations[0]?.invariant;
      if (by !== undefined) break;
    }
  } catch (error) {
    // 1 is an exception, such as that of a defect that does not apply; a signal is that of a limit.
    if (!(error instanceof CampaignEndedError) || error.status < 128) throw error;
    by = "its limits";
  }
  return { seeds: tried, by, cpuSeconds };
}
