import { type Static, Type } from "cloud-controller-host/sdk";

export const optionsSchema = Type.Object(
  {
    gracePeriodSeconds: Type.Integer({
      minimum: 0,
      default: 60,
      description: "A node younger than this is never deleted: its machine may not be listed by the cloud yet.",
    }),
    uninitializedGracePeriodSeconds: Type.Integer({
      minimum: 0,
      default: 300,
      description:
        "A node younger than this that still waits for the cloud (taint node.cloudprovider.kubernetes.io/uninitialized) is never deleted.",
    }),
    maxMissingPercent: Type.Integer({
      minimum: 0,
      maximum: 100,
      default: 10,
      description:
        "When more than this share of all nodes, and more than max-missing-nodes of them, is missing from the cloud at once, none is deleted.",
    }),
    maxMissingNodes: Type.Integer({
      minimum: 0,
      default: 3,
      description: "Up to this many nodes may be missing from the cloud at once and are deleted, whatever their share.",
    }),
    concurrentChecks: Type.Integer({
      minimum: 1,
      default: 64,
      description: "How many nodes the cloud is asked about at once.",
    }),
  },
  { additionalProperties: false },
);

export interface LifecycleOptions extends Static<typeof optionsSchema> {
  /** Pause between two passes: `--node-monitor-period`. */
  readonly periodMs: number;
}
