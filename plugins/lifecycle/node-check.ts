import {
  type ControllerContext,
  type FailingObjects,
  type InstanceRead,
  type Instances,
  keyOf,
  type Node,
  readyStatus,
  type Taint,
  taints,
  taintsOf,
  updateTaints,
} from "cloud-controller-host/sdk";

/** Keeps pods off a node whose instance is shut down. */
const shutdownTaint: Taint = { key: taints.shutdown, effect: "NoSchedule" };

/** `unknown` when the cloud returned an error. */
export type Verdict = "ready" | "exists" | "missing" | "unknown";

interface NodeCheck {
  readonly context: Pick<ControllerContext, "client" | "clock" | "log">;
  readonly instances: Instances;
  readonly failing: FailingObjects;
  /** The read that looks up the instance of a node that is not ready. */
  readonly nextRead: () => Pick<InstanceRead, "read">;
  readonly signal: AbortSignal;
}

/** False for a node that needs neither a cloud call nor a write: it is ready and has no shutdown taint. */
export const needsCheck = (node: Node): boolean =>
  readyStatus(node) !== "True" || hasTaint(taintsOf(node), shutdownTaint);

/**
 * Maintains one node's shutdown taint, and returns whether its instance exists. A node that is ready has an instance,
 * whatever the cloud says: the cloud is not called. Never throws.
 */
export async function checkNode(check: NodeCheck, node: Node): Promise<Verdict> {
  const { context, instances, failing, nextRead, signal } = check;
  const name = keyOf(node);
  let verdict: Verdict = "unknown";
  let step = "checking if node exists";
  try {
    if (readyStatus(node) === "True") {
      [verdict, step] = ["ready", "patching node taints"];
      await removeShutdownTaint(check, node);
    } else if (await instances.instanceExists(node, { ...nextRead(), signal })) {
      [verdict, step] = ["exists", "checking if node is shutdown"];
      await addShutdownTaint(check, node);
    } else verdict = "missing";
    failing.ended(name);
  } catch (error) {
    if (!signal.aborted) {
      context.log.error(`Error ${step}`, { node: name, error });
      failing.failed(name, error);
    }
  }
  return verdict;
}

async function removeShutdownTaint({ context, signal }: NodeCheck, node: Node): Promise<void> {
  if (await updateTaints(context, node, (current) => withoutTaint(taintsOf(current), shutdownTaint), signal))
    context.log.info("Removed the shutdown taint", { node: keyOf(node) });
}

/** A fresh read of the cloud precedes the taint; a node that has it already, or is ready by then, is left alone. */
async function addShutdownTaint({ context, instances, signal }: NodeCheck, node: Node): Promise<void> {
  if (withTaint(taintsOf(node), shutdownTaint) === undefined) return;
  if (!(await instances.instanceShutdown(node, { signal }))) return;
  if (!(await instances.instanceShutdown(node, { signal, read: "fresh" }))) return;
  const wanted = (current: Node): readonly Taint[] | undefined =>
    readyStatus(current) === "True" ? undefined : withTaint(taintsOf(current), shutdownTaint);
  if (await updateTaints(context, node, wanted, signal))
    context.log.info("Added the shutdown taint", { node: keyOf(node) });
}

/** Taints match when key and effect agree; the value does not matter. */
const matches = (one: Taint, other: Taint): boolean => one.key === other.key && one.effect === other.effect;

export const hasTaint = (list: readonly Taint[], taint: Taint): boolean => list.some((other) => matches(other, taint));

/** The list with the taint: in the place of a matching one, else at the end. Undefined when it is there already. */
export function withTaint(list: readonly Taint[], taint: Taint): readonly Taint[] | undefined {
  const present = list.find((other) => matches(other, taint));
  if (present === undefined) return [...list, taint];
  if (present.value === taint.value && present.timeAdded === taint.timeAdded) return undefined;
  return list.map((other) => (other === present ? taint : other));
}

/** The list without the taint; undefined when it is not there. */
export function withoutTaint(list: readonly Taint[], taint: Taint): readonly Taint[] | undefined {
  return hasTaint(list, taint) ? list.filter((other) => !matches(other, taint)) : undefined;
}
