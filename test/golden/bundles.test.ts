import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { runCommand } from "../kit/plan.ts";
import { type GoldenCase, goldenCases, type RecordedStep, stepsOf } from "./replay/cases.ts";
import { GoldenCluster, kindOf } from "./replay/golden-cluster.ts";

setDefaultTimeout(120_000);

async function plan(flags: readonly string[]): Promise<string> {
  const { stdout, stderr } = await runCommand("plan", flags);
  expect(stderr).toBe("");
  return stdout;
}

/** The plan for the live cluster, which writes a bundle, and the plan for that bundle. */
async function bothPlans(golden: GoldenCase, cluster: GoldenCluster): Promise<readonly [string, string]> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "golden-bundle-"));
  stack.defer(() => rm(folder, { recursive: true }));
  const [kubeconfig, config, bundle] = [join(folder, "kubeconfig"), join(folder, "cloud.json"), join(folder, "bundle")];
  await writeFile(kubeconfig, cluster.cluster.api.kubeconfig("admin"));
  await writeFile(config, JSON.stringify(cluster.cloudConfig()));
  const isRoutes = kindOf(golden) === "routes";
  const only = `--only=${isRoutes ? "routes" : "services"}`;
  const live = await plan([
    only,
    `--bundle=${bundle}`,
    `--kubeconfig=${kubeconfig}`,
    `--cloud-config=${config}`,
    `--cluster-name=${golden.clusterName}`,
    ...(isRoutes
      ? ["--allocate-node-cidrs", `--cluster-cidr=${golden.clusterCIDR ?? ""}`]
      : ["--configure-cloud-routes=false"]),
  ]);
  return [live, await plan([only, `--from=${bundle}`])];
}

/** The first state of the case in which its Services or nodes exist. */
const firstState = (golden: GoldenCase): RecordedStep | undefined =>
  stepsOf(golden).find(([, { services = [], nodes = [] }]) => services.length + nodes.length > 0)?.[1];

describe("the bundle of a recorded case", () => {
  for (const [index, golden] of goldenCases.entries()) {
    const state = firstState(golden);
    if (state === undefined) continue;
    test.concurrent(`${golden.case}: gives the plan of the cluster that the Go provider left`, async () => {
      await using cluster = await GoldenCluster.open(golden, state);
      const [live, bundled] = await bothPlans(golden, cluster);
      expect(bundled).toBe(live);
    });
    // The start differs by little from case to case.
    if (kindOf(golden) === "services" && index % 10 === 0)
      test.concurrent(`${golden.case}: gives the plan of the cluster with new Services`, async () => {
        await using cluster = await GoldenCluster.open(golden);
        for (const service of state.services ?? []) cluster.createService(service);
        const [live, bundled] = await bothPlans(golden, cluster);
        expect(bundled).toBe(live);
      });
  }
});
