import {
  controllerNames,
  forEachConcurrently,
  isUninitialized,
  kinds,
  type Node,
  type Service,
  taints,
  taintsOf,
} from "cloud-controller-host/sdk";

import type { Cluster } from "../envtest/cluster.ts";
import type { ServedCloud } from "../kit/cloud-server.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser, rolesOf } from "../kit/host-roles.ts";
import { nodeName, setReady } from "../kit/kubelet.ts";
import { addressesOf } from "../kit/services.ts";
import { quantileOf } from "./histogram.ts";
import { type Progress, watchProgress } from "./progress.ts";
import type { Figure } from "./report.ts";
import { cpuSecondsOf, memoryOf } from "./world.ts";

/** What the parts of the bench share. */
export interface ControllersWorld {
  readonly cluster: Cluster;
  readonly cloud: ServedCloud;
  readonly services: number;
  readonly nodes: number;
  /** `--concurrent-node-syncs` and `--concurrent-service-syncs`. */
  readonly workers: number;
}

interface Subject {
  readonly controller: string;
  /** The name of its work queue, if it has one. */
  readonly queue?: string;
  /** Counts the objects that have what the controller owes them. */
  readonly watch: (world: ControllersWorld) => Promise<Progress>;
  readonly count: (world: ControllersWorld) => number;
  /** Makes work, where there is none yet. */
  readonly prepare?: (world: ControllersWorld) => Promise<void>;
}

const ofNodes = (isDone: (node: Node) => boolean): Pick<Subject, "watch" | "count"> => ({
  watch: ({ cluster, cloud }) => watchProgress(cluster, cloud.folder, kinds.Node, isDone),
  count: ({ nodes }) => nodes,
});

const ofServices = (isDone: (service: Service) => boolean): Pick<Subject, "watch" | "count"> => ({
  watch: ({ cluster, cloud }) => watchProgress(cluster, cloud.folder, kinds.Service, isDone),
  count: ({ services }) => services,
});

const subjects = {
  cloudNode: {
    controller: controllerNames.cloudNode,
    queue: "Nodes",
    ...ofNodes(
      (node) => !isUninitialized(node) && node.status?.addresses?.some(({ type }) => type === "InternalIP") === true,
    ),
  },
  nodeIpam: {
    controller: controllerNames.nodeIPAM,
    queue: "node-ipam",
    ...ofNodes(({ spec }) => spec?.podCIDR !== undefined),
  },
  route: {
    controller: controllerNames.nodeRoute,
    ...ofNodes(({ status }) => status?.conditions?.some(({ reason }) => reason === "RouteCreated") === true),
  },
  serviceLb: {
    controller: controllerNames.serviceLB,
    queue: "service",
    ...ofServices((service) => addressesOf(service).length > 0),
  },
  lifecycle: {
    controller: controllerNames.cloudNodeLifecycle,
    ...ofNodes((node) => taintsOf(node).some(({ key }) => key === taints.shutdown)),
    prepare: shutAllDown,
  },
} as const satisfies Readonly<Record<string, Subject>>;

/** Runs controllers one after the other, each alone in a host of its own until it has done its work. */
export async function eachAlone(
  world: ControllersWorld,
  names: readonly (keyof typeof subjects)[],
): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const name of names) figures.push(...(await alone(world, name, subjects[name])));
  return figures;
}

async function alone(world: ControllersWorld, name: string, subject: Subject): Promise<readonly Figure[]> {
  const { cluster } = world;
  const { controller, queue } = subject;
  const count = subject.count(world);
  await subject.prepare?.(world);
  await using progress = await subject.watch(world);
  const flags = await controllerFlags(world, [controller]);
  const since = await cluster.audit.mark();

  const begun = performance.now();
  await using host = new HostProcess({ flags });
  await progress.reached(1);
  const first = performance.now();
  await progress.reached(count);
  const last = performance.now();
  const metrics = await (await host.get("/metrics")).text();
  const waited = (share: number): number =>
    quantileOf(metrics, "workqueue_queue_duration_seconds", `name="${queue}"`, share, (last - begun) / 1000);
  const used = { cpu: await cpuSecondsOf(host.pid), memory: await memoryOf(host.pid, "VmHWM") };
  await host.stop();
  const requests = (await cluster.audit.requests({ user: hostUser, since })).map(({ resource }) => resource);
  const events = requests.filter((resource) => resource === "events").length;
  const others = requests.filter((resource) => resource !== "events" && resource !== "leases").length;
  return [
    { name: `${name}PerSecond`, value: (1000 * (count - 1)) / (last - first), unit: `1/s (${controller})` },
    ...(queue === undefined
      ? []
      : [
          { name: `${name}QueueP50`, value: waited(0.5), unit: "s in the queue" },
          { name: `${name}QueueP99`, value: waited(0.99), unit: "s" },
        ]),
    { name: `${name}Requests`, value: others / count, unit: "to the API server for one" },
    { name: `${name}Events`, value: events / count, unit: "for one" },
    { name: `${name}CpuMs`, value: (1000 * used.cpu) / count, unit: "ms of one processor for one, the start included" },
    { name: `${name}PeakRssMiB`, value: used.memory, unit: "MiB" },
  ];
}

/** Nothing waits for a budget of requests, and addresses are not asked for again within a bench. */
export async function controllerFlags(
  { cluster, cloud, workers }: ControllersWorld,
  controllers: readonly string[],
): Promise<readonly string[]> {
  await cluster.grant(hostUser, await rolesOf(controllers));
  return [
    `--kubeconfig=${await cluster.kubeconfig(hostUser)}`,
    ...cloud.flags,
    `--controllers=${controllers.join(",")}`,
    "--cluster-cidr=10.128.0.0/9",
    "--allocate-node-cidrs",
    "--node-status-update-frequency=1h",
    `--concurrent-node-syncs=${workers}`,
    `--concurrent-service-syncs=${workers}`,
    "--kube-api-qps=-1",
  ];
}

async function shutAllDown({ cluster, cloud, nodes }: ControllersWorld): Promise<void> {
  for (const [name, machine] of cloud.memory.machines) cloud.memory.machines.set(name, { ...machine, shutdown: true });
  const names = Array.from({ length: nodes }, (_, index) => nodeName(index + 1));
  await forEachConcurrently({ workers: 32 }, names, (name) => setReady(cluster.admin, name, "Unknown"));
}
