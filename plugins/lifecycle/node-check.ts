import {
  type ControllerContext,
  type Instances,
  keyOf,
  type Node,
  readyStatus,
  taintsOf,
} from "cloud-controller-host/sdk";

import { changeTaints } from "./taint-writes.ts";
import { hasTaint, shutdownTaint, withoutTaint, withTaint } from "./taints.ts";

/** What is known of a node's machine: `unknown` when the cloud could not say. */
export type Verdict = "ready" | "exists" | "missing" | "unknown";

interface NodeCheck {
  readonly context: Pick<ControllerContext, "client" | "clock" | "log">;
  readonly instances: Instances;
  readonly signal: AbortSignal;
}

/**
 * Looks after one node's shutdown taint, and says whether its machine is there. A node that is ready has a machine,
 * whatever the cloud says: the cloud is not asked. Never throws.
 */
export async function checkNode(check: NodeCheck, node: Node): Promise<Verdict> {
  const { context, instances, signal } = check;
  try {
    if (readyStatus(node) === "True") {
      await clearShutdown(check, node);
      return "ready";
    }
    if (!(await instances.instanceExists(node, { signal }))) return "missing";
  } catch (error) {
    if (!signal.aborted) context.log.error("failed to check whether the node's machine exists", of(node, error));
    return "unknown";
  }
  await markShutdown(check, node);
  return "exists";
}

async function clearShutdown({ context, signal }: NodeCheck, node: Node): Promise<void> {
  if (!hasTaint(taintsOf(node), shutdownTaint)) return;
  try {
    if (await changeTaints(context, node, (list) => withoutTaint(list, shutdownTaint), signal))
      context.log.info("removed the shutdown taint", { node: keyOf(node) });
  } catch (error) {
    if (!signal.aborted) context.log.error("failed to remove the shutdown taint", of(node, error));
  }
}

/** Before a node is tainted the cloud is asked afresh; a node that has the taint already is left alone. */
async function markShutdown({ context, instances, signal }: NodeCheck, node: Node): Promise<void> {
  if (withTaint(taintsOf(node), shutdownTaint) === undefined) return;
  try {
    if (!(await instances.instanceShutdown(node, { signal }))) return;
    if (!(await instances.instanceShutdown(node, { signal, read: "fresh" }))) return;
    if (await changeTaints(context, node, (list) => withTaint(list, shutdownTaint), signal))
      context.log.info("added the shutdown taint", { node: keyOf(node) });
  } catch (error) {
    if (!signal.aborted) context.log.error("failed to check whether the node's machine is shut down", of(node, error));
  }
}

const of = (node: Node, error: unknown): { readonly node: string; readonly error: unknown } => ({
  node: keyOf(node),
  error,
});
