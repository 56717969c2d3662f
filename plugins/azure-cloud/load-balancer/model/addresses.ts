import ipaddr from "ipaddr.js";

import type { Family } from "./model.ts";

/** A range of addresses of one family; the bits of `base` beyond `length` are zero. */
interface Prefix {
  readonly family: Family;
  readonly base: bigint;
  readonly length: number;
}

/** Four numbers up to 255 without leading zeros. Much cheaper than parsing, and asked for every node and frontend. */
const octet = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`;
const plainIPv4 = new RegExp(`^${octet}(?:\\.${octet}){3}$`, "u");

const bitsOf = (family: Family): number => (family === "IPv4" ? 32 : 128);

/** Of `0000:0000:0000:0000:0000:ffff:255.255.255.255`. Parsing a text takes the square of its length, and a tenant's has any. */
const maxLength = 45;

/** The family of an IP address; `undefined` when the text is not one. Zones and leading zeros are not accepted. */
export function familyOf(text: string): Family | undefined {
  // Planning asks this of absent values, many times per Service and frontend.
  if (text === "" || text.length > maxLength) return undefined;
  if (plainIPv4.test(text)) return "IPv4";
  return text.includes(":") && !text.includes("%") && ipaddr.IPv6.isValid(text) ? "IPv6" : undefined;
}

/** The address as Go's `netip` prints it, so that spellings of one address compare equal. */
export function canonicalAddress(text: string): string | undefined {
  const family = familyOf(text);
  if (family === undefined) return undefined;
  if (family === "IPv4") return text;
  const parsed = ipaddr.IPv6.parse(text);
  return parsed.isIPv4MappedAddress() ? `::ffff:${parsed.toIPv4Address().toString()}` : parsed.toRFC5952String();
}

export const sameAddress = (left: string | undefined, right: string | undefined): boolean =>
  left !== undefined && right !== undefined && (canonicalAddress(left) ?? left) === (canonicalAddress(right) ?? right);

function numberOf(text: string): bigint {
  const bytes = ipaddr.parse(text).toByteArray();
  return bytes.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);
}

function textOf(family: Family, number: bigint): string {
  const bytes = Array.from({ length: bitsOf(family) / 8 }, (_, index) =>
    Number((number >> BigInt(bitsOf(family) - 8 * (index + 1))) & 0xffn),
  );
  const parsed = ipaddr.fromByteArray(bytes);
  return parsed instanceof ipaddr.IPv6 ? parsed.toRFC5952String() : parsed.toString();
}

/** A CIDR whose host bits are zero; `undefined` when the text is not one. */
export function parsePrefix(text: string): Prefix | undefined {
  const [address = "", digits = "", ...more] = text.split("/");
  const family = familyOf(address);
  if (family === undefined || more.length > 0 || !/^(0|[1-9]\d{0,2})$/u.test(digits)) return undefined;
  const length = Number(digits);
  const host = BigInt(bitsOf(family) - length);
  if (host < 0n) return undefined;
  const base = numberOf(address);
  return (base >> host) << host === base ? { family, base, length } : undefined;
}

const lastOf = ({ family, base, length }: Prefix): bigint => base + (1n << BigInt(bitsOf(family) - length)) - 1n;

export function prefixContains(prefix: Prefix, address: string): boolean {
  if (familyOf(address) !== prefix.family) return false;
  const number = numberOf(address);
  return number >= prefix.base && number <= lastOf(prefix);
}

/**
 * The fewest CIDRs of one family that cover the same addresses, in ascending order: contained ones disappear, and two
 * halves become one. Source: upstream `iputil.AggregatePrefixes`.
 */
export function aggregate(prefixes: readonly Prefix[], family: Family): readonly string[] {
  const sorted = prefixes
    .filter((one) => one.family === family)
    .toSorted((left, right) =>
      left.base === right.base ? left.length - right.length : left.base < right.base ? -1 : 1,
    );
  const merged: Prefix[] = [];
  for (const one of sorted) {
    const last = merged.at(-1);
    if (last !== undefined && lastOf(last) >= lastOf(one)) continue;
    merged.push(one);
    while (mergeLast(merged, family));
  }
  return merged.map(({ base, length }) => `${textOf(family, base)}/${length}`);
}

/** Joins the last two when they are the halves of one range. */
function mergeLast(list: Prefix[], family: Family): boolean {
  const [left, right] = list.slice(-2);
  if (left === undefined || right === undefined || left.length !== right.length || left.length === 0) return false;
  const half = 1n << BigInt(bitsOf(family) - left.length);
  if (right.base !== left.base + half || left.base % (half * 2n) !== 0n) return false;
  list.splice(-2, 2, { family, base: left.base, length: left.length - 1 });
  return true;
}

const reserved = ["100.64.0.0/10", "168.63.129.16/32"].flatMap((text) => parsePrefix(text) ?? []);
const privateRanges = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"].flatMap(
  (text) => parsePrefix(text) ?? [],
);
const special = [
  "0.0.0.0/32",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "224.0.0.0/4",
  "255.255.255.255/32",
  "::/128",
  "::1/128",
  "fe80::/10",
  "ff00::/8",
].flatMap((text) => parsePrefix(text) ?? []);

const azurePlatform = ["168.63.129.16/32"].flatMap((text) => parsePrefix(text) ?? []);

/** True if no client on another machine has such an address: unspecified, loopback, link-local, multicast, Azure's own. */
export const isSpecialAddress = (text: string): boolean =>
  [...special, ...azurePlatform].some((range) => prefixContains(range, unmapped(text)));

/** The IPv4 address in an IPv6 one that stands for it. */
function unmapped(text: string): string {
  const parsed = familyOf(text) === "IPv6" ? ipaddr.IPv6.parse(text) : undefined;
  return parsed?.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : text;
}

/** Finds the addresses in any of many ranges, with one look-up for each length that a range has. */
export class RangeSet {
  readonly #bases = new Map<Family, Map<number, Set<bigint>>>([
    ["IPv4", new Map()],
    ["IPv6", new Map()],
  ]);

  /** Ignores what is not a range with zero host bits. */
  add(range: string): void {
    const prefix = parsePrefix(range);
    const lengths = prefix === undefined ? undefined : this.#bases.get(prefix.family);
    if (prefix === undefined || lengths === undefined) return;
    const known = lengths.get(prefix.length);
    if (known === undefined) lengths.set(prefix.length, new Set([prefix.base]));
    else known.add(prefix.base);
  }

  has(address: string): boolean {
    const plain = unmapped(address);
    const family = familyOf(plain);
    if (family === undefined) return false;
    const number = numberOf(plain);
    return [...(this.#bases.get(family) ?? [])].some(([length, bases]) => {
      const host = BigInt(bitsOf(family) - length);
      return bases.has((number >> host) << host);
    });
  }
}

/**
 * True if an address can be that of a public frontend: global unicast, not private, and not of Azure's own ranges.
 * Source: upstream `validatePublicIP` and Go's `netip.Addr.IsGlobalUnicast`.
 */
export function isPublicAddress(text: string): boolean {
  const address = unmapped(text);
  return ![...special, ...privateRanges, ...reserved].some((range) => prefixContains(range, address));
}
