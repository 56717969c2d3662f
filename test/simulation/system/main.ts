/**
 * Runs histories: `bun main.ts --seeds=1,2,10-19`, or `--history=JSON`; with `--hours`, those of a large cluster; with
 * `--minutes`, short ones in which much happens at once, `--needs=KIND,…` among it, or with `--needs=pairs` each pair of
 * kinds in turn. Each one prints a line of JSON, after its trace with `--trace`; `--shrink` leaves out what a failure does
 * not need; `--defect` puts one of `defects/` into the product.
 * It is a process of its own, because its clock, its timers and its network are virtual.
 */
import { parseArgs } from "node:util";

import type { History } from "./history.ts";

// Before anything of the product.
await import("./runtime/install.ts");
const { putDefect, unloadedDefects } = await import("./runtime/sources.ts");
const { defects } = await import("./defects/table.ts");

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "" },
    hours: { type: "boolean", default: false },
    minutes: { type: "boolean", default: false },
    needs: { type: "string", default: "" },
    history: { type: "string" },
    trace: { type: "boolean", default: false },
    shrink: { type: "boolean", default: false },
    defect: { type: "string" },
  },
});

if (values.defect !== undefined) {
  const defect = defects[values.defect];
  if (defect === undefined) throw new Error(`unknown defect: ${values.defect}`);
  putDefect(defect);
}

const { isSameFailure } = await import("./failures.ts");
const { actionKinds, historyOf, hourOf } = await import("./history.ts");
const { readProgram } = await import("./host-program.ts");
const { shrink } = await import("../schedule.ts");
const { minuteOf, pairOf } = await import("./minute.ts");
const { simulate } = await import("./simulate.ts");

const program = await readProgram();

function seedsIn(text: string): readonly number[] {
  return text.split(",").flatMap((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}

const needsPairs = values.needs === "pairs";
const needs = (needsPairs ? "" : values.needs).split(",").flatMap((name) => {
  const kind = actionKinds.find((one) => one === name);
  if (kind === undefined && name !== "") throw new Error(`unknown kind of action: ${name}`);
  return kind ?? [];
});

/** The history of a seed, of the kind that was asked for. */
function drawn(seed: number): History {
  if (values.minutes) return minuteOf(seed, needsPairs ? pairOf(seed) : needs);
  return values.hours ? hourOf(seed) : historyOf(seed);
}

const print = (text: string): Promise<void> =>
  new Promise((resolve) => void process.stdout.write(text, () => resolve()));

async function run(history: History): Promise<void> {
  const before = process.cpuUsage();
  let smallest = history;
  let { trace, ...outcome } = await simulate(program, history);
  if (values.shrink && outcome.violations.length > 0) {
    const [broken] = outcome.violations;
    const fails = async (candidate: History) =>
      isSameFailure((await simulate(program, candidate)).violations[0], broken);
    smallest = await shrink(history, fails);
    ({ trace, ...outcome } = await simulate(program, smallest));
  }
  const needed = smallest === history && !values.hours && !values.minutes ? {} : { history: smallest };
  const { user, system } = process.cpuUsage(before);
  const cpuSeconds = (user + system) / 1_000_000;
  const report = JSON.stringify({ seed: history.seed, ...outcome, cpuSeconds, ...needed });
  await print([...(values.trace ? trace : []), report].map((line) => `${line}\n`).join(""));
}

const { history } = values;
const histories: readonly History[] = history === undefined ? seedsIn(values.seeds).map(drawn) : [JSON.parse(history)];
for (const each of histories) await run(each);
for (const { file } of unloadedDefects()) throw new Error(`no process has loaded ${file}`);
process.exit(0);
