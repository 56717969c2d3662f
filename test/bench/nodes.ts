import {
  controllerNames,
  forEachConcurrently,
  isUninitialized,
  kinds,
  type KubeClient,
  labels,
  type Node,
  taints,
} from "cloud-controller-host/sdk";

import { createNode, simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser, rolesOf } from "../kit/host-roles.ts";
import { realNode } from "../kit/real-node.ts";
import { watchProgress } from "./progress.ts";
import { type Bench, type Figure, medians } from "./report.ts";
import { cpuSecondsOf, engineSettings, loadAverage, mainOf, memoryOf, numberOf, realCluster } from "./world.ts";

/**
 * How long nodes take from the start of a host until the last of them is initialized, next to a raw writer that sends
 * the same writes to the same API server. The bench's own watch of all nodes is open during both.
 */
export const nodesBench: Bench = {
  about: "initialize many nodes on a real API server and a simulated Azure",
  options: { nodes: "2000", workers: "64", "arm-latency": "0ms", limits: "off", runs: "1", main: "host/main.ts" },
  async run(options) {
    const runs: (readonly Figure[])[] = [];
    while (runs.length < numberOf(options, "runs")) runs.push(await runOnce(options));
    return medians(runs);
  },
};

async function runOnce(options: Readonly<Record<string, string>>): Promise<readonly Figure[]> {
  await using stack = new AsyncDisposableStack();
  const count = numberOf(options, "nodes");
  const workers = numberOf(options, "workers");
  const cluster = await realCluster(stack, { audited: false });
  const main = await mainOf(stack, options["main"] ?? "");
  const azure = stack.use(await simulateAzure({ latencyMs: numberOf(options, "arm-latency") }));
  const instances = await azure.simulator.addInstances(count);
  const names = instances.map(({ nodeName }) => nodeName);
  await forEachConcurrently({ workers: 32 }, names, (name) => createNode(cluster.admin, realNode(name)));
  const progress = stack.use(await watchProgress(cluster, azure.folder, kinds.Node, isDone));
  const load = loadAverage();
  const raw = await rawWriter(cluster.admin, names, workers);
  await cluster.grant(hostUser, await rolesOf([controllerNames.cloudNode]));
  const armBefore = azure.simulator.requests().length;

  const started = performance.now();
  const host = stack.use(
    new HostProcess({
      main,
      environment: await engineSettings(),
      flags: [
        `--kubeconfig=${await cluster.kubeconfig(hostUser)}`,
        `--cloud-config=${azure.config}`,
        `--controllers=${controllerNames.cloudNode}`,
        `--concurrent-node-syncs=${workers}`,
        ...(options["limits"] === "default" ? [] : ["--kube-api-qps=-1"]),
      ],
    }),
  );
  await progress.reached(1);
  const first = (performance.now() - started) / 1000;
  const firstCpu = await cpuSecondsOf(host.pid);
  await progress.reached(count);
  const seconds = (performance.now() - started) / 1000;
  const cpu = await cpuSecondsOf(host.pid);
  const figures: readonly Figure[] = [
    { name: "nodes", value: count },
    { name: "armLatency", value: options["arm-latency"] ?? "" },
    { name: "clientLimits", value: options["limits"] ?? "" },
    { name: "loadAverage", value: load, unit: "over the minute before" },
    {
      name: "seconds",
      value: seconds,
      unit: "s from the start of the process",
      ...(options["limits"] === "default" && { aim: "500 nodes in 15 s" }),
    },
    { name: "rawWriterSeconds", value: raw.seconds, unit: "s for the same two writes per node without a controller" },
    { name: "rawWriterCpuSeconds", value: raw.cpuSeconds, unit: "s of one processor, used by the raw writer" },
    { name: "ratio", value: seconds / raw.seconds, unit: "of the raw writer's time", aim: "at most 1.15" },
    { name: "firstSeconds", value: first, unit: "s until the first", aim: "under 1 s" },
    { name: "firstCpuSeconds", value: firstCpu, unit: "s of one processor, used by the host until then" },
    { name: "nodesPerSecond", value: count / (seconds - first), unit: "1/s from the first to the last" },
    {
      name: "armRequests",
      value: azure.simulator.requests().length - armBefore,
      aim: `at most ${Math.ceil(count / 1000) * 30}`,
    },
    { name: "hostCpuSeconds", value: cpu, unit: "s of one processor, used by the host" },
    { name: "hostCpuPerNode", value: (1000 * (cpu - firstCpu)) / count, unit: "ms, from the first to the last" },
    {
      name: "peakRssMiB",
      value: await memoryOf(host.pid, "VmHWM"),
      unit: "MiB",
      aim: `at most ${count > 2000 ? 300 : 200}`,
    },
  ];
  await host.stop();
  return figures;
}

/** The value of the labels that the raw writer sets. */
const rawLabel = "raw";

const isDone = (node: Node): boolean =>
  !isUninitialized(node) &&
  node.metadata?.labels?.[labels.instanceType] !== rawLabel &&
  (node.status?.addresses?.some(({ type }) => type === "InternalIP") ?? false);

/**
 * Time for the two writes of an initialization, per node and with that many workers: what the API server can do.
 * Afterwards the nodes are as they were.
 */
async function rawWriter(
  admin: KubeClient,
  names: readonly string[],
  workers: number,
): Promise<{ readonly seconds: number; readonly cpuSeconds: number }> {
  const facts = [
    labels.instanceType,
    labels.instanceTypeBeta,
    labels.zone,
    labels.zoneBeta,
    labels.region,
    labels.regionBeta,
  ];
  const add = facts.map((label) => ({
    op: "add",
    path: `/metadata/labels/${label.replaceAll("/", "~1")}`,
    value: rawLabel,
  }));
  const remove = { op: "remove", path: "/spec/taints/0" };
  const write = async (name: string, node: unknown, addresses: readonly object[]): Promise<void> => {
    await admin.patch(kinds.Node, { name }, "json", node, { response: "metadata" });
    const body = { status: { addresses: [...addresses, { $patch: "replace" }] } };
    await admin.patch(kinds.Node, { name }, "strategic", body, { subresource: "status", response: "metadata" });
  };
  const hostname = (name: string): object => ({ type: "Hostname", address: name });
  const started = performance.now();
  const cpuBefore = process.cpuUsage();
  await forEachConcurrently({ workers }, names, (name) =>
    write(name, [...add, remove], [hostname(name), { type: "InternalIP", address: "10.0.0.4" }]),
  );
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpuBefore);
  const taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };
  const undo = [
    ...add.map(({ path }) => ({ op: "remove", path })),
    { op: "add", path: "/spec/taints", value: [taint] },
  ];
  await forEachConcurrently({ workers }, names, (name) => write(name, undo, [hostname(name)]));
  return { seconds, cpuSeconds: (user + system) / 1e6 };
}
