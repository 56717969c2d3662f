import { join } from "node:path";

import { type Schedule, scheduleOf, shrink } from "./schedule.ts";
import { simulate } from "./simulation.ts";
import { type CampaignOptions, reportsOf } from "./system/campaign.ts";

export interface Campaign {
  readonly seeds: number;
  readonly steps: number;
  /** The first seed that failed, with a schedule that holds only what the failure needs. */
  readonly failure: { readonly seed: number; readonly report: string } | undefined;
}

const fails = async (schedule: Schedule): Promise<boolean> => (await simulate(schedule)).violations.length > 0;

/** Runs seeds from `first` until one fails, so many have run, or the time is up. */
export async function campaign(first: number, count: number, limitMs = Number.POSITIVE_INFINITY): Promise<Campaign> {
  const deadline = performance.now() + limitMs;
  let steps = 0;
  let seeds = 0;
  for (; seeds < count && performance.now() < deadline; seeds++) {
    const schedule = scheduleOf(first + seeds);
    const result = await simulate(schedule);
    steps += result.steps;
    if (result.violations.length === 0) continue;
    const smallest = await shrink(schedule, fails);
    return { seeds: seeds + 1, steps, failure: { seed: schedule.seed, report: await describe(smallest) } };
  }
  return { seeds, steps, failure: undefined };
}

async function describe(schedule: Schedule): Promise<string> {
  const { violations, log } = await simulate(schedule);
  return [
    ...violations,
    `schedule, shrunk; replay with: bun run bench simulation --replay='${JSON.stringify(schedule)}'`,
    ...log.slice(-60),
  ].join("\n");
}

/** Outcome of the schedule of a seed. */
interface ScheduleReport {
  readonly seed: number;
  readonly violations: readonly { readonly invariant: string }[];
}

/** Runs the schedules of seeds, `1,2,3`, in a process of their own, with a defect of `system/defects/host.ts` or without. */
export const schedules = ({ seeds, defect, ...limits }: CampaignOptions): AsyncGenerator<ScheduleReport> =>
  reportsOf<ScheduleReport>(
    [join(import.meta.dir, "main.ts"), `--seeds=${seeds}`, ...(defect === undefined ? [] : [`--defect=${defect}`])],
    limits,
  );
