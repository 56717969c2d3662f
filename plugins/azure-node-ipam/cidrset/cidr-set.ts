import { addressBits, type CIDR, cidrAround, cidrsOverlap, CodedError, type IPFamily } from "cloud-controller-host/sdk";

import { Bitmap } from "./bitmap.ts";

/** Block numbers, both ends included. */
export interface BlockRange {
  readonly first: number;
  readonly last: number;
}

/** Free blocks as one CIDR; `tries` is the number of inspected blocks as upstream counts them. */
export interface Found extends BlockRange {
  readonly cidr: CIDR;
  readonly tries: number;
}

/** Maximum difference between a node's prefix length and its cluster's: 65,536 blocks of IPv6, 16,777,216 of IPv4. */
export const widestSpread: Readonly<Record<IPFamily, number>> = { ipv4: 24, ipv6: 16 };

export const sizeOf = ({ first, last }: BlockRange): number => last - first + 1;

/**
 * A cluster CIDR cut into blocks of one size, and which of them are used. Block 0 begins at the cluster's first
 * address. Source: cloud-provider-azure `cidrset.CidrSet`.
 */
export class CidrSet {
  readonly cluster: CIDR;
  /** Prefix length of a block. */
  readonly mask: number;
  readonly #used: Bitmap;
  /** Start of the next search, so that a released block is not reused immediately. */
  #next = 0;

  constructor(cluster: CIDR, mask: number) {
    if (mask < cluster.prefix || mask > addressBits[cluster.family])
      throw new CodedError("InvalidNodeMask", `new CIDR set failed; ${cluster.text} holds no block of size /${mask}`);
    if (mask - cluster.prefix > widestSpread[cluster.family])
      throw new CodedError(
        "TooManyBlocks",
        `new CIDR set failed; the node CIDR size is too big: ${cluster.text} would have 2^${mask - cluster.prefix} blocks of size /${mask}, at most 2^${widestSpread[cluster.family]} are possible`,
      );
    this.cluster = cluster;
    this.mask = mask;
    this.#used = new Bitmap(2 ** (mask - cluster.prefix));
  }

  /** Number of blocks. */
  get size(): number {
    return this.#used.size;
  }

  /** Number of used blocks. */
  get used(): number {
    return this.#used.count;
  }

  isUsed(block: number): boolean {
    return this.#used.has(block);
  }

  usedIn({ first, last }: BlockRange): readonly number[] {
    return this.#used.setBits(first, last);
  }

  /** The blocks that a CIDR touches; undefined when it lies outside the cluster. */
  rangeOf(cidr: CIDR): BlockRange | undefined {
    if (!cidrsOverlap(cidr, this.cluster)) return undefined;
    if (cidr.prefix <= this.cluster.prefix) return { first: 0, last: this.size - 1 };
    const first = bitsBetween(cidr.bytes, this.cluster.prefix, this.mask);
    return { first, last: cidr.prefix >= this.mask ? first : first + 2 ** (this.mask - cidr.prefix) - 1 };
  }

  /** The CIDR that begins with a block; by default it is that block. */
  cidrAt(block: number, prefix: number = this.mask): CIDR {
    return cidrAround(withBits(this.cluster.bytes, this.cluster.prefix, this.mask, block), prefix);
  }

  /** The next free block after the last allocation, wrapping around. */
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

/** The bits from `from` up to, and without, `to` as a number; there may be at most 30 of them. */
export function bitsBetween(bytes: Uint8Array, from: number, to: number): number {
  let value = 0;
  for (let bit = from; bit < to;) {
    const taken = Math.min(8 - (bit & 7), to - bit);
    const chunk = ((bytes[bit >> 3] ?? 0) >> (8 - (bit & 7) - taken)) & ((1 << taken) - 1);
    value = (value << taken) | chunk;
    bit += taken;
  }
  return value;
}

/** A copy in which the bits from `from` up to `to`, all zero so far, hold `value`. */
export function withBits(bytes: Uint8Array, from: number, to: number, value: number): Uint8Array {
  const copy = bytes.slice();
  for (let bit = to, rest = value; bit > from;) {
    const taken = Math.min(((bit - 1) & 7) + 1, bit - from);
    const shift = (8 - (bit & 7)) & 7;
    copy[(bit - 1) >> 3] = (copy[(bit - 1) >> 3] ?? 0) | ((rest & ((1 << taken) - 1)) << shift);
    rest >>>= taken;
    bit -= taken;
  }
  return copy;
}
