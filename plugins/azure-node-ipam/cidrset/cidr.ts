import { CodedError } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

export type Family = "ipv4" | "ipv6";

/** A block of addresses: those that agree with `bytes` in their first `prefix` bits. The other bits are zero here. */
export interface Cidr {
  readonly family: Family;
  /** 4 or 16 of them. */
  readonly bytes: Uint8Array;
  readonly prefix: number;
  /** The usual text of it, which is what is written to a node. */
  readonly text: string;
}

export const bitsOfFamily: Readonly<Record<Family, number>> = { ipv4: 32, ipv6: 128 };

/** The block of that prefix length around an address. `bytes` is taken over. */
export function cidrOf(bytes: Uint8Array, prefix: number): Cidr {
  for (let index = 0; index < bytes.length; index++)
    bytes[index] = (bytes[index] ?? 0) & ~(0xff >> Math.min(8, Math.max(0, prefix - index * 8)));
  const family = bytes.length === 4 ? "ipv4" : "ipv6";
  return { family, bytes, prefix, text: `${ipaddr.fromByteArray([...bytes]).toString()}/${prefix}` };
}

/**
 * Reads `address/length`. The address may lie anywhere in its block. As Go's sloppy parser does, zeros before an IPv4
 * octet mean nothing, which ipaddr.js alone would take for octal. Throws `BadCIDR`.
 */
export function parseCidr(text: string): Cidr {
  const [address = "", length = "", ...rest] = text.split("/");
  const decimal = address.includes(":") ? address : address.replaceAll(/(?<![0-9])0+(?=[0-9])/g, "");
  if (rest.length > 0 || !/^[0-9]{1,3}$/.test(length) || !isAddress(decimal))
    throw new CodedError("BadCIDR", `${JSON.stringify(text)} is not a CIDR such as 10.244.0.0/16`);
  const bytes = Uint8Array.from(ipaddr.parse(decimal).toByteArray());
  if (Number(length) > bytes.length * 8)
    throw new CodedError("BadCIDR", `${JSON.stringify(text)} has a prefix of more than ${bytes.length * 8} bits`);
  return cidrOf(bytes, Number(length));
}

/** As `parseCidr`, and refuses an IPv4 octet with zeros before it, as Go's own parser does. */
export function parseCidrStrictly(text: string): Cidr {
  if (!text.includes(":") && /(?<![0-9])0[0-9]/.test(text))
    throw new CodedError("BadCIDR", `${JSON.stringify(text)} has a number that begins with a zero`);
  return parseCidr(text);
}

/** Four decimal parts, or an IPv6 address without a zone: ipaddr.js would take more than that. */
const isAddress = (text: string): boolean =>
  text.includes(":") ? !text.includes("%") && ipaddr.IPv6.isValid(text) : ipaddr.IPv4.isValidFourPartDecimal(text);

export const overlap = (one: Cidr, other: Cidr): boolean =>
  one.family === other.family && agree(one.bytes, other.bytes, Math.min(one.prefix, other.prefix));

/** Whether the first `count` bits are the same. */
function agree(one: Uint8Array, other: Uint8Array, count: number): boolean {
  const whole = count >> 3;
  for (let index = 0; index < whole; index++) if (one[index] !== other[index]) return false;
  return ((one[whole] ?? 0) ^ (other[whole] ?? 0)) >> (8 - (count & 7)) === 0;
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
