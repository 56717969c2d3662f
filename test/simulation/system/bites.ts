import { campaign, CampaignEndedError, type Limits } from "./campaign.ts";
import type { Defect } from "./defects/defect.ts";
import { type History, historyOf } from "./history.ts";
import type { InvariantName } from "./invariants/table.ts";

/** What a defect needs to be found. */
export interface Bite {
  /** Histories that were run: the last one found it, or none did. */
  readonly seeds: number;
  /** The seed that found it. */
  readonly seed: number | undefined;
  /** The invariant that it broke, or how its process ended; undefined: it was not found. */
  readonly by: InvariantName | "its limits" | undefined;
  readonly cpuSeconds: number;
}

/** Puts a defect into the product and runs histories until one breaks an invariant. */
export async function findDefect(defect: string, seeds: string, limits: Limits): Promise<Bite> {
  let tried = 0;
  let by: Bite["by"];
  let seed: number | undefined;
  let cpuSeconds = 0;
  const ended = (seconds: number): void => void (cpuSeconds = seconds);
  try {
    for await (const report of campaign({ seeds, defect, limits, ended })) {
      tried += 1;
      by = report.violations[0]?.invariant;
      if (by === undefined) continue;
      ({ seed } = report);
      break;
    }
  } catch (error) {
    // 1 is an exception, such as that of a defect that does not apply; a signal is that of a limit.
    if (!(error instanceof CampaignEndedError) || error.status < 128) throw error;
    by = "its limits";
  }
  return { seeds: tried, seed, by, cpuSeconds };
}

/** At most so many of one kind make a history likelier to show what needs them. */
const enough = 4;

/** How likely a history shows the defect, for each unit of what it takes to run; 0: something that it needs is missing. */
function worth({ needs = [] }: Defect, { actions, hosts }: History): number {
  const happening = actions.filter(({ host }) => host < hosts);
  const chances = needs.map((need) => Math.min(enough, happening.filter(({ kind }) => kind === need).length));
  const requests = hosts * (12 + actions.length);
  return chances.reduce((product, chance) => product * chance, 1) / requests;
}

/** Of the seeds, those whose histories are likeliest to show the defect, the best first. */
export function likelySeeds(defect: Defect, seeds: readonly number[], count: number): readonly number[] {
  const ranked = seeds.map((seed) => ({ seed, worth: worth(defect, historyOf(seed)) }));
  const possible = ranked.filter((one) => one.worth > 0).toSorted((one, other) => other.worth - one.worth);
  return possible.slice(0, count).map(({ seed }) => seed);
}
