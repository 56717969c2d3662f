/**
 * Runs kept histories: `bun kept-main.ts [{"kept":"calm"},{"kept":"calm","defect":"…"}]`, each with its defect in the
 * product or without one. Each prints a line of JSON. One process runs many: most of the time of a short history is that
 * of loading and compiling what no defect changes.
 */
import { defects } from "./defects/table.ts";
import type { KeptReport, KeptRow } from "./kept-bites.ts";

// Before anything of the product.
await import("./runtime/install.ts");
const { replaceDefect, unloadedDefects } = await import("./runtime/sources.ts");

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000_000;
}

async function run({ kept, defect }: KeptRow): Promise<KeptReport> {
  const began = cpuSeconds();
  const put = defect === undefined ? undefined : defects[defect];
  if (defect !== undefined && put === undefined) throw new Error(`unknown defect: ${defect}`);
  replaceDefect(put);
  const { keptHistories } = await import("./kept/table.ts");
  const { readProgram } = await import("./host-program.ts");
  const { simulate } = await import("./simulate.ts");
  const history = keptHistories[kept];
  if (history === undefined) throw new Error(`unknown history: ${kept}`);
  const { violations, happened } = await simulate(await readProgram(), history);
  for (const { file } of unloadedDefects()) throw new Error(`no process has loaded ${file}`);
  return {
    kept,
    ...(defect === undefined ? {} : { defect }),
    violation: violations[0],
    happened,
    cpuSeconds: cpuSeconds() - began,
  };
}

const rows: readonly KeptRow[] = JSON.parse(process.argv[2] ?? "[]");
for (const row of rows) {
  const line = `${JSON.stringify(await run(row))}\n`;
  await new Promise<void>((resolve) => void process.stdout.write(line, () => resolve()));
}
process.exit(0);
