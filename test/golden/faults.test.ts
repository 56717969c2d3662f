import { describe, test } from "bun:test";

import type { AzureSimulator, SimulatorOptions } from "../../plugins/azure-cloud/simulator/simulator.ts";
import { hurriedClock } from "../kit/clocks.ts";
import { goldenCases } from "./replay/cases.ts";
import { GoldenCluster } from "./replay/golden-cluster.ts";
import { type Comparison, replay } from "./replay/replay.ts";

/** What ARM does badly while a case is replayed. All of it ends by itself, and then everything is as recorded. */
interface Fault {
  readonly what: string;
  readonly cases: readonly string[];
  readonly options?: Partial<SimulatorOptions>;
  readonly begin?: (simulator: AzureSimulator) => void;
}

const shapes = ["dual-stack", "external-tcp", "external-to-internal", "flex-external", "internal", "node-ip-pool"];

const written = ["/loadBalancers/", "/publicIPAddresses/", "/networkSecurityGroups/", "/virtualMachines/"] as const;

const once =
  (failure: Parameters<AzureSimulator["failNext"]>[1]) =>
  (simulator: AzureSimulator): void => {
    for (const path of written) simulator.failNext({ method: "PUT", path }, failure);
  };

const faults: readonly Fault[] = [
  {
    what: "operations are polled by Location",
    cases: ["internal"],
    options: { operationPolls: 1, operationStyle: "location" },
  },
  {
    what: "reads lag by 200 ms",
    cases: ["external-tcp", "node-ip-pool"],
    begin: (simulator) => simulator.setReadLag(200),
  },
  {
    what: "one write of each kind is throttled",
    cases: ["external-tcp", "node-ip-pool"],
    begin: once({ status: 429, headers: { "retry-after": "1" } }),
  },
  { what: "one write of each kind meets a conflict", cases: shapes, begin: once({ status: 412 }) },
  {
    what: "one reply of each kind is a gateway's error after the write",
    cases: shapes,
    begin: once({ status: 504, stage: "response" }),
  },
  {
    what: "one reply of each kind is lost with its connection",
    cases: shapes,
    begin: once({ status: 200, stage: "connection" }),
  },
  {
    what: "one operation of each kind fails late",
    cases: ["internal"],
    begin: once({ status: 500, code: "InternalServerError", stage: "operation" }),
  },
];

const comparison: Comparison = { withinMs: 60_000, events: "ignored" };

// Each waits for what was made to fail, on a cluster of its own.
describe.concurrent("a recorded case ends in the same resources", () => {
  for (const { what, cases, options, begin } of faults)
    for (const golden of goldenCases.filter(({ case: name }) => cases.includes(name)))
      test(`a recorded case ends in the same resources when ${what}: ${golden.case}`, async () => {
        await using cluster = await GoldenCluster.open(golden, undefined, options);
        begin?.(cluster.simulator);
        await cluster.start(hurriedClock(50));
        await replay(cluster, 0, comparison);
      }, 120_000);
});
