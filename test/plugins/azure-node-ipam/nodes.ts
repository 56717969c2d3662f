import { defineController, kinds, type KubeClient, type Node, skipped } from "cloud-controller-host/sdk";
import { eventually, type MemoryCloud, memoryCloud } from "cloud-controller-host/sdk/testing";

import type { RunningController } from "../../../host/sandbox/testing/generation.ts";
import plugin from "../../../plugins/azure-node-ipam/plugin.ts";
import type { RunOptions, TestCluster } from "../../kit/harness.ts";

export type Flags = NonNullable<RunOptions["flags"]>;

export const strategic = "application/strategic-merge-patch+json";

/** A node as a kubelet registers it, with what is given. */
export function aNode(name: string, podCIDRs: readonly string[] = [], more: Node = {}): Node {
  const [podCIDR] = podCIDRs;
  return {
    apiVersion: "v1",
    kind: "Node",
    ...more,
    metadata: { ...more.metadata, name },
    spec: { ...more.spec, ...(podCIDR === undefined ? {} : { podCIDR, podCIDRs }) },
  };
}

/** Runs the plugin; `flags` are added to those that switch it on. */
export function runIpam(
  cluster: TestCluster,
  flags: Flags,
  options: { readonly memory?: MemoryCloud; readonly clock?: RunOptions["clock"] } = {},
): Promise<RunningController> {
  const { memory = memoryCloud(), clock } = options;
  return cluster.run(plugin, {
    cloud: memory.cloud,
    flags: { allocateNodeCidrs: true, ...flags },
    ...(clock === undefined ? {} : { clock }),
  });
}

export const podCIDRsOf = (cluster: TestCluster, name: string): readonly string[] | undefined =>
  cluster.api.get(kinds.Node, { name })?.spec?.podCIDRs;

/** What the node has been given, once it has been. */
export const given = (cluster: TestCluster, name: string): Promise<readonly string[]> =>
  eventually(`${name} has its CIDRs`, () => podCIDRsOf(cluster, name));

/** Writes of CIDRs, whatever came of them: the node's name, what it was to have, and the code of the answer. */
export const podCIDRWrites = (cluster: TestCluster): readonly (readonly [string, unknown, number | undefined])[] =>
  cluster
    .sent({ method: "PATCH" })
    .filter(({ path }) => !path.endsWith("/status"))
    .map(({ path, body, status }) => [path.split("/").at(-1) ?? "", specOf(body), status]);

/** The same, once every one of them has its answer. */
export const answeredWrites = (cluster: TestCluster) =>
  eventually("every write has its answer", () => {
    const writes = podCIDRWrites(cluster);
    return writes.every(([, , status]) => status !== undefined) && writes;
  });

const specOf = (body: unknown): unknown =>
  typeof body === "object" && body !== null && "spec" in body ? body.spec : undefined;

/** The messages of events of that reason about that node. */
export const messagesOf = (cluster: TestCluster, reason: string, node: string): readonly string[] =>
  cluster
    .events(reason)
    .filter(({ involvedObject }) => involvedObject?.name === node)
    .map(({ message }) => message ?? "");

/** A client under another program's name; what it applies is known to the API server as that program's. */
export function clientOf(cluster: TestCluster, clientName: string): KubeClient {
  const program = defineController({
    name: clientName,
    initContext: { clientName },
    construct: () => () => skipped(""),
  });
  return cluster.generation(program).context.client;
}

/** Gives a node its CIDRs, as that program. */
export const giveAs = (cluster: TestCluster, clientName: string, name: string, cidr: string) =>
  clientOf(cluster, clientName).patch(kinds.Node, { name }, "apply", {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    spec: { podCIDR: cidr, podCIDRs: [cidr] },
  });
