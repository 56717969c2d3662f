import {
  type ControllerContext,
  type Instances,
  isConflict,
  isNotFound,
  isUninitialized,
  keyOf,
  kinds,
  messageOf,
  type Node,
} from "cloud-controller-host/sdk";

import type { LifecycleOptions } from "./options.ts";

type Ages = Pick<LifecycleOptions, "gracePeriodSeconds" | "uninitializedGracePeriodSeconds">;

/** Whether a missing node is too young to be deleted: its machine may simply not be listed by the cloud yet. */
export function isInGrace(node: Node, nowMs: number, ages: Ages): boolean {
  const created = Date.parse(node.metadata?.creationTimestamp ?? "");
  const ageSeconds = Number.isNaN(created) ? 0 : (nowMs - created) / 1000;
  const grace = isUninitialized(node)
    ? Math.max(ages.gracePeriodSeconds, ages.uninitializedGracePeriodSeconds)
    : ages.gracePeriodSeconds;
  return ageSeconds < grace;
}

interface Deletion {
  readonly context: Pick<ControllerContext, "client" | "events" | "log">;
  readonly instances: Instances;
  readonly signal: AbortSignal;
}

/** Deletes a missing node once the cloud, asked past its caches, has said again that the machine is gone. Never throws. */
export async function deleteIfGone(deletion: Deletion, node: Node): Promise<void> {
  if (await isGone(deletion, node)) await deleteNode(deletion, node);
}

async function isGone({ context, instances, signal }: Deletion, node: Node): Promise<boolean> {
  const name = keyOf(node);
  try {
    const exists = await instances.instanceExists(node, { signal, read: "fresh" });
    if (exists) context.log.info("kept the node: asked afresh, the cloud knows its machine", { node: name });
    return !exists && !signal.aborted;
  } catch (error) {
    if (!signal.aborted)
      context.log.error("kept the node: the cloud could not confirm its loss", { node: name, error });
    return false;
  }
}

/** The preconditions keep a node that was made anew, or that changed since it was judged; it is judged again. */
async function deleteNode({ context, signal }: Deletion, node: Node): Promise<void> {
  const { client, events, log } = context;
  const name = keyOf(node);
  const { uid, resourceVersion } = node.metadata ?? {};
  const subject = { apiVersion: "v1", kind: "Node", metadata: { name, ...(uid === undefined ? {} : { uid }) } };
  events.event(
    subject,
    "Normal",
    "DeletingNode",
    `Deleting node ${name} because it does not exist in the cloud provider`,
  );
  try {
    await client.delete(
      kinds.Node,
      { name },
      { ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) },
    );
    log.info("deleted the node, whose machine is gone", { node: name });
  } catch (error) {
    if (isNotFound(error) || signal.aborted) return;
    if (isConflict(error)) {
      log.info("kept the node: it changed while it was judged", { node: name });
      return;
    }
    log.error("failed to delete the node", { node: name, error });
    events.event(subject, "Warning", "DeletingNodeFailed", `Failed deleting node ${name}: ${messageOf(error)}`);
  }
}
