import { isDeepStrictEqual } from "node:util";

import {
  annotationOf,
  annotations,
  ApiError,
  CodedError,
  type ControllerContext,
  type Histogram,
  type InstanceMetadata,
  type Instances,
  isConflict,
  isNotFound,
  isUninitialized,
  keyOf,
  kinds,
  type Node,
  type Store,
} from "cloud-controller-host/sdk";

import { updateAddresses, type WriteContext } from "./address-loop.ts";
import { applyMetadata, type NodeUpdate } from "./node-update.ts";
import { addressesFromNodeIP } from "./provided-node-ip.ts";

/** Wait of new nodes for the cloud, in seconds since their creation. */
export interface DelayMetrics {
  /** Until the taint is removed. */
  readonly taintRemoved: Histogram;
  /** Until the attempt to write the addresses has ended as well. */
  readonly synced: Histogram;
}

/** Nodes by name, each with its UID: one that is recreated under the name is another. */
export type NodeSet = Map<string, string | undefined>;

export const hasNode = (set: NodeSet, node: Node): boolean =>
  set.has(keyOf(node)) && set.get(keyOf(node)) === node.metadata?.uid;

/** The sync of one node. */
export interface Initialization {
  readonly context: Pick<ControllerContext, "clock"> & WriteContext;
  readonly instances: Instances;
  readonly nodes: Store<Node>;
  readonly delays: DelayMetrics;
  /** Nodes whose patch has got no reply: it may have been applied, and their addresses are not written. */
  readonly unanswered: NodeSet;
  /** Initialized nodes whose addresses could not be written. */
  readonly addressless: NodeSet;
  /** Called once the node is initialized. */
  readonly synced: (node: Node) => void;
  readonly signal: AbortSignal;
}

/**
 * Applies the cloud's metadata to a tainted node and removes the taint: one patch, and a status patch if need be.
 * Throws, and leaves the taint, when the metadata cannot be read or does not fit the node.
 */
export async function initializeNode(work: Initialization, node: Node): Promise<void> {
  const { context, delays, signal } = work;
  const name = keyOf(node);
  context.log.debug(2, "Initializing node with cloud provider", { node: name });
  const metadata = await fetchMetadata(work.instances, node, signal);
  if (metadata === undefined) {
    context.log.info("Skip sync node because cloud provided nil metadata", { node: name });
    return;
  }
  const initialized = await patchNode(work, node, metadata);
  if (initialized === undefined) return;
  const { node: written, isOurs } = initialized;
  if (isOurs) delays.taintRemoved.observe(ageInSeconds(context, written));
  // Also of another writer's: a leader that has lost the lease may write no more, and the next pass is minutes away.
  if (!(await updateAddresses(context, written, metadata))) work.addressless.set(name, written.metadata?.uid);
  if (!isOurs) return;
  context.log.info("Successfully initialized node with cloud provider", {
    node: name,
    providerID: written.spec?.providerID,
  });
  work.synced(written);
  delays.synced.observe(ageInSeconds(context, written));
}

/** Writes the addresses of a node that was initialized without them. */
export async function completeAddresses(work: Initialization, node: Node): Promise<void> {
  const metadata = await fetchMetadata(work.instances, node, work.signal);
  if (metadata === undefined || (await updateAddresses(work.context, node, metadata)))
    work.addressless.delete(keyOf(node));
}

/**
 * The instance's metadata with a provider ID: the cloud's, else the node's own. Undefined when the cloud has none now;
 * throws when it cannot be read or when neither side knows a provider ID.
 */
export async function fetchMetadata(
  instances: Instances,
  node: Node,
  signal: AbortSignal,
): Promise<InstanceMetadata | undefined> {
  const name = keyOf(node);
  try {
    const metadata = await instances.instanceMetadata(node, { signal });
    if (metadata === undefined || metadata.providerID !== "") return metadata;
    const providerID = node.spec?.providerID ?? "";
    if (providerID !== "") return { ...metadata, providerID };
    throw new CodedError("NoProviderID", `cloud provider does not set node provider ID for node ${name}`);
  } catch (error) {
    throw new CodedError("InstanceMetadata", `failed to get instance metadata for node ${name}`, { cause: error });
  }
}

const maxAttempts = 20;
const pauseMs = 50;

interface InitializedNode {
  readonly node: Node;
  /** False where another writer has removed the taint. */
  readonly isOurs: boolean;
}

/**
 * The node as written, perhaps by an earlier attempt without a reply or by another writer, or undefined when it was
 * deleted in the meantime. A rejected patch is sent again only when the node has changed: the same patch would be
 * rejected for the same reason.
 */
async function patchNode(
  work: Initialization,
  seen: Node,
  metadata: InstanceMetadata,
): Promise<InitializedNode | undefined> {
  const { client, clock } = work.context;
  let rejected: { readonly patch: NodeUpdate["patch"]; readonly error: unknown } | undefined;
  for (let attempt = 1; ; attempt++) {
    const current = await readForWrite(work, seen, attempt);
    if (current === undefined) return undefined;
    if (!isUninitialized(current)) return { node: current, isOurs: hasNode(work.unanswered, current) };
    const { node, patch } = planUpdate(work, current, metadata);
    if (rejected !== undefined && isDeepStrictEqual(rejected.patch, patch)) throw rejected.error;
    try {
      await client.patch(kinds.Node, { name: keyOf(seen) }, "json", patch, { response: "metadata" });
      return { node, isOurs: true };
    } catch (error) {
      if (isNotFound(error)) return undefined;
      if (!isRefusal(error)) work.unanswered.set(keyOf(seen), seen.metadata?.uid);
      if (attempt === maxAttempts || work.signal.aborted || !(isConflict(error) || isInvalid(error))) throw error;
      rejected = isInvalid(error) ? { patch, error } : undefined;
    }
    await clock.sleep(pauseMs * (1 + Math.random()), work.signal);
  }
}

/** The API server has replied that nothing was written. */
const isRefusal = (error: unknown): boolean => error instanceof ApiError && error.status >= 400 && error.status < 500;

/** A test in the patch failed, or the API server's validation. */
const isInvalid = (error: unknown): boolean => error instanceof ApiError && error.status === 422;

/**
 * The newest version of the node for this attempt. After a rejected patch the cache is known to be behind, so the API
 * server is read. A node recreated under the name is another instance, to which this metadata does not apply.
 */
async function readForWrite(work: Initialization, seen: Node, attempt: number): Promise<Node | undefined> {
  const name = keyOf(seen);
  const current = attempt === 1 ? work.nodes.get(name) : await readLatest(work, name);
  if (current !== undefined && current.metadata?.uid !== seen.metadata?.uid)
    throw new CodedError("NodeReplaced", `node ${name} was deleted and recreated during its initialization`);
  return current;
}

async function readLatest({ context, signal }: Initialization, name: string): Promise<Node | undefined> {
  try {
    return await context.client.get(kinds.Node, { name }, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

function planUpdate({ context }: Initialization, node: Node, metadata: InstanceMetadata): NodeUpdate {
  checkNodeIP(node, metadata);
  const update = applyMetadata(node, metadata);
  for (const { label, reason } of update.discarded)
    context.log.warn("Discarding node label", { node: keyOf(node), label, reason });
  return update;
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
