import type { CIDR } from "cloud-controller-host/sdk";

import type { SetMetrics } from "../metrics.ts";
import { type BlockRange, CidrSet, type Found, sizeOf } from "./cidr-set.ts";

/**
 * The blocks of one cluster CIDR and the claims on them. A block may have several claims, when nodes have overlapping
 * CIDRs; it is free again when the last claim is released.
 */
export class Pool {
  readonly #metrics: SetMetrics;
  /** All claimed CIDRs, one entry per claim. */
  readonly #claimed: () => Iterable<CIDR>;
  #set: CidrSet;
  /** Blocks with more than one claim, with the number of further claims. */
  readonly #further = new Map<number, number>();

  constructor(set: CidrSet, metrics: SetMetrics, claimed: () => Iterable<CIDR>) {
    this.#set = set;
    this.#metrics = metrics;
    this.#claimed = claimed;
  }

  get set(): CidrSet {
    return this.#set;
  }

  /** Finds free space of that prefix length, by default one block. Does not reserve it. */
  find(prefix: number | undefined): Found | undefined {
    return prefix === undefined ? this.#set.findNext() : this.#set.findAligned(prefix);
  }

  /** Reserves the result of `find`; no claim may have changed in between. */
  take(found: Found): void {
    this.#set.take(found);
    this.#metrics.allocated(1, this.#usage);
    this.#metrics.searched(found.tries);
  }

  /** Adds a claim; true when one of its blocks was claimed already. */
  claim(cidr: CIDR): boolean {
    const range = this.#set.rangeOf(cidr);
    if (range === undefined) return false;
    const taken = this.#mark(range);
    if (taken > 0) this.#metrics.allocated(taken, this.#usage);
    return taken < sizeOf(range);
  }

  /** Removes a claim; returns how many blocks became free. */
  disclaim(cidr: CIDR): number {
    const range = this.#set.rangeOf(cidr);
    if (range === undefined) return 0;
    const shared = this.#removeFurther(range);
    let freed = this.#set.clear(range);
    for (const block of shared) freed -= this.#set.mark({ first: block, last: block });
    if (freed > 0) this.#metrics.released(freed, this.#usage);
    return freed;
  }

  /** Cuts the cluster CIDR into smaller blocks if the current ones are too large for that prefix length. */
  refine(mask: number): void {
    if (mask <= this.#set.mask) return;
    this.#set = new CidrSet(this.#set.cluster, mask);
    this.#further.clear();
    for (const cidr of this.#claimed()) {
      const range = this.#set.rangeOf(cidr);
      if (range !== undefined) this.#mark(range);
    }
    this.#metrics.resized(this.#usage);
  }

  /** Returns how many of the blocks were free. */
  #mark(range: BlockRange): number {
    for (const block of this.#set.usedIn(range)) this.#further.set(block, (this.#further.get(block) ?? 0) + 1);
    return this.#set.mark(range);
  }

  /** Takes one claim off each shared block of the range; returns those blocks, which stay in use. */
  #removeFurther({ first, last }: BlockRange): readonly number[] {
    const shared =
      sizeOf({ first, last }) < this.#further.size
        ? Array.from({ length: last - first + 1 }, (_, index) => first + index).filter((block) =>
            this.#further.has(block),
          )
        : [...this.#further.keys()].filter((block) => first <= block && block <= last);
    for (const block of shared) {
      const count = this.#further.get(block) ?? 0;
      if (count > 1) this.#further.set(block, count - 1);
      else this.#further.delete(block);
    }
    return shared;
  }

  get #usage(): number {
    return this.#set.used / this.#set.size;
  }
}
