import {
  annotationOf,
  annotations,
  CodedError,
  type ControllerContext,
  type InstanceMetadata,
  type Instances,
  isNotFound,
  isUninitialized,
  keyOf,
  type Node,
  retryOnConflict,
  type Store,
} from "cloud-controller-host/sdk";

import { updateAddresses } from "./address-update.ts";
import { fetchMetadata } from "./metadata.ts";
import type { DelayMetrics } from "./metrics.ts";
import { initialized } from "./modifiers.ts";
import type { NodeWrites } from "./node-writes.ts";
import { addressesFromNodeIP } from "./provided-node-ip.ts";

interface Initialization {
  readonly context: Pick<ControllerContext, "clock" | "events" | "log">;
  readonly instances: Instances;
  readonly nodes: Store<Node>;
  readonly writes: NodeWrites;
  readonly delays: DelayMetrics;
  readonly signal: AbortSignal;
}

/**
 * Gives a tainted node what the cloud knows of it and takes the taint off: one PUT, and a status patch if need be.
 * Throws, and leaves the taint, when the cloud cannot be asked or its answer does not fit the node.
 */
export async function initializeNode(work: Initialization, node: Node): Promise<void> {
  const { context, delays, signal } = work;
  const name = keyOf(node);
  const metadata = await fetchMetadata(work.instances, node, signal);
  if (metadata === undefined) {
    context.log.debug(2, "the cloud has nothing to say about the node yet", { node: name });
    return;
  }
  const written = await putInitialized(work, node, metadata);
  if (written === undefined) return;
  delays.taintRemoved.observe(ageInSeconds(context, written));
  await updateAddresses(work, written, metadata);
  context.log.info("initialized the node", { node: name, providerID: written.spec?.providerID });
  context.events.event(written, "Normal", "Synced", "Node synced successfully");
  delays.synced.observe(ageInSeconds(context, written));
}

/** The node as written, or undefined when it has gone or somebody else has initialized it meanwhile. */
async function putInitialized(work: Initialization, seen: Node, metadata: InstanceMetadata): Promise<Node | undefined> {
  const { clock } = work.context;
  try {
    return await retryOnConflict({ clock, steps: 20, pauseMs: 50, signal: work.signal }, async (attempt) => {
      const current = await readForWrite(work, seen, attempt);
      return current === undefined ? undefined : await work.writes.replace(wanted(work, current, metadata));
    });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/**
 * The newest node that can be had for the next try. After a conflict the cache is known to be behind, so the API server
 * is asked. A node made anew under the name is another machine: the metadata in hand is not its own.
 */
async function readForWrite(work: Initialization, seen: Node, attempt: number): Promise<Node | undefined> {
  const name = keyOf(seen);
  const current = attempt === 0 ? work.nodes.get(name) : await work.writes.read(name, "latest", work.signal);
  if (current !== undefined && current.metadata?.uid !== seen.metadata?.uid)
    throw new CodedError("NodeReplaced", `node ${name} was replaced by another one of its name`);
  return current !== undefined && isUninitialized(current) ? current : undefined;
}

function wanted({ context }: Initialization, node: Node, metadata: InstanceMetadata): Node {
  const name = keyOf(node);
  checkNodeIP(node, metadata);
  const result = initialized(node, metadata);
  for (const { label, reason } of result.refused)
    context.log.warn("a label of the cloud was not set on the node", { node: name, label, reason });
  return result.node;
}

function checkNodeIP(node: Node, metadata: InstanceMetadata): void {
  const nodeIP = annotationOf(node, annotations.providedNodeIP);
  if (nodeIP === undefined) return;
  try {
    addressesFromNodeIP(nodeIP, metadata.nodeAddresses);
  } catch (error) {
    throw new CodedError("NodeIPInvalid", `provided node ip for node "${keyOf(node)}" is not valid`, { cause: error });
  }
}

function ageInSeconds({ clock }: Pick<ControllerContext, "clock">, node: Node): number {
  const created = Date.parse(node.metadata?.creationTimestamp ?? "");
  return Number.isNaN(created) ? 0 : Math.max(0, clock.now() - created) / 1000;
}
