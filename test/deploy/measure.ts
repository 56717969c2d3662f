/**
 * Measures what the resources of the chart are set by: memory and CPU time of a host in a process of its own, against
 * the sandbox's API server and a simulated Azure, as a cluster grows.
 *
 *     bun test/deploy/measure.ts [nodes…]
 */
import { appendFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { registerNode } from "../../host/sandbox/kubelet.ts";
import { SandboxApiServer } from "../../sdk/testing/api-server/index.ts";
import { simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { usageOf } from "../kit/process-usage.ts";

const given = process.argv.slice(2).map(Number);
const sizes = given.length > 0 ? given : [0, 500, 1000, 2000];
const reloads = 20;
const settleMs = 10_000;
const patienceMs = 600_000;

const isInitialised = (api: SandboxApiServer, count: number): boolean => {
  const nodes = api.list(kinds.Node);
  return (
    nodes.length === count && nodes.every(({ spec }) => spec?.providerID !== undefined && spec.taints === undefined)
  );
};

async function measure(): Promise<void> {
  await using api = await SandboxApiServer.start();
  await using azure = await simulateAzure();
  const folder = await mkdtemp(join(tmpdir(), "measure-"));
  const kubeconfig = join(folder, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig("admin"));
  const flags = [`--kubeconfig=${kubeconfig}`, `--cloud-config=${azure.config}`, "--configure-cloud-routes=false"];
  await using host = new HostProcess({ flags: [...flags, "--enable-dynamic-reloading", "--concurrent-node-syncs=16"] });
  await host.until("it leads", ({ leading, running }) => leading && running);
  process.stdout.write("nodes    resident      peak   CPU to get there   CPU at rest\n");
  let nodes = 0;
  let before = 0;
  for (const size of sizes) {
    const machines = size > nodes ? await azure.simulator.addInstances(size - nodes) : [];
    for (const { nodeName } of machines) registerNode(api, nodeName);
    nodes += machines.length;
    await eventually(`${nodes} nodes are initialized`, () => isInitialised(api, nodes), patienceMs);
    const arrived = await usageOf(host.pid);
    await Bun.sleep(settleMs);
    const rested = await usageOf(host.pid);
    const share = ((rested.cpuSeconds - arrived.cpuSeconds) / settleMs) * 1e6;
    process.stdout.write(
      `${String(nodes).padStart(5)}${rested.rssMB.toFixed(0).padStart(9)} MB${rested.peakRssMB.toFixed(0).padStart(7)} MB` +
        `${(arrived.cpuSeconds - before).toFixed(1).padStart(17)} s${share.toFixed(0).padStart(12)}m\n`,
    );
    before = rested.cpuSeconds;
  }
  for (let reload = 1; reload <= reloads; reload++) {
    await appendFile(azure.config, `# change ${reload}\n`);
    await host.until(`reload ${reload} is done`, (status) => status.reloads === reload && status.running);
  }
  const { rssMB, peakRssMB } = await usageOf(host.pid);
  process.stdout.write(`after ${reloads} reloads: ${rssMB.toFixed(0)} MB, ${peakRssMB.toFixed(0)} MB at most\n`);
  await rm(folder, { recursive: true });
}

await measure();
