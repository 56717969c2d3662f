import { controllerNames, forEachConcurrently, isUninitialized, kinds, type Node } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { createNode, simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { rolesOf } from "../kit/host-under-test.ts";
import { hostUser } from "../kit/platform.ts";
import { watchProgress } from "./progress.ts";
import type { Bench, Figure } from "./report.ts";
import { cpuSecondsOf, memoryOf, numberOf, realCluster } from "./world.ts";

/** How long nodes take from the start of a host until the last of them is initialised. */
export const nodesBench: Bench = {
  about: "initialise many nodes on a real API server and a simulated Azure",
  options: { nodes: "2000", workers: "64", "arm-latency": "0ms" },
  async run(options) {
    await using stack = new AsyncDisposableStack();
    const count = numberOf(options, "nodes");
    const cluster = await realCluster(stack, { audited: false });
    const azure = stack.use(await simulateAzure({ latencyMs: numberOf(options, "arm-latency") }));
    const machines = await azure.simulator.addInstances(count);
    await forEachConcurrently({ workers: 32 }, machines, ({ nodeName }) =>
      createNode(cluster.admin, freshNode(nodeName, new Date())),
    );
    const progress = stack.use(await watchProgress(cluster, azure.folder, kinds.Node, isDone));
    await cluster.grant(hostUser, await rolesOf([controllerNames.cloudNode]));
    const armBefore = azure.simulator.requests().length;

    const started = performance.now();
    const host = stack.use(
      new HostProcess({
        flags: [
          `--kubeconfig=${await cluster.kubeconfig(hostUser)}`,
          `--cloud-config=${azure.config}`,
          `--controllers=${controllerNames.cloudNode}`,
          `--concurrent-node-syncs=${numberOf(options, "workers")}`,
          "--kube-api-qps=-1",
        ],
      }),
    );
    await progress.reached(1);
    const first = (performance.now() - started) / 1000;
    await progress.reached(count);
    const seconds = (performance.now() - started) / 1000;
    const figures: readonly Figure[] = [
      { name: "nodes", value: count },
      {
        name: "seconds",
        value: seconds,
        unit: "s from the start of the process",
        aim: count === 2000 ? "under 8 s" : "",
      },
      { name: "firstSeconds", value: first, unit: "s until the first" },
      { name: "nodesPerSecond", value: count / (seconds - first), unit: "1/s from the first to the last" },
      { name: "armRequests", value: azure.simulator.requests().length - armBefore, aim: "at most 40" },
      { name: "hostCpuSeconds", value: await cpuSecondsOf(host.pid), unit: "s of one processor, used by the host" },
      { name: "peakRssMiB", value: await memoryOf(host.pid, "VmHWM"), unit: "MiB" },
      { name: "armLatency", value: options["arm-latency"] ?? "" },
    ];
    await host.stop();
    return figures;
  },
};

const isDone = (node: Node): boolean =>
  !isUninitialized(node) && (node.status?.addresses?.some(({ type }) => type === "InternalIP") ?? false);
