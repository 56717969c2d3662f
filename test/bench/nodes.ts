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
import { rolesOf } from "../kit/host-under-test.ts";
import { hostUser } from "../kit/platform.ts";
import { watchProgress } from "./progress.ts";
import { realNode } from "./real-node.ts";
import type { Bench, Figure } from "./report.ts";
import { cpuSecondsOf, memoryOf, numberOf, realCluster } from "./world.ts";

/** How long nodes take from the start of a host until the last of them is initialized. */
export const nodesBench: Bench = {
  about: "initialize many nodes on a real API server and a simulated Azure",
  options: { nodes: "2000", workers: "64", "arm-latency": "0ms" },
  async run(options) {
    await using stack = new AsyncDisposableStack();
    const count = numberOf(options, "nodes");
    const cluster = await realCluster(stack, { audited: false });
    const azure = stack.use(await simulateAzure({ latencyMs: numberOf(options, "arm-latency") }));
    const instances = await azure.simulator.addInstances(count);
    const names = instances.map(({ nodeName }) => nodeName);
    await forEachConcurrently({ workers: 32 }, names, (name) => createNode(cluster.admin, realNode(name)));
    const raw = await rawWriter(cluster.admin, names, numberOf(options, "workers"));
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
      },
      { name: "rawWriterSeconds", value: raw, unit: "s for the same two writes per node without a controller" },
      { name: "ratio", value: seconds / raw, unit: "of the raw writer's time", aim: "at most 1.15" },
      { name: "firstSeconds", value: first, unit: "s until the first", aim: "under 1 s" },
      { name: "nodesPerSecond", value: count / (seconds - first), unit: "1/s from the first to the last" },
      {
        name: "armRequests",
        value: azure.simulator.requests().length - armBefore,
        aim: `at most ${Math.ceil(count / 1000) * 30}`,
      },
      { name: "hostCpuSeconds", value: await cpuSecondsOf(host.pid), unit: "s of one processor, used by the host" },
      {
        name: "peakRssMiB",
        value: await memoryOf(host.pid, "VmHWM"),
        unit: "MiB",
        aim: `at most ${count > 2000 ? 300 : 200}`,
      },
      { name: "armLatency", value: options["arm-latency"] ?? "" },
    ];
    await host.stop();
    return figures;
  },
};

const isDone = (node: Node): boolean =>
  !isUninitialized(node) && (node.status?.addresses?.some(({ type }) => type === "InternalIP") ?? false);

/**
 * Seconds for the two writes of an initialization, per node and with that many workers: what the API server can do.
 * Afterwards the nodes are as they were.
 */
async function rawWriter(admin: KubeClient, names: readonly string[], workers: number): Promise<number> {
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
    value: "raw",
  }));
  const remove = { op: "remove", path: "/spec/taints/0" };
  const write = async (name: string, node: unknown, addresses: readonly object[]): Promise<void> => {
    await admin.patch(kinds.Node, { name }, "json", node, { response: "metadata" });
    const body = { status: { addresses: [...addresses, { $patch: "replace" }] } };
    await admin.patch(kinds.Node, { name }, "strategic", body, { subresource: "status", response: "metadata" });
  };
  const hostname = (name: string): object => ({ type: "Hostname", address: name });
  const started = performance.now();
  await forEachConcurrently({ workers }, names, (name) =>
    write(name, [...add, remove], [hostname(name), { type: "InternalIP", address: "10.0.0.4" }]),
  );
  const seconds = (performance.now() - started) / 1000;
  const taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };
  const undo = [
    ...add.map(({ path }) => ({ op: "remove", path })),
    { op: "add", path: "/spec/taints", value: [taint] },
  ];
  await forEachConcurrently({ workers }, names, (name) => write(name, undo, [hostname(name)]));
  return seconds;
}
