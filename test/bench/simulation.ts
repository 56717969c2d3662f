import { campaign } from "../simulation/campaign.ts";
import { simulate } from "../simulation/simulation.ts";
import type { Bench } from "./report.ts";
import { numberOf } from "./world.ts";

/** Random schedules of config changes, plugin faults, API faults and signals, on virtual time. */
export const simulationBench: Bench = {
  about: "simulate leadership and generations under random faults; a failure prints a schedule to replay",
  options: { seeds: "20000", first: "1", replay: "" },
  async run(options) {
    const { replay = "" } = options;
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
