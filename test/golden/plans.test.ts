import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Value } from "@sinclair/typebox/value";
import { eventually } from "cloud-controller-host/sdk/testing";

import { runNamedCommand } from "../../host/cli/commands.ts";
import { type PlanDocument, planSchema } from "../../host/plan/document.ts";
import { type GoldenCase, goldenCases, type RecordedStep, stepsOf } from "./replay/cases.ts";
import { GoldenCluster, kindOf } from "./replay/golden-cluster.ts";
import { expected, same } from "./replay/replay.ts";
import { snapshotOf } from "./replay/snapshot.ts";

setDefaultTimeout(120_000);

/** Runs the command `plan` on the cluster of a case, with the case's config and the controller of its kind. */
async function planOf(golden: GoldenCase, { cluster, cloudConfig }: Opened): Promise<PlanDocument> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "golden-plan-"));
  stack.defer(() => rm(folder, { recursive: true }));
  const [kubeconfig, config] = [join(folder, "kubeconfig"), join(folder, "cloud-config.json")];
  await writeFile(kubeconfig, cluster.cluster.api.kubeconfig("admin"));
  await writeFile(config, JSON.stringify(cloudConfig));
  const isRoutes = kindOf(golden) === "routes";
  const flags = [
    "--output=json",
    `--only=${isRoutes ? "routes" : "services"}`,
    `--kubeconfig=${kubeconfig}`,
    `--cloud-config=${config}`,
    `--cluster-name=${golden.clusterName}`,
    ...(isRoutes
      ? ["--allocate-node-cidrs", `--cluster-cidr=${golden.clusterCIDR ?? ""}`]
      : ["--configure-cloud-routes=false"]),
  ];
  const printed = { stdout: "", stderr: "" };
  await runNamedCommand("plan", flags, {
    environment: {},
    stdout: (text) => void (printed.stdout += text),
    stderr: (text) => void (printed.stderr += text),
    width: 100,
  });
  expect(printed.stderr).toBe("");
  return Value.Parse(planSchema, JSON.parse(printed.stdout));
}

interface Opened {
  readonly cluster: GoldenCluster;
  readonly cloudConfig: unknown;
}

async function open(golden: GoldenCase, state?: RecordedStep): Promise<Opened & AsyncDisposable> {
  const cluster = await GoldenCluster.open(golden, state);
  return {
    cluster,
    cloudConfig: cluster.cloudConfig(),
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

const resourcesOf = ({ changes }: PlanDocument): readonly string[] =>
  changes.flatMap(({ system, resource }) => (system === "cloud" ? [resource.toLowerCase()] : [])).toSorted();

/** What was written so far, by resource. */
const writtenTo = ({ cluster }: Opened): readonly string[] =>
  [...new Set(cluster.armWrites().map((line) => line.replace(/^\w+ |\?.*$/gu, "").toLowerCase()))].toSorted();

/** The first state of the case in which its Services or nodes exist. */
const firstState = (golden: GoldenCase): RecordedStep | undefined =>
  stepsOf(golden).find(([, { services = [], nodes = [] }]) => services.length + nodes.length > 0)?.[1];

/** A state that ours would leave as it is. */
const isOurs = (golden: GoldenCase, recorded: RecordedStep): boolean =>
  same(expected(golden, recorded).arm, snapshotOf(recorded).arm) &&
  (recorded.events ?? []).every(({ type }) => type !== "Warning");

describe("the plan of a recorded case", () => {
  for (const golden of goldenCases) {
    const adopted = firstState(golden);
    if (adopted === undefined) continue;
    if (isOurs(golden, adopted))
      test.concurrent(`${golden.case}: has no changes for what the Go provider left`, async () => {
        await using opened = await open(golden, adopted);
        const { complete, changes, failures } = await planOf(golden, opened);
        expect({ complete, failures }).toEqual({ complete: true, failures: [] });
        expect(changes.filter(({ system }) => system === "cloud")).toEqual([]);
        expect(writtenTo(opened)).toEqual([]);
      });
    if (kindOf(golden) === "services" && isOurs(golden, adopted))
      test.concurrent(`${golden.case}: names the resources that are then written for its Services`, async () => {
        await using opened = await open(golden);
        for (const service of adopted.services ?? []) opened.cluster.createService(service);
        const plan = await planOf(golden, opened);
        expect(plan.failures).toEqual([]);
        await opened.cluster.start();
        const planned = resourcesOf(plan);
        await eventually("what was planned is written", () => same(writtenTo(opened), planned), 20_000).catch(
          () => undefined,
        );
        expect(writtenTo(opened)).toEqual(planned);
      });
  }
});
