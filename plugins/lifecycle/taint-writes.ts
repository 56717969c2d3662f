import {
  type ControllerContext,
  isNotFound,
  keyOf,
  kinds,
  type Node,
  retryOnConflict,
  type Taint,
  taintsOf,
} from "cloud-controller-host/sdk";

/** From the taints that a node has to those that it must have; undefined when nothing is to be written. */
export type TaintChange = (list: readonly Taint[]) => readonly Taint[] | undefined;

/**
 * Changes a node's taints on what the API server has of it, guarded by its version: the list is written whole, so a
 * change made meanwhile by somebody else is a conflict, and is tried again on the newer list. Says whether it wrote.
 */
export async function changeTaints(
  { client, clock }: Pick<ControllerContext, "client" | "clock">,
  node: Node,
  change: TaintChange,
  signal: AbortSignal,
): Promise<boolean> {
  const name = keyOf(node);
  try {
    return await retryOnConflict({ clock, steps: 5, pauseMs: 100, signal }, async (attempt) => {
      const current = await client.get(kinds.Node, { name }, { read: attempt === 0 ? "cached" : "latest", signal });
      const wanted = current.metadata?.uid === node.metadata?.uid ? change(taintsOf(current)) : undefined;
      if (wanted === undefined) return false;
      await client.patch(kinds.Node, { name }, "strategic", {
        metadata: { resourceVersion: current.metadata?.resourceVersion },
        spec: { taints: wanted.length === 0 ? null : wanted },
      });
      return true;
    });
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
