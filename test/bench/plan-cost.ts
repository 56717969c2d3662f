import { join } from "node:path";

import { Value } from "@sinclair/typebox/value";
import { CodedError, controllerNames } from "cloud-controller-host/sdk";

import { planSchema } from "../../host/changes/plan-schema.ts";
import type { AzureSimulator } from "../../plugins/azure-cloud/simulator/simulator.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { hostUser } from "../kit/host-roles.ts";
import { tapWire } from "../kit/wiretap.ts";
import type { Figure } from "./report.ts";
import { engineSettings } from "./world.ts";

interface PlanLab {
  readonly cluster: Cluster;
  readonly simulator: AzureSimulator;
  /** The path of the cloud config. */
  readonly config: string;
  readonly folder: string;
}

/** What a restart of the host cost. */
export interface RestartCost {
  readonly seconds: number;
  readonly armReads: number;
  readonly kubernetesReads: number;
}

const main = join(import.meta.dir, "..", "..", "host", "main.ts");

/** What `plan` costs on a cluster in which nothing has changed, beside a restart of the host. */
export async function planCost(lab: PlanLab, restart: RestartCost): Promise<readonly Figure[]> {
  lab.simulator.clearLog();
  const started = performance.now();
  await plan(await lab.cluster.kubeconfig(hostUser), lab.config);
  const seconds = (performance.now() - started) / 1000;
  const requests = lab.simulator.log.filter(({ path }) => path.startsWith("/subscriptions/"));
  // A proxy costs time: its run is not the one that is timed.
  await using tap = await tapWire(lab.cluster, hostUser, lab.folder);
  await plan(tap.kubeconfig, lab.config);
  const reads = tap.requests.filter(({ method }) => method === "GET").length;
  return [
    {
      name: "planSeconds",
      value: seconds,
      unit: "s from the start of the process to its end",
      aim: `under ${(2 * restart.seconds).toFixed(2)} s, twice the restart`,
    },
    {
      name: "planArmReads",
      value: requests.filter(({ method }) => method === "GET").length,
      aim: `at most ${restart.armReads}, those of the restart`,
    },
    { name: "planKubernetesReads", value: reads, aim: `at most ${restart.kubernetesReads}, those of the restart` },
    {
      name: "planWrites",
      value:
        requests.filter(({ method }) => method !== "GET").length +
        tap.requests.filter(({ method }) => method !== "GET").length,
      aim: "0",
    },
  ];
}

async function plan(kubeconfig: string, config: string): Promise<void> {
  const child = Bun.spawn(
    [
      process.execPath,
      main,
      "plan",
      "--output=json",
      `--kubeconfig=${kubeconfig}`,
      `--cloud-config=${config}`,
      `--controllers=${controllerNames.serviceLB}`,
      "--kube-api-qps=-1",
    ],
    {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...(await engineSettings()) },
    },
  );
  const [stdout, stderr, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (status === 1 && stdout === "") throw new CodedError("NotPlanned", stderr.trim());
  const { changes, failures } = Value.Parse(planSchema, JSON.parse(stdout));
  if (changes.length + failures.length > 0)
    throw new CodedError("NotPlanned", `${changes.length} changes in a settled cluster; ${failures.join("; ")}`);
}
