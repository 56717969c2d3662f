import {
  type ControllerContext,
  type FailingObjects,
  type Instances,
  isConflict,
  isNotFound,
  isUninitialized,
  keyOf,
  kinds,
  type Node,
  recurringMessageOf,
} from "cloud-controller-host/sdk";

import type { LifecycleOptions } from "./options.ts";

type Ages = Pick<LifecycleOptions, "gracePeriodSeconds" | "uninitializedGracePeriodSeconds">;

/**
 * True while a missing node is too young to be deleted: the cloud may not list its instance yet. `observedMs`: it has
 * existed for at least as long, also where the wall clock was set back.
 */
export function isInGrace(node: Node, nowMs: number, ages: Ages, observedMs = 0): boolean {
  const created = Date.parse(node.metadata?.creationTimestamp ?? "");
  const ageSeconds = Math.max(observedMs, Number.isNaN(created) ? 0 : nowMs - created) / 1000;
  const grace = isUninitialized(node)
    ? Math.max(ages.gracePeriodSeconds, ages.uninitializedGracePeriodSeconds)
    : ages.gracePeriodSeconds;
  return ageSeconds < grace;
}

interface Deletion {
  readonly context: Pick<ControllerContext, "client" | "events" | "log">;
  readonly instances: Instances;
  readonly failing: FailingObjects;
  readonly signal: AbortSignal;
}

/** Deletes a missing node after a fresh read of the cloud has confirmed it. Returns true when it did. Never throws. */
export async function deleteIfGone(deletion: Deletion, node: Node): Promise<boolean> {
  return (await isGone(deletion, node)) && (await deleteNode(deletion, node));
}

async function isGone({ context, instances, failing, signal }: Deletion, node: Node): Promise<boolean> {
  const name = keyOf(node);
  try {
    const exists = await instances.instanceExists(node, { signal, read: "fresh" });
    if (exists) context.log.info("Not deleting node: the instance still exists", { node: name });
    return !exists && !signal.aborted;
  } catch (error) {
    if (!signal.aborted) {
      context.log.error("Not deleting node: error checking if node exists", { node: name, error });
      failing.failed(name, error);
    }
    return false;
  }
}

/** The preconditions keep a node that was recreated, or that changed since its check; it is checked again. */
async function deleteNode({ context, failing, signal }: Deletion, node: Node): Promise<boolean> {
  const { client, events, log } = context;
  const name = keyOf(node);
  const { uid, resourceVersion } = node.metadata ?? {};
  const subject = { apiVersion: "v1", kind: "Node", metadata: { name, ...(uid === undefined ? {} : { uid }) } };
  log.info("Deleting node since it is no longer present in cloud provider", { node: name });
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
    return true;
  } catch (error) {
    if (isNotFound(error)) return true;
    if (signal.aborted) return false;
    if (isConflict(error)) {
      log.info("Not deleting node: it changed after it was checked", { node: name });
      return false;
    }
    log.error("Unable to delete node", { node: name, error });
    failing.failed(name, error);
    events.event(
      subject,
      "Warning",
      "DeletingNodeFailed",
      `Failed deleting node ${name}: ${recurringMessageOf(error)}`,
    );
    return false;
  }
}
