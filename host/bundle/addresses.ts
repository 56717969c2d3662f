import { createHash } from "node:crypto";

import ipaddr from "ipaddr.js";

/** Leading bits to keep, by well-known range. With all bits kept, an address is not replaced. */
const keptBits: readonly (readonly [cidr: string, bits: number])[] = [
  ["0.0.0.0/8", 32],
  ["127.0.0.0/8", 32],
  ["168.63.129.16/32", 32],
  ["169.254.0.0/16", 32],
  ["224.0.0.0/3", 32],
  ["10.0.0.0/8", 8],
  ["172.0.0.0/8", 16],
  ["192.0.0.0/8", 16],
  ["100.0.0.0/8", 16],
  ["0.0.0.0/0", 8],
  ["::/8", 128],
  ["fe80::/10", 128],
  ["ff00::/8", 128],
  ["::/0", 16],
];

const addressPattern =
  /(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|(?=[0-9a-f]*:[0-9a-f:]*:)[0-9a-f:]{3,39})(?:\/\d{1,3})?(?![\w:]|\.\d)/giu;

/**
 * Replaces addresses and CIDRs in texts. Addresses that share a prefix share one afterwards, so that what was in a range
 * still is; private addresses stay private.
 */
export class Addresses {
  readonly #key: string;
  readonly #bits = new Map<string, number>();

  /** Replacements are the same for the same key. */
  constructor(key: string) {
    this.#key = key;
  }

  replace(text: string): string {
    return text.replaceAll(addressPattern, (found) => this.#replaced(found));
  }

  #replaced(text: string): string {
    const [address = "", length] = text.split("/");
    if (!ipaddr.isValid(address)) return text;
    const parsed = ipaddr.parse(address);
    const bits = [...parsed.toByteArray()].map((byte) => byte.toString(2).padStart(8, "0")).join("");
    const kept = keptOf(parsed);
    const changed = bits
      .split("")
      .map((bit, at) => (at < kept ? bit : String(Number(bit) ^ this.#flip(bits.slice(0, at)))));
    const masked = length === undefined ? changed : changed.map((bit, at) => (at < Number(length) ? bit : "0"));
    const bytes = Array.from({ length: bits.length / 8 }, (_, at) =>
      Number.parseInt(masked.slice(at * 8, at * 8 + 8).join(""), 2),
    );
    return `${ipaddr.fromByteArray(bytes).toString()}${length === undefined ? "" : `/${length}`}`;
  }

  /** 1 if the bit after this prefix is flipped, else 0. */
  #flip(prefix: string): number {
    const known = this.#bits.get(prefix);
    if (known !== undefined) return known;
    const flip = (createHash("sha256").update(`${this.#key} ${prefix}`).digest()[0] ?? 0) & 1;
    this.#bits.set(prefix, flip);
    return flip;
  }
}

function keptOf(address: ipaddr.IPv4 | ipaddr.IPv6): number {
  const row = keptBits.find(([cidr]) => {
    const range = ipaddr.parseCIDR(cidr);
    return range[0].kind() === address.kind() && address.match(range);
  });
  return row?.[1] ?? 0;
}
