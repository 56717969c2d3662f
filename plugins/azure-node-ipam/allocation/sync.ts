import {
  CodedError,
  isNotFound,
  keyOf,
  kinds,
  type KubeClient,
  type Node,
  type Store,
} from "cloud-controller-host/sdk";

import type { Cidr } from "../cidrset/cidr.ts";
import type { IpamEvents } from "../events.ts";
import { writePodCidrs } from "../nodes/patch.ts";
import { podCidrTexts, uidOf } from "../nodes/pod-cidrs.ts";
import type { NodeRecords } from "../nodes/records.ts";
import type { Claim, Occupancy } from "./allocations.ts";
import { badNodeMask, type CidrAllocator } from "./allocators.ts";
import type { Audit } from "./audit.ts";
import type { Standing } from "./suspension.ts";

export interface SyncParts {
  readonly client: KubeClient;
  readonly nodes: Store<Node>;
  readonly allocator: CidrAllocator;
  readonly occupancy: Occupancy;
  readonly records: NodeRecords;
  readonly audit: Audit;
  readonly standing: Standing;
  readonly events: IpamEvents;
  /** Nodes for which there was no room. */
  readonly starved: Set<string>;
  /** How often a node's sync has failed in a row. */
  failures(name: string): number;
}

/**
 * Brings one node where it should be: it has CIDRs, and they are what is kept for it. The queue never works on one
 * node twice at once, but the watch may change what is kept during every wait: what was decided before a wait is
 * dropped when the claim is no longer the same one, because the watch has queued the node again.
 */
export async function syncNode(parts: SyncParts, name: string, signal: AbortSignal): Promise<void> {
  const { nodes, occupancy, records, allocator } = parts;
  parts.starved.delete(name);
  const node = nodes.get(name);
  const claim = occupancy.claimOf(name);
  if (claim === undefined) {
    if (node === undefined) release(parts, name);
    else if (podCidrTexts(node).length > 0) records.seen(node);
    else await allocate(parts, node, signal);
  } else if (node !== undefined && records.isSettled(node) && !records.isDoubtful(node))
    await allocator.finish(node, signal);
  else await clearUp(parts, name, claim, signal);
}

/** What is kept and what is seen differ; only the API server knows what is so. */
async function clearUp(parts: SyncParts, name: string, claim: Claim, signal: AbortSignal): Promise<void> {
  const { client, nodes, occupancy } = parts;
  const fresh = await readFresh(client, name, signal);
  if (occupancy.claimOf(name) !== claim) return;
  if (fresh === undefined) {
    release(parts, name);
    return;
  }
  if (podCidrTexts(fresh).length > 0) {
    await accept(parts, fresh, signal);
    return;
  }
  const inSight = nodes.get(name) !== undefined;
  // A write that is still under way somewhere can only bring the same CIDRs again.
  if (inSight && claim.held.length === 0 && claim.unsure.length > 0) await give(parts, fresh, claim.unsure, signal);
  else {
    release(parts, name);
    if (inSight) await allocate(parts, fresh, signal);
  }
}

function release({ records, allocator }: SyncParts, name: string): void {
  records.released(name);
  allocator.forget(name);
}

async function readFresh(client: KubeClient, name: string, signal: AbortSignal): Promise<Node | undefined> {
  try {
    return await client.get(kinds.Node, { name }, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** The API server says that the node has its CIDRs. */
async function accept(parts: SyncParts, fresh: Node, signal: AbortSignal): Promise<void> {
  const { records, standing, events, allocator } = parts;
  const name = keyOf(fresh);
  if (records.confirmed(fresh)) {
    const reason = `somebody else has given ${podCidrTexts(fresh).join(",")} to node ${name}, which waited for CIDRs of ours: find out who by "kubectl get node ${name} --show-managed-fields", and let one of the two do it`;
    events.secondAllocator(fresh, `Pod CIDRs are given out by more than one: ${reason}`);
    standing.stepAside(reason);
    allocator.forget(name);
  }
  await allocator.finish(fresh, signal);
}

async function allocate(parts: SyncParts, node: Node, signal: AbortSignal): Promise<void> {
  const { allocator, standing } = parts;
  if (standing.aside || !allocator.isReady(node)) return;
  const offer = await findRoom(parts, node, signal);
  if (offer !== undefined) await give(parts, node, offer, signal);
}

/** Undefined when the node has come by CIDRs, or has gone, while the cloud or the API server was asked. */
async function findRoom(parts: SyncParts, node: Node, signal: AbortSignal): Promise<readonly Cidr[] | undefined> {
  const { occupancy, audit, events, starved } = parts;
  const name = keyOf(node);
  const prefixes = await prefixesFor(parts, node, signal);
  for (const look of ["at once", "after an audit"] as const) {
    if (look === "after an audit") await audit.run(signal);
    if (!stillWaits(parts, node, signal)) return undefined;
    const offer = occupancy.offer(name, uidOf(node), prefixes);
    if (offer !== undefined) return offer;
  }
  starved.add(name);
  events.status(node, "CIDRNotAvailable");
  throw new CodedError(
    "NoCIDRLeft",
    `failed to allocate cidr for node ${name}: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range`,
  );
}

async function prefixesFor(parts: SyncParts, node: Node, signal: AbortSignal): Promise<readonly number[] | undefined> {
  try {
    return await parts.allocator.prefixesFor(node, parts.failures(keyOf(node)), signal);
  } catch (error) {
    if (error instanceof CodedError && error.code === badNodeMask) parts.events.status(node, "CIDRNotAvailable");
    throw error;
  }
}

function stillWaits({ nodes, occupancy, standing }: SyncParts, node: Node, signal: AbortSignal): boolean {
  const name = keyOf(node);
  const current = nodes.get(name);
  const waits = current !== undefined && uidOf(current) === uidOf(node) && podCidrTexts(current).length === 0;
  return waits && occupancy.claimOf(name) === undefined && !standing.aside && !signal.aborted;
}

async function give(parts: SyncParts, node: Node, offer: readonly Cidr[], signal: AbortSignal): Promise<void> {
  const { client, occupancy, records, allocator, events, standing } = parts;
  if (standing.aside || signal.aborted) return;
  const name = keyOf(node);
  const claim = occupancy.claimOf(name);
  const texts = offer.map(({ text }) => text);
  records.sending(name, offer);
  allocator.begin(name);
  const outcome = await writePodCidrs(client, name, texts, signal);
  // A refusal may be the answer to the repetition of a write that was carried out.
  const fresh = outcome.result === "refused" ? await readFresh(client, name, signal) : undefined;
  if (occupancy.claimOf(name) !== claim) {
    // The watch was quicker than the answer, and has queued the node again; whoever stops does not come to that any more.
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
  if (outcome.result !== "unknown") occupancy.release(name);
  if (!signal.aborted) events.status(node, "CIDRAssignmentFailed");
  const options = outcome.result === "written" ? {} : { cause: outcome.error };
  throw new CodedError("CIDRNotWritten", `failed to give ${texts.join(",")} to node ${name}`, options);
}
