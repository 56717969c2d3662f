import { type Static, Type } from "cloud-controller-host/sdk";

export const optionsSchema = Type.Object(
  {
    gracePeriodSeconds: Type.Integer({
      minimum: 0,
      default: 60,
      description: "A node younger than this is never deleted: the cloud may not list its instance yet.",
    }),
    uninitializedGracePeriodSeconds: Type.Integer({
      minimum: 0,
      default: 300,
      description:
        "A node younger than this that still has the taint node.cloudprovider.kubernetes.io/uninitialized is never deleted.",
    }),
    maxMissingPercent: Type.Integer({
      minimum: 0,
      maximum: 100,
      default: 10,
      description:
        "No node is deleted while more than this share of all nodes, and more than max-missing-nodes of them, is missing from the cloud or was deleted within the deletion window.",
    }),
    maxMissingNodes: Type.Integer({
      minimum: 0,
      default: 3,
      description: "Up to this many missing nodes are deleted within the deletion window, whatever their share.",
    }),
    deletionWindowSeconds: Type.Integer({
      minimum: 0,
      default: 3600,
      description: "How long a deleted node counts as missing for max-missing-nodes and max-missing-percent.",
    }),
    concurrentChecks: Type.Integer({
      minimum: 1,
      default: 64,
      description: "Number of nodes that are checked with the cloud concurrently.",
    }),
  },
  { additionalProperties: false },
);

export interface LifecycleOptions extends Static<typeof optionsSchema> {
  /** Pause between two passes, and how long a pass waits for its checks: `--node-monitor-period`. */
  readonly periodMs: number;
}
