import { type Clock, keyOf, kinds, type KubeClient, type Node, type Store } from "cloud-controller-host/sdk";

import type { Allocations } from "../cidrset/allocations.ts";
import { ownsPodCidrs } from "../nodes/pod-cidrs-writers.ts";
import type { NodeRecords } from "../nodes/records.ts";

const pauseMs = 60_000;

interface AuditParts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly nodes: Store<Node>;
  readonly allocations: Allocations;
  readonly records: NodeRecords;
}

/**
 * All nodes as the API server has them now, including those that `--node-filter-requirements` excludes, and of each
 * only the fields that an allocator needs.
 */
export const listNodes = (client: KubeClient, signal: AbortSignal): Promise<readonly Node[]> =>
  client.list(kinds.Node, { signal, trim: trimNode });

const needed = {
  metadata: new Set(["name", "uid", "creationTimestamp", "managedFields"]),
  spec: new Set(["podCIDR", "podCIDRs", "providerID"]),
  status: new Set(["conditions"]),
} as const;

function trimNode(node: Node): void {
  for (const part of ["metadata", "spec", "status"] as const) {
    const fields = node[part] ?? {};
    for (const field of Object.keys(fields)) if (!needed[part].has(field)) Reflect.deleteProperty(fields, field);
  }
  const { metadata } = node;
  if (metadata?.managedFields !== undefined)
    Object.assign(metadata, { managedFields: metadata.managedFields.filter(ownsPodCidrs) });
}

/** Frees CIDRs of nodes deleted while filtered out of the watch. Runs when no CIDR is free, before reporting exhaustion. */
export class OrphanAudit {
  readonly #parts: AuditParts;
  #running: Promise<void> | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(parts: AuditParts) {
    this.#parts = parts;
  }

  /** Resolves at once when the last audit began less than a minute ago; callers in the meantime share a running one. */
  async run(signal: AbortSignal): Promise<void> {
    const now = this.#parts.clock.monotonic();
    if (this.#running === undefined && now - this.#lastAt < pauseMs) return;
    this.#lastAt = now;
    this.#running ??= this.#compare(signal).finally(() => (this.#running = undefined));
    await this.#running;
  }

  /** A claim that changed during the list, or whose node the watch has, is not an orphan. */
  async #compare(signal: AbortSignal): Promise<void> {
    const { client, nodes, allocations, records } = this.#parts;
    const before = new Map(allocations.claims);
    const listed = new Set((await listNodes(client, signal)).map(keyOf));
    for (const [name, claim] of before)
      if (!listed.has(name) && nodes.get(name) === undefined && allocations.claimOf(name) === claim)
        records.released(name);
  }
}
