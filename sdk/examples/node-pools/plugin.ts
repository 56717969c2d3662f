import {
  type Condition,
  defineController,
  defineKind,
  ensureFinalizer,
  filtered,
  generationChanged,
  indexBy,
  isBeingDeleted,
  keyOf,
  kinds,
  type KubeObject,
  labelOf,
  labelsChanged,
  removeFinalizer,
  setStatusCondition,
  withControllerReference,
} from "cloud-controller-host/sdk";

export interface NodePool extends KubeObject {
  /** `nodes`: sorted names, separated by spaces. */
  readonly status?: { readonly nodes?: string; readonly conditions?: readonly Condition[] };
}

/** The custom resource. Only a cluster needs its CustomResourceDefinition; the sandbox and tests need none. */
export const nodePools = defineKind<NodePool>({
  group: "pools.example.com",
  version: "v1",
  kind: "NodePool",
  plural: "nodepools",
  namespaced: false,
});

export const poolLabel = "pools.example.com/pool";
const finalizer = "pools.example.com/labels";
const fieldManager = "node-pools";
const hasNodes = { status: "True", reason: "HasNodes" } as const;

/**
 * Lists the nodes of each NodePool, by their label, in a ConfigMap that the pool owns, and in its status. Before a
 * pool is gone, the label is removed from its nodes.
 */
export default defineController({
  name: "node-pools-controller",
  kinds: [nodePools],
  permissions: [
    { apiGroup: "pools.example.com", resources: ["nodepools"], verbs: ["list", "watch", "patch"] },
    { apiGroup: "pools.example.com", resources: ["nodepools/status"], verbs: ["patch"] },
    { apiGroup: "", resources: ["nodes"], verbs: ["list", "watch", "patch"] },
    { apiGroup: "", resources: ["configmaps"], verbs: ["create", "patch"] },
  ],
  construct: () => (context) => {
    const { client, clock } = context;
    const pools = context.informers.of(nodePools);
    const nodes = context.informers.of(kinds.Node, { metadataOnly: true });
    const nodesByPool = indexBy(nodes, (node) => [labelOf(node, poolLabel) ?? ""]);
    const queue = context.workqueue("node-pools");
    const enqueuePool = (...changed: readonly KubeObject[]): void => {
      for (const node of changed) queue.add(labelOf(node, poolLabel) ?? "");
    };
    const enqueue = (pool: NodePool): void => queue.add(keyOf(pool));
    pools.handle(filtered({ added: enqueue, updated: (_, pool) => enqueue(pool) }, generationChanged));
    nodes.handle(filtered({ added: enqueuePool, updated: enqueuePool, deleted: enqueuePool }, labelsChanged));

    const release = async (pool: NodePool, members: readonly KubeObject[]): Promise<void> => {
      for (const node of members)
        await client.patch(kinds.Node, { name: keyOf(node) }, "merge", { metadata: { labels: { [poolLabel]: null } } });
      await removeFinalizer(client, nodePools, pool, finalizer);
    };

    const publish = async (pool: NodePool, names: string): Promise<void> => {
      const metadata = { name: `pool-${keyOf(pool)}`, namespace: "default" };
      const config = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { nodes: names } };
      const owned = withControllerReference(config, nodePools, pool);
      await client.patch(kinds.ConfigMap, metadata, "apply", owned, { fieldManager, force: true });
    };

    const report = async (pool: NodePool, names: string): Promise<void> => {
      const ready = names === "" ? ({ status: "False", reason: "Empty" } as const) : hasNodes;
      const value = { type: "Ready", message: "", ...ready };
      const conditions = setStatusCondition(pool.status?.conditions, value, clock.now());
      const body = { status: { nodes: names, conditions } };
      await client.patch(nodePools, { name: keyOf(pool) }, "merge", body, { subresource: "status" });
    };

    const sync = async (name: string): Promise<void> => {
      const pool = pools.store.get(name);
      if (pool === undefined) return;
      const members = nodesByPool.get(name);
      if (isBeingDeleted(pool)) return release(pool, members);
      const owned = await ensureFinalizer(client, nodePools, pool, finalizer);
      const names = members.map(keyOf).toSorted().join(" ");
      if (owned.status?.nodes === names) return;
      await publish(owned, names);
      await report(owned, names);
    };
    return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
  },
});
