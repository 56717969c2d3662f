import {
  type Condition,
  defineController,
  defineKind,
  isBeingDeleted,
  isNotFound,
  isStatusConditionTrue,
  keyOf,
  type KindRef,
  kinds,
  type KubeObject,
  type Pod,
  runTogether,
  type Static,
  Type,
} from "cloud-controller-host/sdk";

export interface Job extends KubeObject {
  readonly status?: {
    readonly completionTime?: string;
    readonly succeeded?: number;
    readonly conditions?: readonly Condition[];
  };
}

export const jobs = defineKind<Job>({
  group: "batch",
  version: "v1",
  kind: "Job",
  plural: "jobs",
  namespaced: true,
});

const seconds = (of: string) =>
  Type.Integer({ default: 0, minimum: 0, description: `Deletes ${of} after so many seconds; 0 keeps them.` });

const configSchema = Type.Object(
  {
    successfulAfter: seconds("successful Jobs and their Pods"),
    failedAfter: seconds("failed Jobs and their Pods"),
    orphanedAfter: seconds("finished Pods without an owner"),
    evictedAfter: seconds("evicted Pods"),
  },
  { additionalProperties: false },
);
type Options = Static<typeof configSchema>;

/** When an object is to be deleted, in milliseconds since 1970; undefined for one that stays. */
type Due = number | undefined;

/** Nothing is deleted on account of a time that cannot be parsed. */
function due(since: string | Date | undefined, afterSeconds: number): Due {
  const at = new Date(since ?? Number.NaN).getTime() + afterSeconds * 1000;
  return afterSeconds === 0 || Number.isNaN(at) ? undefined : at;
}

export function dueOfJob({ status }: Job, options: Options): Due {
  if (isStatusConditionTrue(status?.conditions, "Failed"))
    return due(status?.conditions?.find(({ type }) => type === "Failed")?.lastTransitionTime, options.failedAfter);
  return due(status?.completionTime, options.successfulAfter);
}

export function dueOfPod({ metadata, status }: Pod, options: Options): Due {
  const { phase, reason, conditions = [] } = status ?? {};
  const [owner, ...others] = metadata?.ownerReferences ?? [];
  // A Pod is not ready from its end on. An evicted one never has to have been ready.
  const ended = conditions.find(({ type, status: value }) => type === "Ready" && value === "False")?.lastTransitionTime;
  if (phase === "Failed" && reason === "Evicted")
    return due(ended ?? metadata?.creationTimestamp, options.evictedAfter);
  if (phase !== "Succeeded" && phase !== "Failed") return undefined;
  if (owner === undefined) return due(ended, options.orphanedAfter);
  if (owner.kind !== "Job" || others.length > 0) return undefined;
  return due(ended, phase === "Succeeded" ? options.successfulAfter : options.failedAfter);
}

/** Deletes finished Jobs and Pods some time after their end. A port of lwolf/kube-cleanup-operator. */
export default defineController({
  name: "job-cleanup-controller",
  kinds: [jobs],
  configSchema,
  permissions: [
    { apiGroup: "batch", resources: ["jobs"], verbs: ["list", "watch", "delete"] },
    { apiGroup: "", resources: ["pods"], verbs: ["list", "watch", "delete"] },
  ],
  construct:
    (_initContext, { own }: { readonly own: Options }) =>
    (context) => {
      const { client, clock, informers, log } = context;
      /** Deletes the objects of one kind when they are due, and looks again when they will be. */
      function cleanUp<T extends KubeObject>(kind: KindRef<T>, dueOf: (object: T, options: Options) => Due) {
        const objects = informers.of(kind);
        const queue = context.workqueue(kind.plural);
        objects.handle({
          added: (object) => queue.add(keyOf(object)),
          updated: (_, object) => queue.add(keyOf(object)),
        });
        const sync = async (key: string): Promise<void> => {
          const object = objects.store.get(key);
          const at = object === undefined || isBeingDeleted(object) ? undefined : dueOf(object, own);
          if (object === undefined || at === undefined) return;
          if (at > clock.now()) return queue.addAfter(key, at - clock.now());
          const { name = "", namespace = "", uid = "" } = object.metadata ?? {};
          log.info("Deleting a finished object", { kind: kind.kind, object: key });
          try {
            await client.delete(kind, { name, namespace }, { uid, propagationPolicy: "Foreground" });
          } catch (error) {
            if (!isNotFound(error)) throw error;
          }
        };
        return (signal: AbortSignal) => queue.process({ workers: 2, signal, sync });
      }
      const loops = [cleanUp(jobs, dueOfJob), cleanUp(kinds.Pod, dueOfPod)];
      return { run: (signal) => runTogether(signal, loops) };
    },
});
