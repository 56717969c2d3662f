/**
 * Runs the schedules of seeds: `bun main.ts --seeds=1,2,3`. Each one prints a line of JSON. It is a process of its own,
 * because `--defect` puts one of `system/defects/host.ts` into the product.
 */
import { parseArgs } from "node:util";

// Before anything of the product.
const { editSources, putDefect, unloadedDefects } = await import("./system/runtime/sources.ts");
const { hostDefects } = await import("./system/defects/host.ts");

const { values } = parseArgs({ options: { seeds: { type: "string", default: "" }, defect: { type: "string" } } });
if (values.defect !== undefined) {
  const defect = hostDefects[values.defect];
  if (defect === undefined) throw new Error(`unknown defect: ${values.defect}`);
  putDefect(defect);
}
editSources();

const { messageOf } = await import("cloud-controller-host/sdk");
const { scheduleOf } = await import("./schedule.ts");
const { simulate } = await import("./simulation.ts");

const unhandled: string[] = [];
process.on("unhandledRejection", (error) => void unhandled.push(`unhandled: ${messageOf(error)}`));
for (const seed of values.seeds.split(",").map(Number)) {
  const { violations } = await simulate(scheduleOf(seed));
  const report = {
    seed,
    violations: [...violations, ...unhandled].map((text) => ({ invariant: text.replace(/^\d+ ms: /u, "") })),
  };
  await new Promise<void>((resolve) => void process.stdout.write(`${JSON.stringify(report)}\n`, () => resolve()));
}
for (const { file } of unloadedDefects()) throw new Error(`no process has loaded ${file}`);
process.exit(0);
