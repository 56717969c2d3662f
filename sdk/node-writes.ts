import type { Clock } from "./context.ts";
import { isNotFound, isReplaced } from "./errors.ts";
import { keyOf, kinds, type Node, type NodeCondition, type Taint } from "./kinds.ts";
import type { KubeClient } from "./kube.ts";
import { retryOnConflict } from "./loops.ts";
import { compareResourceVersion } from "./objects.ts";
import { timestamp } from "./values.ts";

const conflictRetry = { steps: 5, pauseMs: 100 };

/** The client that sends the write, and the clock that paces its retries. */
export interface NodeWriter {
  readonly client: Pick<KubeClient, "get" | "patch">;
  readonly clock: Clock;
}

/**
 * The body of a strategic merge patch that replaces all taints of a node. `resourceVersion` guards the list: a change
 * by another writer is a 409. An empty list is `null`, because an empty array would leave the taints as they are.
 */
export const taintsPatch = (node: Node, taints: readonly Taint[]) => ({
  metadata: { resourceVersion: node.metadata?.resourceVersion },
  spec: { taints: taints.length === 0 ? null : taints },
});

const isOlder = ({ metadata: one }: Node, { metadata: other }: Node): boolean =>
  compareResourceVersion(one?.resourceVersion, other?.resourceVersion) === -1;

/**
 * Sets a node's taints to what `change` returns; undefined means no write. `change` sees the node as the API server has
 * it: from the watch cache first, by a quorum read after a conflict and where that cache lacks what the watch of another
 * API server has shown in `node`. A node that was deleted, or recreated under
 * the same name, is left alone. Returns true when a write was sent. A write in flight is not canceled by the signal.
 */
export async function updateTaints(
  { client, clock }: NodeWriter,
  node: Node,
  change: (current: Node) => readonly Taint[] | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const name = { name: keyOf(node) };
  try {
    return await retryOnConflict({ clock, signal, ...conflictRetry }, async (attempt) => {
      const read = await client.get(kinds.Node, name, { read: attempt === 0 ? "cached" : "latest", signal });
      const current = isOlder(read, node) ? await client.get(kinds.Node, name, { read: "latest", signal }) : read;
      const wanted = current.metadata?.uid === node.metadata?.uid ? change(current) : undefined;
      if (wanted === undefined) return false;
      await client.patch(kinds.Node, name, "strategic", taintsPatch(current, wanted));
      return true;
    });
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/** The part of a condition that its owner decides; the times are those of the write. */
export type ConditionState = Required<Pick<NodeCondition, "type" | "status" | "reason" | "message">>;

/**
 * The body of a strategic merge patch of the status that sets one condition; the merge key is the type. The UID keeps it
 * from another node of that name.
 */
export function conditionPatch(state: ConditionState, nowMs: number, uid?: string) {
  const at = timestamp(nowMs);
  return {
    ...(uid !== undefined && { metadata: { uid } }),
    status: { conditions: [{ ...state, lastHeartbeatTime: at, lastTransitionTime: at }] },
  };
}

/**
 * Sets one condition of a node, last write wins. A node that was deleted needs none, nor does one that was recreated under
 * the name; by its name alone, whichever node has that gets it.
 */
export async function updateCondition(
  { client, clock }: NodeWriter,
  node: Node | string,
  state: ConditionState,
  signal: AbortSignal,
): Promise<void> {
  const [name, uid] = typeof node === "string" ? [node] : [keyOf(node), node.metadata?.uid];
  try {
    await retryOnConflict({ clock, signal, ...conflictRetry }, async () => {
      const body = conditionPatch(state, clock.now(), uid);
      await client.patch(kinds.Node, { name }, "strategic", body, { subresource: "status" });
    });
  } catch (error) {
    if (!isNotFound(error) && !isReplaced(error)) throw error;
  }
}
