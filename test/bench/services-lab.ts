import { forEachConcurrently, kinds, type Node, type Service, taints } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import type { AzureSimulator } from "../../plugins/azure-cloud/simulator/simulator.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { createNode } from "../kit/azure.ts";
import { addressesOf, balancedService } from "../kit/services.ts";
import { chainFigure } from "./chain.ts";
import type { Progress } from "./progress.ts";
import type { Figure } from "./report.ts";

/** The lab of one run. */
export interface ServicesLab {
  readonly cluster: Cluster;
  readonly simulator: AzureSimulator;
  readonly config: string;
  readonly latencyMs: number;
  readonly progress: Progress;
}

/** What is aimed at, by the name of a figure without its phase. */
export type Aims = Readonly<Record<string, string>>;

export const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

export const hasAddress = (service: Service): boolean => addressesOf(service).length > 0;

export const stateOf = ({ status }: Service): string =>
  (status?.conditions ?? []).map(({ message }) => message).join(", ");

/** A VM and the node of its kubelet, once cloud-node has initialized it. */
export async function addNode({ cluster, simulator }: ServicesLab): Promise<void> {
  const [instance] = simulator.addScaleSetInstances("vmss0", 1);
  if (instance === undefined) return;
  const { computerName, privateIP, instanceId } = instance;
  const fresh = freshNode(computerName, new Date());
  const scaleSet = `${simulator.subscriptionId}/resourceGroups/${simulator.resourceGroup}/providers/Microsoft.Compute/virtualMachineScaleSets/vmss0`;
  const node: Node = {
    ...fresh,
    spec: {
      providerID: `azure:///subscriptions/${scaleSet}/virtualMachines/${instanceId}`,
      taints: (fresh.spec?.taints ?? []).filter(({ key }) => key !== taints.uninitialized),
    },
    status: {
      ...fresh.status,
      addresses: [
        { type: "Hostname", address: computerName },
        { type: "InternalIP", address: privateIP },
      ],
    },
  };
  await createNode(cluster.admin, node);
}

/** Creates Services at once, and reports how long it took and what ARM was asked. */
export async function createAll(
  lab: ServicesLab,
  from: number,
  count: number,
  phase: string,
  aims: Aims,
): Promise<readonly Figure[]> {
  const { cluster, simulator, progress } = lab;
  simulator.clearLog();
  const started = performance.now();
  const creating = forEachConcurrently({ workers: 32 }, numbers(count), async (index) => {
    await cluster.admin.create(kinds.Service, balancedService(`web-${from + index}`));
  });
  await progress.reached(from + 1);
  const first = (performance.now() - started) / 1000;
  await progress.reached(from + count);
  const seconds = (performance.now() - started) / 1000;
  await creating;
  return [
    { name: named(phase, "seconds"), value: seconds, unit: "s until all have an address", aim: aims["seconds"] ?? "" },
    { name: named(phase, "firstSeconds"), value: first, unit: "s until the first" },
    chainFigure(simulator.log, named(phase, "chainSeconds"), lab.latencyMs),
    ...requestsOf(simulator, phase, aims),
  ];
}

export const named = (phase: string, name: string): string =>
  phase === "" ? name : `${phase}${name.charAt(0).toUpperCase()}${name.slice(1)}`;

/** ARM's reads and writes since the log was cleared, and the writes by kind of resource: those with an aim in any case. */
export function requestsOf(simulator: AzureSimulator, phase: string, aims: Aims): readonly Figure[] {
  const requests = simulator.log.filter(({ path }) => path.startsWith("/subscriptions/"));
  const writes = requests.filter(({ method }) => method !== "GET");
  const byKind = Map.groupBy(writes, ({ method, path }) => `${method} ${kindOf(path)}`);
  const kindsOfWrites = new Set([...byKind.keys(), ...Object.keys(aims).filter((name) => name.startsWith("PUT "))]);
  const figures: readonly Figure[] = [
    { name: "armReads", value: requests.length - writes.length },
    { name: "armWrites", value: writes.length },
    ...[...kindsOfWrites].map((kind) => ({ name: kind, value: byKind.get(kind)?.length ?? 0 })),
  ];
  return figures.map((figure) => ({ ...figure, name: named(phase, figure.name), aim: aims[figure.name] ?? "" }));
}

/** `…/loadBalancers/kubernetes` is of the kind `loadBalancers`. */
const kindOf = (path: string): string => path.split("/").filter(Boolean).at(-2) ?? "";
