import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";

import { findDefect } from "./bites.ts";
import { campaign, describeFailure, type Report } from "./campaign.ts";
import { withDefect } from "./defects/defect.ts";
import { defects } from "./defects/table.ts";

setDefaultTimeout(900_000);

/** Always run: the first ones, and those that have found a defect once. */
const fixedSeeds = "1-8";

async function reportsOf(seeds: string): Promise<ReadonlyMap<number, Report>> {
  const reports = new Map<number, Report>();
  for await (const report of campaign({ seeds, trace: true })) reports.set(report.seed, report);
  return reports;
}

test("no history of a fixed set breaks an invariant of the whole system", async () => {
  const failures: string[] = [];
  for await (const report of campaign({ seeds: fixedSeeds, trace: true }))
    if (report.violations.length > 0) failures.push(describeFailure(report));
  expect(failures).toEqual([]);
});

test("the same history takes the same steps, whatever ran before it in the process", async () => {
  const [one, other] = await Promise.all([reportsOf("2,9"), reportsOf("9,2")]);
  for (const [seed, { hash, trace }] of one) {
    const again = other.get(seed);
    const at = trace.findIndex((line, index) => line !== again?.trace[index]);
    expect([trace[at], hash], `seed ${seed}`).toEqual([again?.trace[at], again?.hash ?? ""]);
  }
  expect(one.size).toBe(2);
});

test("a history finds a process that writes after it was paused for longer than its lease is valid", async () => {
  const limits = { cpuSeconds: 120, memoryMiB: 2_048 };
  expect(await findDefect("writes without holding the lease", "3026", limits)).toMatchObject({
    seeds: 1,
    by: "no write after the fence",
  });
});

test("every defect of the table applies to the source of today and leaves it valid TypeScript", async () => {
  const root = join(import.meta.dir, "../../..");
  const transpiler = new Bun.Transpiler({ loader: "ts" });
  const broken: string[] = [];
  for (const [name, defect] of Object.entries(defects))
    try {
      const source = await Bun.file(join(root, defect.file)).text();
      if (transpiler.transformSync(withDefect(source, defect)) === transpiler.transformSync(source))
        broken.push(`${name}: changes nothing`);
    } catch (error) {
      broken.push(`${name}: ${String(error)}`);
    }
  expect(broken).toEqual([]);
  expect(Object.keys(defects).length).toBeGreaterThanOrEqual(60);
});
