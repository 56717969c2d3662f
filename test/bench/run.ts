import { parseArgs } from "node:util";

import { messageOf } from "cloud-controller-host/sdk";

import { compareBench } from "./compare.ts";
import { controllersBench } from "./controllers.ts";
import { handoverBench } from "./handover.ts";
import { nodesBench } from "./nodes.ts";
import { pageBench } from "./page.ts";
import { plannerBench } from "./planner.ts";
import { reloadBench } from "./reload.ts";
import { type Bench, printReport } from "./report.ts";
import { routesBench } from "./routes.ts";
import { recorded } from "./runs.ts";
import { scaleBench } from "./scale.ts";
import { servicesBench } from "./services.ts";
import { simulationBench } from "./simulation.ts";
import { soakBench } from "./soak.ts";
import { startBench } from "./start.ts";

/** Every bench by the name that it is called by. */
const benches: Readonly<Record<string, Bench>> = {
  nodes: nodesBench,
  scale: scaleBench,
  services: servicesBench,
  controllers: controllersBench,
  planner: plannerBench,
  routes: routesBench,
  reload: reloadBench,
  handover: handoverBench,
  simulation: simulationBench,
  soak: soakBench,
  start: startBench,
  compare: compareBench,
  page: pageBench,
};

const usage = (): string =>
  [
    "Usage: bun run bench <name> [--json] [--record] [options]",
    "",
    ...Object.entries(benches).flatMap(([name, { about, options }]) => [
      `  ${name}: ${about}`,
      ...Object.entries(options).map(([option, fallback]) => `      --${option}=${fallback}`),
    ]),
    "",
  ].join("\n");

async function main(argv: readonly string[]): Promise<number> {
  if (argv.includes("--help")) {
    process.stdout.write(usage());
    return 0;
  }
  const [name = "", ...rest] = argv;
  const bench = benches[name];
  if (bench === undefined) {
    process.stderr.write(`${name === "" ? "" : `bench: unknown name "${name}"\n\n`}${usage()}`);
    return 1;
  }
  const isSwitch = (fallback: string): boolean => fallback === "true" || fallback === "false";
  const flags = Object.entries(bench.options).map(
    ([option, fallback]) => [option, { type: isSwitch(fallback) ? "boolean" : "string" }] as const,
  );
  const { values } = parseArgs({
    args: [...rest],
    allowNegative: true,
    options: { ...Object.fromEntries(flags), json: { type: "boolean" }, record: { type: "boolean" } },
  });
  const given = { ...bench.options };
  for (const [option, value] of Object.entries(values)) if (option in given) given[option] = String(value);
  printReport(name, await recorded(argv, () => bench.run(given)), values["json"] === true);
  return 0;
}

process.exit(
  await main(process.argv.slice(2)).catch((error: unknown) => {
    process.stderr.write(`bench: ${messageOf(error)}\n`);
    return 1;
  }),
);
