import { campaign, schedules } from "../simulation/campaign.ts";
import { simulate } from "../simulation/simulation.ts";
import { type Bite, findDefect, likelySeeds } from "../simulation/system/bites.ts";
import {
  campaign as systemCampaign,
  type CampaignOptions,
  describeFailure,
  firstDifference,
  rangesOf,
  sideBySide,
} from "../simulation/system/campaign.ts";
import type { Defect } from "../simulation/system/defects/defect.ts";
import { hostDefects } from "../simulation/system/defects/host.ts";
import { defects } from "../simulation/system/defects/table.ts";
import { keptBites } from "../simulation/system/kept-bites.ts";
import type { Bench, Figure } from "./report.ts";
import { numberOf } from "./world.ts";

const hourMs = 3_600_000;

/** Random schedules of config changes, plugin faults, API faults and signals, on virtual time. */
export const simulationBench: Bench = {
  about: "simulate leadership and generations, or the whole system, under random faults; a failure prints its replay",
  options: {
    seeds: "20000",
    first: "1",
    replay: "",
    system: "false",
    hours: "false",
    minutes: "false",
    needs: "",
    shrink: "true",
    processes: "1",
    failures: "1",
    twice: "false",
    bites: "false",
    leadership: "false",
    only: "",
    likely: "0",
    cpu: "600",
    memory: "2048",
  },
  async run(options) {
    const { replay = "" } = options;
    if (options["bites"] === "true") return bites(options);
    if (options["twice"] === "true") return twice(options);
    if (options["system"] === "true") return system(options);
    if (replay !== "") {
      const { violations, log, steps } = await simulate(JSON.parse(replay));
      process.stdout.write(`${[...log, ...violations].join("\n")}\n`);
      return [
        { name: "steps", value: steps },
        { name: "violations", value: violations.length, aim: "0" },
      ];
    }
    const began = performance.now();
    const { seeds, steps, failure } = await campaign(numberOf(options, "first"), numberOf(options, "seeds"));
    if (failure !== undefined) process.stdout.write(`${failure.report}\n`);
    return [
      { name: "seeds", value: seeds },
      { name: "steps", value: steps },
      { name: "seconds", value: (performance.now() - began) / 1000, unit: "s" },
      { name: "failures", value: failure === undefined ? 0 : 1, aim: "0" },
    ];
  },
};

/** Seeds between two lines of progress. */
const progressEvery = 50;
const progress = (text: string): void => void process.stderr.write(`${text}\n`);

/**
 * Histories of the whole system until so many have failed, in so many processes; with `--hours`, those of a large cluster,
 * with `--minutes` short ones in which much happens at once, such as `--needs=returnNode,reload`; `--needs=pairs`: each pair
 * of kinds in turn.
 * `--replay` is a seed, or a history as a failure prints it.
 */
async function system(options: Readonly<Record<string, string>>): Promise<readonly Figure[]> {
  const { replay = "" } = options;
  const first = numberOf(options, "first");
  const ranges = rangesOf(first, numberOf(options, "seeds"), numberOf(options, "processes"));
  const began = performance.now();
  const sums = { seeds: 0, actions: 0, kills: 0, reloads: 0, requests: 0, writes: 0, virtualMs: 0, cpuSeconds: 0 };
  const shrink = replay === "" && options["shrink"] === "true";
  const [hours, minutes] = [options["hours"] === "true", options["minutes"] === "true"];
  const needs = (options["needs"] ?? "").split(",").filter((kind) => kind !== "");
  let failures = 0;
  const campaigns = (replay === "" ? ranges : [replay]).map((seeds) =>
    systemCampaign({ seeds, hours, minutes, needs, trace: true, shrink }),
  );
  for await (const report of sideBySide(campaigns)) {
    sums.seeds += 1;
    sums.cpuSeconds += report.cpuSeconds;
    sums.requests += report.requests;
    sums.writes += report.writes;
    sums.virtualMs += report.virtualMs;
    const { killHost = 0, killAtWrite = 0, reload = 0, retag = 0 } = report.happened;
    sums.actions += Object.values(report.happened).reduce((sum, times) => sum + times, 0);
    sums.kills += killHost + killAtWrite;
    sums.reloads += reload + retag;
    if (replay !== "") process.stdout.write(`${report.trace.join("\n")}\n`);
    if (report.violations.length > 0) {
      process.stdout.write(`${describeFailure(report)}\n`);
      failures += 1;
    }
    if (sums.seeds % progressEvery === 0)
      progress(`${sums.seeds} seeds, ${failures} failures, ${(sums.virtualMs / hourMs).toFixed(1)} virtual hours`);
    if (failures === numberOf(options, "failures")) break;
  }
  return [
    { name: "seeds", value: sums.seeds },
    { name: "actions", value: sums.actions },
    { name: "kills", value: sums.kills },
    { name: "reloads", value: sums.reloads },
    { name: "requests", value: sums.requests },
    { name: "writes", value: sums.writes },
    { name: "virtual hours", value: sums.virtualMs / hourMs, unit: "h" },
    { name: "CPU seconds per history", value: sums.cpuSeconds / sums.seeds, unit: "s" },
    {
      name: "CPU seconds per virtual hour",
      value: (sums.cpuSeconds * hourMs) / sums.virtualMs,
      unit: "s",
      ...(hours && { aim: "2" }),
    },
    { name: "CPU milliseconds per request", value: (sums.cpuSeconds * 1_000) / sums.requests, unit: "ms" },
    { name: "seconds", value: (performance.now() - began) / 1000, unit: "s" },
    { name: "failures", value: failures, aim: "0" },
  ];
}

/** Histories that each process of `twice` runs: the second one in the opposite order, with other things in its caches. */
const twiceInProcess = 8;

/** Runs each history in two processes, and names the first line in which their traces differ, and what it breaks. */
async function twice(options: Readonly<Record<string, string>>): Promise<readonly Figure[]> {
  const [first, count] = [numberOf(options, "first"), numberOf(options, "seeds")];
  const reportsOf = (seeds: readonly number[]) => Array.fromAsync(systemCampaign({ seeds: seeds.join(), trace: true }));
  let [seeds, differences, failures] = [0, 0, 0];
  for (let from = first; from < first + count; from += twiceInProcess) {
    const size = Math.min(twiceInProcess, first + count - from);
    const some = Array.from({ length: size }, (_, index) => from + index);
    const [forth, back] = await Promise.all([reportsOf(some), reportsOf(some.toReversed())]);
    for (const [index, one] of forth.entries()) {
      const other = back[size - 1 - index];
      const difference = other === undefined ? [] : firstDifference(one, other);
      if (difference.length > 0) process.stdout.write(`${difference.join("\n")}\n`);
      differences += Math.sign(difference.length);
      if (one.violations.length > 0) process.stdout.write(`${describeFailure(one)}\n`);
      failures += Math.sign(one.violations.length);
      seeds += 1;
    }
    progress(`${seeds} seeds twice, ${differences} differ, ${failures} failures`);
  }
  return [
    { name: "seeds", value: seeds },
    { name: "differences", value: differences, aim: "0" },
    { name: "failures", value: failures, aim: "0" },
  ];
}

/**
 * Puts known defects back, one at a time: all of the system, or with `--leadership` those of leadership and generations;
 * or those with a text in their names. Kept histories come first, and those that none shows are searched in seeds. Each
 * defect is a figure, so that `--record` and `bench page` keep the table.
 */
async function bites(options: Readonly<Record<string, string>>): Promise<readonly Figure[]> {
  const isSystem = options["leadership"] !== "true";
  const chosen = Object.entries<Defect>(isSystem ? defects : hostDefects).filter(([name]) =>
    name.includes(options["only"] ?? ""),
  );
  const figures: Figure[] = [];
  const kept = new Set(chosen.flatMap(([name, { kept: history }]) => (history === undefined ? [] : [name])));
  let found = 0;
  process.stdout.write(
    "| Defect | Histories | Skipped | History | Found by | CPU s |\n| --- | --: | --: | --- | --- | --: |\n",
  );
  for await (const { defect, histories, skipped, history = "", by = "not found", cpuSeconds } of bitesOf(
    chosen,
    options,
  )) {
    if (by !== "not found") found += 1;
    if (history === chosen.find(([name]) => name === defect)?.[1].kept) kept.delete(defect);
    process.stdout.write(`| ${defect} | ${histories} | ${skipped} | ${history} | ${by} | ${cpuSeconds.toFixed(1)} |\n`);
    figures.push({ name: defect, value: by === "not found" ? `${by} in ${histories}` : `${by}: ${history}` });
  }
  return [
    { name: "defects", value: chosen.length },
    { name: "found", value: found, aim: String(chosen.length) },
    { name: "kept histories that show nothing", value: kept.size, aim: "0" },
    ...figures,
  ];
}

type Named = readonly [name: string, defect: Defect];

/**
 * By their kept histories, and the others by seeds: `--seeds=0` searches for none, and `--minutes` in short histories of
 * what each needs.
 */
async function* bitesOf(
  chosen: readonly Named[],
  options: Readonly<Record<string, string>>,
): AsyncGenerator<{ readonly defect: string } & Bite> {
  const [first, count, likely] = [numberOf(options, "first"), numberOf(options, "seeds"), numberOf(options, "likely")];
  const memoryMiB = numberOf(options, "memory");
  const isSystem = options["leadership"] !== "true";
  const shown = new Set<string>();
  const kept = chosen.flatMap(([defect, { kept: history }]) =>
    history === undefined ? [] : [{ defect, kept: history }],
  );
  for await (const bite of keptBites(kept, memoryMiB)) {
    if (bite.by === undefined && count > 0) continue;
    shown.add(bite.defect);
    yield bite;
  }
  const seeds = Array.from({ length: count }, (_, index) => first + index);
  const minutes = options["minutes"] === "true";
  for (const [name, defect] of chosen.filter(([each]) => !shown.has(each))) {
    const tried = (isSystem && likely > 0 && !minutes ? likelySeeds(defect, seeds, likely) : seeds).map(String);
    const limits = { cpuSeconds: numberOf(options, "cpu"), memoryMiB };
    const { needs = [] } = defect;
    const ofSystem = (of: CampaignOptions) => systemCampaign({ ...of, minutes, needs });
    yield { defect: name, ...(await findDefect(name, tried, limits, isSystem ? ofSystem : schedules)) };
  }
}
