import {
  type CloudContext,
  isAborted,
  isNotFound,
  keyOf,
  kinds,
  type Node,
  readyStatus,
  retryOnConflict,
  type Taint,
  taints,
  taintsOf,
} from "cloud-controller-host/sdk";

const outOfService: Taint = { key: taints.outOfService, effect: "NoExecute" };
const isOutOfService = (taint: Taint): boolean =>
  taint.key === outOfService.key && taint.effect === outOfService.effect;
const isShutdown = (taint: Taint): boolean => taint.key === taints.shutdown && taint.effect === "NoSchedule";

const retryMs = 1_000;

/** What the keeping of taints needs of a generation. */
type NodeContext = Pick<CloudContext, "client" | "clock" | "informers" | "log">;

/**
 * The taints that a node should have, where they differ: one that is ready is in service again; one that is shut down
 * and not ready is out of service, which lets its pods and volumes move. Source: cloud-provider-azure `SetInformers`.
 */
export function serviceTaints(node: Node): readonly Taint[] | undefined {
  const list = taintsOf(node);
  const marked = list.some(isOutOfService);
  if (readyStatus(node) === "True") return marked ? list.filter((taint) => !isOutOfService(taint)) : undefined;
  return !marked && list.some(isShutdown) ? [...list, outOfService] : undefined;
}

/** Keeps the out-of-service taint of nodes; resolves when it has stopped. */
export async function keepServiceTaints(context: NodeContext, signal: AbortSignal): Promise<void> {
  const { clock, informers, log } = context;
  const waiting = new Map<string, Node>();
  let arrived = Promise.withResolvers<void>();
  const consider = (node: Node): void => {
    if (serviceTaints(node) === undefined) return;
    waiting.set(keyOf(node), node);
    arrived.resolve();
  };
  const stopped = (): void => arrived.resolve();
  signal.addEventListener("abort", stopped, { once: true });
  const handler = informers.of(kinds.Node).handle({ added: consider, updated: (_before, node) => consider(node) });
  try {
    while (!signal.aborted) {
      const [next] = waiting;
      if (next === undefined) {
        await arrived.promise;
        arrived = Promise.withResolvers();
        continue;
      }
      const [name, node] = next;
      waiting.delete(name);
      try {
        await writeTaints(context, node, signal);
      } catch (error) {
        if (signal.aborted || isAborted(error)) return;
        log.error("cannot change the out-of-service taint of a node", { node: name, error });
        waiting.set(name, node);
        await clock.sleep(retryMs, signal);
      }
    }
  } finally {
    handler.remove();
    signal.removeEventListener("abort", stopped);
  }
}

/** Decides on what the API server has of the node, guarded by its version. */
async function writeTaints({ client, clock }: NodeContext, node: Node, signal: AbortSignal): Promise<void> {
  const name = keyOf(node);
  try {
    await retryOnConflict({ clock, steps: 5, pauseMs: 100, signal }, async (attempt) => {
      const current = await client.get(kinds.Node, { name }, { read: attempt === 0 ? "cached" : "latest", signal });
      const wanted = serviceTaints(current);
      if (wanted === undefined) return;
      await client.patch(
        kinds.Node,
        { name },
        "strategic",
        {
          metadata: { resourceVersion: current.metadata?.resourceVersion },
          spec: { taints: wanted.length === 0 ? null : wanted },
        },
        { signal },
      );
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
