import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds, type KubeClient, type Node } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import {
  type AzureSimulator,
  type SimulatorOptions,
  startSimulator,
} from "../../plugins/azure-cloud/simulator/simulator.ts";

/** A simulated Azure with a config file for it, in a folder of its own. */
export interface SimulatedAzure extends AsyncDisposable {
  readonly simulator: AzureSimulator;
  readonly folder: string;
  /** The path of the cloud config. */
  readonly config: string;
  /** The config's text as it was at first. */
  readonly configText: string;
}

export async function simulateAzure(
  options: Pick<SimulatorOptions, "latencyMs" | "limits" | "grants" | "operationStyle"> = {},
): Promise<SimulatedAzure> {
  await using opening = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "simulated-azure-"));
  opening.defer(() => rm(folder, { recursive: true, force: true }));
  const simulator = opening.use(await startSimulator({ directory: folder, ...options }));
  const config = join(folder, "cloud-config.yaml");
  const configText = `${simulator.cloudConfig.trimEnd()}\n`;
  await writeFile(config, configText);
  const stack = opening.move();
  return { simulator, folder, config, configText, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** Creates VMs and registers a node for each, as its kubelet would: tainted, and Ready. Resolves with the names. */
export async function joinNodes(
  admin: KubeClient,
  { simulator }: SimulatedAzure,
  count: number,
  change: (node: Node) => Node = (node) => node,
): Promise<readonly string[]> {
  const machines = await simulator.addInstances(count);
  for (const { nodeName } of machines) await createNode(admin, change(freshNode(nodeName, new Date())));
  return machines.map(({ nodeName }) => nodeName);
}

/**
 * A real API server takes no status with the object: it is patched after it, as a kubelet does. A controller may have
 * changed the node in between, which does not conflict.
 */
export async function createNode(admin: KubeClient, node: Node): Promise<void> {
  const { metadata } = await admin.create(kinds.Node, node);
  const { status } = node;
  if (status === undefined) return;
  await admin.patch(kinds.Node, { name: metadata?.name ?? "" }, "strategic", { status }, { subresource: "status" });
}
