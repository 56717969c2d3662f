import { keyOf, type Node } from "cloud-controller-host/sdk";

import { isExcluded } from "../actions/nodes.ts";

/** Longest time for the end of a write from before a node came back or a user took a change back, and for the news of it. */
export const returnMs = 3 * 60_000;

/** Nodes that have come back or may serve again, and Services that have to what their users wanted shortly before. */
export class Returns {
  readonly #now: () => number;
  /** When each has come back, by UID; infinite for a node without a provider ID, which takes as long as no host leads. */
  readonly #at = new Map<string, number>();
  /** Names of nodes that were deleted. */
  readonly #left = new Set<string>();
  /** When each Service was last asked for something else, by UID and former wish. */
  readonly #leftAt = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  nodeChanged(type: string, node: Node, before?: Node): void {
    const uid = node.metadata?.uid ?? "";
    if (before !== undefined && isExcluded(before) && !isExcluded(node)) this.#at.set(uid, this.#now());
    if (type === "DELETED") this.#left.add(keyOf(node));
    else if ((type === "ADDED" && this.#left.has(keyOf(node))) || this.#at.get(uid) === Number.POSITIVE_INFINITY)
      this.#at.set(uid, node.spec?.providerID === undefined ? Number.POSITIVE_INFINITY : this.#now());
  }

  wishChanged(uid: string, from: string, to: string): void {
    const leftAt = this.#leftAt.get(`${uid} ${to}`) ?? Number.NEGATIVE_INFINITY;
    if (this.#now() - leftAt < returnMs) this.#at.set(uid, this.#now());
    this.#leftAt.set(`${uid} ${from}`, this.#now());
  }

  /** A write from before its return may still take a node out of its pools, or have what a Service no longer wants. */
  hasSettled(uid: string): boolean {
    return this.#now() - (this.#at.get(uid) ?? Number.NEGATIVE_INFINITY) > returnMs;
  }

  /** When it has last come back. */
  lastOf(uid: string): number | undefined {
    return this.#at.get(uid);
  }

  /** How many of those that have come back have settled: a change that only time makes. */
  get settled(): number {
    return [...this.#at.keys()].filter((uid) => this.hasSettled(uid)).length;
  }
}
