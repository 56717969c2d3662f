import { campaign, CampaignEndedError, type CampaignOptions, type Limits } from "./campaign.ts";
import type { Defect } from "./defects/defect.ts";
import { type ActionKind, type History, historyOf } from "./history.ts";

/** What a defect needs to be found. */
export interface Bite {
  /** Histories that were run: the last one found it, or none did. */
  readonly histories: number;
  /** Those of them that fail without the defect as well. */
  readonly skipped: number;
  /** The one that found it. */
  readonly history: string | undefined;
  /** The invariant that it broke, or how its process ended; undefined: it was not found. */
  readonly by: string | undefined;
  readonly cpuSeconds: number;
}

/** Runs histories in a process of their own, and reports each one as it ends. */
type Run = (
  options: CampaignOptions,
) => AsyncIterable<{ readonly violations: readonly { readonly invariant: string }[] }>;

/** A history of its own process is beyond its limits after so many CPU seconds: most take a tenth. */
const maxHistorySeconds = 60;

function throwUnlessLimit(error: unknown): void {
  // 1 is an exception, such as that of a defect that does not apply; a signal is that of a limit.
  if (!(error instanceof CampaignEndedError) || error.status < 128) throw error;
}

/**
 * Puts a defect into the product and runs histories, each a seed or JSON, until one fails that is clean without it.
 * The limits are those of all histories: which one is beyond them shows when it runs alone.
 */
export async function findDefect(
  defect: string,
  histories: readonly string[],
  limits: Limits,
  run: Run = campaign,
): Promise<Bite> {
  let [tried, skipped, spent] = [0, 0, 0];
  const ended = (seconds: number): void => void (spent += seconds);
  const product = { defect };

  const alone = async (seeds: string, options: { readonly defect?: string }): Promise<Bite["by"]> => {
    const cpuSeconds = Math.min(limits.cpuSeconds, maxHistorySeconds);
    try {
      const reports = await Array.fromAsync(run({ ...options, seeds, limits: { ...limits, cpuSeconds }, ended }));
      return reports[0]?.violations[0]?.invariant;
    } catch (error) {
      throwUnlessLimit(error);
      return "its limits";
    }
  };
  const untilFailure = async (): Promise<Bite["by"]> => {
    const seeds = histories.slice(tried).join();
    const cpuSeconds = Math.ceil(limits.cpuSeconds - spent);
    try {
      for await (const { violations } of run({ ...product, seeds, limits: { ...limits, cpuSeconds }, ended })) {
        tried += 1;
        if (violations[0] !== undefined) return violations[0].invariant;
      }
      return undefined;
    } catch (error) {
      throwUnlessLimit(error);
      const inProgress = histories[tried];
      if (inProgress === undefined) return undefined;
      tried += 1;
      return await alone(inProgress, product);
    }
  };

  while (tried < histories.length && spent < limits.cpuSeconds) {
    const by = await untilFailure();
    const history = histories[tried - 1];
    if (by === undefined || history === undefined) continue;
    if ((await alone(history, {})) === undefined) return { histories: tried, skipped, history, by, cpuSeconds: spent };
    skipped += 1;
  }
  return { histories: tried, skipped, history: undefined, by: undefined, cpuSeconds: spent };
}

/** At most so many of one kind make a history likelier to show what needs them. */
const enough = 4;

/** What starts again from lists or takes Services away: it hides most defects that do not need it. */
const hiding: readonly string[] = [
  "killHost",
  "killAtWrite",
  "stopHost",
  "reload",
  "retag",
  "rotateCredentials",
  "wrongCredentials",
  "stealLease",
  "deleteService",
  "recreateService",
  "forceDelete",
] satisfies readonly ActionKind[];

/** How likely a history shows the defect, for each unit of what it takes to run; 0: something that it needs is missing. */
function worth({ needs = [], hosts: least = 1 }: Defect, { actions, hosts, second }: History): number {
  if (hosts < least) return 0;
  const happening = actions.filter(({ host }) => host < hosts);
  const chances = needs.map((need) => Math.min(enough, happening.filter(({ kind }) => kind === need).length));
  const requests = (hosts + (second?.hosts ?? 0)) * (12 + actions.length);
  const hidden = happening.filter(({ kind }) => hiding.includes(kind) && !needs.includes(kind)).length;
  return chances.reduce((product, chance) => product * chance, 1) / requests / (1 + hidden);
}

/** Of the seeds, those whose histories are likeliest to show the defect, the best first. */
export function likelySeeds(defect: Defect, seeds: readonly number[], count: number): readonly number[] {
  const ranked = seeds.map((seed) => ({ seed, worth: worth(defect, historyOf(seed)) }));
  const possible = ranked.filter((one) => one.worth > 0).toSorted((one, other) => other.worth - one.worth);
  return possible.slice(0, count).map(({ seed }) => seed);
}
