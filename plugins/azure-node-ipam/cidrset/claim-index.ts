import { type CIDR, cidrAround, type IPFamily, lastAddress } from "cloud-controller-host/sdk";

/** A CIDR that a node claims. */
interface Entry {
  /** Its first address in hexadecimal digits. */
  readonly start: string;
  readonly cidr: CIDR;
  readonly node: string;
}

/**
 * The CIDRs of all claims in the order of their addresses, so that those that overlap with one are found without a look
 * at each: where nodes have smaller CIDRs than a block, all of thousands share blocks. One of two CIDRs that overlap
 * contains the other.
 */
export class ClaimIndex {
  readonly #entries: Readonly<Record<IPFamily, Entry[]>> = { ipv4: [], ipv6: [] };
  /** Prefix lengths that CIDRs have, or had. */
  readonly #prefixes: Readonly<Record<IPFamily, Set<number>>> = { ipv4: new Set(), ipv6: new Set() };

  add(node: string, cidr: CIDR): void {
    const start = startOf(cidr.bytes);
    const entries = this.#entries[cidr.family];
    entries.splice(firstFrom(entries, start), 0, { start, cidr, node });
    this.#prefixes[cidr.family].add(cidr.prefix);
  }

  remove(node: string, cidr: CIDR): void {
    const start = startOf(cidr.bytes);
    const entries = this.#entries[cidr.family];
    for (let at = firstFrom(entries, start); entries[at]?.start === start; at++) {
      if (entries[at]?.node !== node || entries[at]?.cidr.prefix !== cidr.prefix) continue;
      entries.splice(at, 1);
      return;
    }
  }

  /** Those that overlap with a CIDR, itself included if it is claimed. */
  overlapping(cidr: CIDR): readonly Pick<Entry, "cidr" | "node">[] {
    const entries = this.#entries[cidr.family];
    const start = startOf(cidr.bytes);
    const end = startOf(lastAddress(cidr));
    const found: Entry[] = [];
    for (const prefix of this.#prefixes[cidr.family]) {
      const around = prefix < cidr.prefix ? startOf(cidrAround(cidr.bytes, prefix).bytes) : start;
      if (around === start) continue;
      for (let at = firstFrom(entries, around); entries[at]?.start === around; at++) {
        const entry = entries[at];
        if (entry?.cidr.prefix === prefix) found.push(entry);
      }
    }
    // All that begin within it: those that it contains, and those that contain it and begin with it.
    for (let at = firstFrom(entries, start); at < entries.length; at++) {
      const entry = entries[at];
      if (entry === undefined || entry.start > end) break;
      found.push(entry);
    }
    return found;
  }
}

const startOf = (address: Uint8Array): string => Buffer.from(address).toString("hex");

/** The place of the first entry that begins at that address or after it. */
function firstFrom(entries: readonly Entry[], start: string): number {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((entries[middle]?.start ?? "") < start) low = middle + 1;
    else high = middle;
  }
  return low;
}
