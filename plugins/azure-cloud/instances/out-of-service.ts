import {
  type CloudContext,
  isAborted,
  keyOf,
  kinds,
  type Node,
  readyStatus,
  type Taint,
  taints,
  taintsOf,
  updateTaints,
} from "cloud-controller-host/sdk";

const outOfService: Taint = { key: taints.outOfService, effect: "NoExecute" };
const isOutOfService = (taint: Taint): boolean =>
  taint.key === outOfService.key && taint.effect === outOfService.effect;
const isShutdown = (taint: Taint): boolean => taint.key === taints.shutdown && taint.effect === "NoSchedule";

/** Nodes that are written at once. One node is never written twice at once. */
const maxConcurrentWrites = 16;
const firstRetryMs = 1_000;
const maxRetryMs = 60_000;

/** The part of a generation that is needed to maintain taints. */
type NodeContext = Pick<CloudContext, "client" | "clock" | "informers" | "log">;

/**
 * The wanted taints of a node, or undefined when it has them: a ready node loses the out-of-service taint; a node that
 * is shut down and not ready gets it, so that its pods and volumes can move. Source: cloud-provider-azure
 * `SetInformers`.
 */
export function serviceTaints(node: Node): readonly Taint[] | undefined {
  const list = taintsOf(node);
  const marked = list.some(isOutOfService);
  if (readyStatus(node) === "True") return marked ? list.filter((taint) => !isOutOfService(taint)) : undefined;
  return !marked && list.some(isShutdown) ? [...list, outOfService] : undefined;
}

/** Maintains the out-of-service taint of all nodes until the signal aborts; resolves when no write is in flight. */
export async function maintainServiceTaints(context: NodeContext, signal: AbortSignal): Promise<void> {
  const work = new Map<string, Promise<void>>();
  const changed = new Set<string>();
  const slots = new Slots(maxConcurrentWrites);
  const consider = (node: Node): void => {
    const name = keyOf(node);
    if (serviceTaints(node) === undefined) return;
    if (work.has(name)) changed.add(name);
    else work.set(name, start(node, name));
  };
  const start = async (node: Node, name: string): Promise<void> => {
    await writeUntilDone(context, slots, node, signal);
    work.delete(name);
    if (!changed.delete(name)) return;
    const current = context.informers.of(kinds.Node).store.get(name);
    if (current !== undefined) consider(current);
  };
  const handler = context.informers
    .of(kinds.Node)
    .handle({ added: consider, updated: (_before, node) => consider(node) });
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
  handler.remove();
  await Promise.all(work.values());
}

/** Writes one node's taints, and again with growing pauses after a failure; the pauses of one node delay no other. */
async function writeUntilDone(context: NodeContext, slots: Slots, node: Node, signal: AbortSignal): Promise<void> {
  for (let pauseMs = firstRetryMs; !signal.aborted; pauseMs = Math.min(maxRetryMs, pauseMs * 2)) {
    try {
      await slots.run(async () => {
        await updateTaints(context, node, serviceTaints, signal);
      });
      return;
    } catch (error) {
      if (signal.aborted || isAborted(error)) return;
      context.log.error("Failed to update the out-of-service taint of node", { node: keyOf(node), error });
      await context.clock.sleep(pauseMs, signal);
    }
  }
}

/** A counting semaphore: at most `size` tasks run at once, in the order in which they came. */
class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(size: number) {
    this.#free = size;
  }

  async run(task: () => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    try {
      await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
