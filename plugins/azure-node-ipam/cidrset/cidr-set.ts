import { CodedError } from "cloud-controller-host/sdk";

import { Bitmap } from "./bitmap.ts";
import { bitsBetween, bitsOfFamily, type Cidr, cidrOf, type Family, overlap, withBits } from "./cidr.ts";

/** Blocks of a set by their numbers, both ends included. */
export interface BlockRange {
  readonly first: number;
  readonly last: number;
}

/** Blocks that are free, as one CIDR, and how many were looked at, by the metric's way of counting. */
export interface Found extends BlockRange {
  readonly cidr: Cidr;
  readonly tries: number;
}

/** How many bits a node's prefix may be longer than its cluster's: 65,536 blocks of IPv6, 16,777,216 of IPv4. */
export const widestSpread: Readonly<Record<Family, number>> = { ipv4: 24, ipv6: 16 };

/** How many blocks a range holds. */
export const sizeOf = ({ first, last }: BlockRange): number => last - first + 1;

/**
 * A cluster CIDR cut into blocks of one size, and which of them are used. Block 0 begins at the cluster's first
 * address. Source: cloud-provider-azure `cidrset.CidrSet`.
 */
export class CidrSet {
  readonly cluster: Cidr;
  /** Prefix length of a block. */
  readonly mask: number;
  readonly #used: Bitmap;
  /** Where the next search begins, so that a block which was given back is not given out again at once. */
  #next = 0;

  constructor(cluster: Cidr, mask: number) {
    if (mask < cluster.prefix || mask > bitsOfFamily[cluster.family])
      throw new CodedError("BadNodeMask", `new CIDR set failed; ${cluster.text} holds no block of size /${mask}`);
    if (mask - cluster.prefix > widestSpread[cluster.family])
      throw new CodedError(
        "TooManyBlocks",
        `new CIDR set failed; the node CIDR size is too big: ${cluster.text} would have 2^${mask - cluster.prefix} blocks of size /${mask}, and 2^${widestSpread[cluster.family]} are the most`,
      );
    this.cluster = cluster;
    this.mask = mask;
    this.#used = new Bitmap(2 ** (mask - cluster.prefix));
  }

  /** How many blocks there are. */
  get size(): number {
    return this.#used.size;
  }

  /** How many of them are used. */
  get used(): number {
    return this.#used.count;
  }

  isUsed(block: number): boolean {
    return this.#used.has(block);
  }

  /** The blocks that a CIDR touches; undefined when it lies outside the cluster. */
  rangeOf(cidr: Cidr): BlockRange | undefined {
    if (!overlap(cidr, this.cluster)) return undefined;
    if (cidr.prefix <= this.cluster.prefix) return { first: 0, last: this.size - 1 };
    const first = bitsBetween(cidr.bytes, this.cluster.prefix, this.mask);
    return { first, last: cidr.prefix >= this.mask ? first : first + 2 ** (this.mask - cidr.prefix) - 1 };
  }

  /** The CIDR that begins with a block; by default it is that block. */
  cidrAt(block: number, prefix: number = this.mask): Cidr {
    return cidrOf(withBits(this.cluster.bytes, this.cluster.prefix, this.mask, block), prefix);
  }

  /** A free block: the first one after the last that was taken, all around. */
  findNext(): Found | undefined {
    const block = this.#used.nextClear(this.#next) ?? this.#used.nextClear(0);
    if (block === undefined) return undefined;
    const tries = block >= this.#next ? block - this.#next : this.size - this.#next + block;
    return { first: block, last: block, cidr: this.cidrAt(block), tries };
  }

  /** The first place in the cluster for a CIDR of that prefix length, which must not be longer than a block's. */
  findAligned(prefix: number): Found | undefined {
    if (prefix < this.cluster.prefix || prefix > this.mask)
      throw new RangeError(`a /${prefix} cannot be cut from ${this.cluster.text} in blocks of size /${this.mask}`);
    const run = 2 ** (this.mask - prefix);
    const first = this.#used.alignedClear(run);
    if (first === undefined) return undefined;
    return { first, last: first + run - 1, cidr: this.cidrAt(first, prefix), tries: first / run + 1 };
  }

  /** Marks what `findNext` found, and lets the next search begin behind it. */
  take({ first, last }: BlockRange): void {
    this.#used.set(first, last);
    this.#next = (last + 1) % this.size;
  }

  /** Returns how many of the blocks were free. */
  mark({ first, last }: BlockRange): number {
    return this.#used.set(first, last);
  }

  /** Returns how many of the blocks were used. */
  clear({ first, last }: BlockRange): number {
    return this.#used.clear(first, last);
  }
}
