import type { SetMetrics } from "../metrics.ts";
import { type BlockRange, CidrSet, type Found, sizeOf } from "./cidr-set.ts";
import type { Cidr } from "./cidr.ts";

/**
 * The blocks of one cluster CIDR and who claims them. A block may be claimed more than once, when nodes come with CIDRs
 * that overlap; it is free again when nobody claims it any more.
 */
export class Pool {
  readonly #metrics: SetMetrics;
  /** All CIDRs that are claimed now, each as often as it is. */
  readonly #claimed: () => Iterable<Cidr>;
  #set: CidrSet;
  /** Blocks, each counted once for every claim on it. Equal to the set's used blocks when no block is shared. */
  #weight = 0;

  constructor(set: CidrSet, metrics: SetMetrics, claimed: () => Iterable<Cidr>) {
    this.#set = set;
    this.#metrics = metrics;
    this.#claimed = claimed;
  }

  get set(): CidrSet {
    return this.#set;
  }

  /** Free room: of that prefix length, or a block where none is given. Nothing is taken yet. */
  find(prefix: number | undefined): Found | undefined {
    return prefix === undefined ? this.#set.findNext() : this.#set.findAligned(prefix);
  }

  /** Takes what was found a moment ago. */
  take(found: Found, prefix: number | undefined): void {
    if (prefix === undefined) this.#set.take(found);
    else this.#set.mark(found);
    this.#weight += sizeOf(found);
    this.#metrics.allocated(1, this.#usage);
    this.#metrics.searched(found.tries);
  }

  /** One more claim; true when a block of it was claimed already. */
  claim(cidr: Cidr): boolean {
    const range = this.#set.rangeOf(cidr);
    if (range === undefined) return false;
    this.#weight += sizeOf(range);
    const taken = this.#set.mark(range);
    if (taken > 0) this.#metrics.allocated(taken, this.#usage);
    return taken < sizeOf(range);
  }

  /** One claim less, to be told after it has gone from the claimed ones; returns how many blocks became free. */
  disclaim(cidr: Cidr): number {
    const range = this.#set.rangeOf(cidr);
    if (range === undefined) return 0;
    const shared = this.#weight > this.#set.used;
    this.#weight -= sizeOf(range);
    let freed = this.#set.clear(range);
    if (shared)
      for (const other of this.#claimed()) {
        const common = intersection(range, this.#set.rangeOf(other));
        if (common !== undefined) freed -= this.#set.mark(common);
      }
    if (freed > 0) this.#metrics.released(freed, this.#usage);
    return freed;
  }

  /** Cuts the cluster CIDR into smaller blocks, where these are too large for that prefix length. */
  refine(mask: number): void {
    if (mask <= this.#set.mask) return;
    this.#set = new CidrSet(this.#set.cluster, mask);
    this.#weight = 0;
    for (const cidr of this.#claimed()) {
      const range = this.#set.rangeOf(cidr);
      if (range === undefined) continue;
      this.#weight += sizeOf(range);
      this.#set.mark(range);
    }
    this.#metrics.resized(this.#usage);
  }

  get #usage(): number {
    return this.#set.used / this.#set.size;
  }
}

function intersection(one: BlockRange, other: BlockRange | undefined): BlockRange | undefined {
  if (other === undefined || other.first > one.last || other.last < one.first) return undefined;
  return { first: Math.max(one.first, other.first), last: Math.min(one.last, other.last) };
}
