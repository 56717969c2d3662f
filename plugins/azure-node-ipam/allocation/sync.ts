import {
  type CIDR,
  CodedError,
  isNotFound,
  keyOf,
  kinds,
  type KubeClient,
  type Logger,
  type Node,
  RetryAfterError,
  type Store,
} from "cloud-controller-host/sdk";

import type { Allocations, Claim } from "../cidrset/allocations.ts";
import type { IpamEvents } from "../nodes/events.ts";
import { writePodCidrs } from "../nodes/patch.ts";
import { isWrittenByUs, writersOfPodCidrs } from "../nodes/pod-cidrs-writers.ts";
import { podCidrTexts, uidOf } from "../nodes/pod-cidrs.ts";
import type { NodeRecords } from "../nodes/records.ts";
import { type CidrAllocator, invalidNodeMask } from "./allocators.ts";
import type { OrphanAudit } from "./audit.ts";
import type { StarvedNodes } from "./starved.ts";
import type { Suspension } from "./suspension.ts";

export interface SyncParts {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly nodes: Store<Node>;
  readonly allocator: CidrAllocator;
  readonly allocations: Allocations;
  readonly records: NodeRecords;
  readonly audit: OrphanAudit;
  readonly suspension: Suspension;
  readonly events: IpamEvents;
  readonly starved: StarvedNodes;
  /** Consecutive failures of a node's sync. */
  failures(name: string): number;
}

/**
 * Reconciles one node: it has CIDRs, and its claim equals them. The queue never runs two syncs of one node at a time,
 * but the watch may replace the claim during every await: a decision from before an await is dropped when the claim is
 * no longer the same one, because the watch has queued the node again.
 */
export async function syncNode(parts: SyncParts, name: string, signal: AbortSignal): Promise<void> {
  const { nodes, allocations, records, allocator } = parts;
  parts.starved.attempted(name);
  const node = nodes.get(name);
  const claim = allocations.claimOf(name);
  if (claim === undefined) {
    if (node === undefined) release(parts, name);
    else if (podCidrTexts(node).length > 0) records.seen(node);
    else await allocate(parts, node, signal);
  } else if (node !== undefined && records.isSettled(node) && !records.isDoubtful(node))
    await allocator.finish(node, signal);
  else await resolve(parts, name, claim, signal);
}

/** The claim and the cached node differ; a read of the API server decides. */
async function resolve(parts: SyncParts, name: string, claim: Claim, signal: AbortSignal): Promise<void> {
  const { client, nodes, allocations } = parts;
  const fresh = await readFresh(client, name, signal);
  if (allocations.claimOf(name) !== claim) return;
  if (fresh === undefined) {
    release(parts, name);
    return;
  }
  if (podCidrTexts(fresh).length > 0) {
    await accept(parts, fresh, signal);
    return;
  }
  const inSight = nodes.get(name) !== undefined;
  // A write that is still in flight can only set the same CIDRs.
  if (inSight && claim.held.length === 0 && claim.unsure.length > 0) await assign(parts, fresh, claim.unsure, signal);
  else {
    release(parts, name);
    if (inSight) await allocate(parts, fresh, signal);
  }
}

function release({ records, allocator, suspension, starved }: SyncParts, name: string): void {
  records.released(name);
  allocator.forget(name);
  suspension.forget(name);
  starved.forget(name);
}

async function readFresh(client: KubeClient, name: string, signal: AbortSignal): Promise<Node | undefined> {
  try {
    return await client.get(kinds.Node, { name }, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** The node has CIDRs, as read from the API server. */
async function accept(parts: SyncParts, fresh: Node, signal: AbortSignal): Promise<void> {
  const { records, allocator } = parts;
  const name = keyOf(fresh);
  if (records.confirmed(fresh)) {
    allocator.forget(name);
    // A late write of a previous process or generation counts as ours.
    if (isWrittenByUs(fresh)) allocator.takeUp(fresh);
    else quarantine(parts, fresh);
  }
  await allocator.finish(fresh, signal);
}

/** Another writer was faster: the node keeps its CIDRs, and its claim keeps them from others. */
function quarantine({ suspension, events, log }: SyncParts, node: Node): void {
  const name = keyOf(node);
  const writer = [...writersOfPodCidrs(node)].toSorted().join(",") || "an unknown writer";
  const message = `Node already has a CIDR allocated: ${podCidrTexts(node).join(",")} was set by ${writer}`;
  log.warn("Node already has a CIDR allocated by another writer. Releasing the new one.", { node: name, writer });
  events.otherAllocator(node, message);
  suspension.quarantine(name, writer);
}

async function allocate(parts: SyncParts, node: Node, signal: AbortSignal): Promise<void> {
  const { allocator, suspension } = parts;
  if (suspension.suspended || !allocator.isReady(node)) return;
  const cidrs = await findRoom(parts, node, signal);
  if (cidrs !== undefined) await assign(parts, node, cidrs, signal);
}

/** Undefined when the node got CIDRs, or was deleted, in the meantime. */
async function findRoom(parts: SyncParts, node: Node, signal: AbortSignal): Promise<readonly CIDR[] | undefined> {
  const { allocations, audit, events, starved } = parts;
  const name = keyOf(node);
  const prefixes = await prefixesFor(parts, node, signal);
  for (const attempt of ["first", "after an audit"] as const) {
    if (attempt === "after an audit") await audit.run(signal);
    if (!stillWaits(parts, node, signal)) return undefined;
    const cidrs = allocations.allocate(name, uidOf(node), prefixes);
    if (cidrs !== undefined) return cidrs;
  }
  events.status(node, "CIDRNotAvailable");
  const cause = new CodedError(
    "CIDRsExhausted",
    `failed to allocate cidr for node ${name}: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range`,
  );
  throw new RetryAfterError(starved.missed(name), cause.message, { cause });
}

async function prefixesFor(parts: SyncParts, node: Node, signal: AbortSignal): Promise<readonly number[] | undefined> {
  try {
    return await parts.allocator.prefixesFor(node, parts.failures(keyOf(node)), signal);
  } catch (error) {
    if (error instanceof CodedError && error.code === invalidNodeMask) parts.events.status(node, "CIDRNotAvailable");
    throw error;
  }
}

function stillWaits({ nodes, allocations, suspension }: SyncParts, node: Node, signal: AbortSignal): boolean {
  const name = keyOf(node);
  const current = nodes.get(name);
  const waits = current !== undefined && uidOf(current) === uidOf(node) && podCidrTexts(current).length === 0;
  return waits && allocations.claimOf(name) === undefined && !suspension.suspended && !signal.aborted;
}

async function assign(parts: SyncParts, node: Node, cidrs: readonly CIDR[], signal: AbortSignal): Promise<void> {
  const { client, allocations, records, allocator, events, suspension } = parts;
  if (suspension.suspended || signal.aborted) return;
  const name = keyOf(node);
  const claim = allocations.claimOf(name);
  const texts = cidrs.map(({ text }) => text);
  records.sending(name, cidrs);
  allocator.begin(name);
  const outcome = await writePodCidrs(client, node, texts, signal);
  // A rejection may be the reply to the repetition of a write that had succeeded.
  const fresh = outcome.result === "refused" ? await readFresh(client, name, signal) : undefined;
  if (allocations.claimOf(name) !== claim) {
    // The watch was faster than the reply and has queued the node again, which after a stop is not processed.
    if (signal.aborted && outcome.result === "written") await allocator.finish(outcome.node, signal);
    return;
  }
  const answer = outcome.result === "written" ? outcome.node : fresh;
  if (answer !== undefined && podCidrTexts(answer).length > 0) {
    await accept(parts, answer, signal);
    return;
  }
  if (outcome.result === "gone") {
    release(parts, name);
    return;
  }
  if (outcome.result !== "unknown") allocations.release(name);
  if (!signal.aborted) events.status(node, "CIDRAssignmentFailed");
  const options = outcome.result === "written" ? {} : { cause: outcome.error };
  throw new CodedError(
    "CIDRNotWritten",
    `Failed to update node PodCIDR after multiple attempts: ${texts.join(",")} for node ${name}`,
    options,
  );
}
