import { isIPv4, isIPv6 } from "node:net";

import ipaddr from "ipaddr.js";

import { bad, good, type Parsed, quoted } from "./parsed.ts";

const booleans: ReadonlyMap<string, boolean> = new Map([
  ...["1", "t", "T", "TRUE", "true", "True"].map((text) => [text, true] as const),
  ...["0", "f", "F", "FALSE", "false", "False"].map((text) => [text, false] as const),
]);

/** The values of Go's `strconv.ParseBool`. */
export function parseBool(text: string): Parsed<boolean> {
  const value = booleans.get(text);
  return value === undefined ? bad("must be true or false") : good(value);
}

/** Number literals of Go by prefix; underscores are allowed between digits. */
const literals: readonly (readonly [RegExp, string])[] = [
  [/^0[xX](_?[0-9a-fA-F])+$/, "0x"],
  [/^0[bB](_?[01])+$/, "0b"],
  [/^0[oO]?(_?[0-7])+$/, "0o"],
  [/^(0|[1-9](_?[0-9])*)$/, ""],
];

/** The values of Go's `strconv.ParseInt` with the base taken from the prefix. */
export function parseInteger(text: string, bits: 32 | 64): Parsed<number> {
  const negative = text.startsWith("-");
  const digits = negative || text.startsWith("+") ? text.slice(1) : text;
  const prefix = literals.find(([pattern]) => pattern.test(digits))?.[1];
  if (prefix === undefined) return bad("must be a whole number");
  const magnitude = BigInt(prefix + digits.replaceAll("_", "").replace(/^0[xXbBoO]?(?=.)/, ""));
  const limit = 2n ** BigInt(bits - 1);
  if (negative ? magnitude > limit : magnitude >= limit)
    return bad(`must be a whole number from ${-limit} to ${limit - 1n}`);
  return good(Number(negative ? -magnitude : magnitude));
}

/** A verbosity. */
export function parseLevel(text: string): Parsed<number> {
  const value = /^\d+$/.test(text) ? Number(text) : Infinity;
  return value < 2 ** 31 ? good(value) : bad("must be a whole number from 0 to 2147483647");
}

const largestFloat32 = 3.402_823_466_385_288_6e38;

/** Decimal numbers of 32 bits; neither infinities nor NaN, which no flag can use. */
export function parseFloat32(text: string): Parsed<number> {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text)) return bad("must be a number");
  const value = Number(text);
  return Math.abs(value) <= largestFloat32 ? good(value) : bad("must be a number of 32 bits, at most 3.4e38");
}

/** Go's `net.ParseIP`: IPv4 in four decimal parts, or IPv6 without a zone. The value is in canonical form. */
export function parseIP(text: string): Parsed<string> {
  const trimmed = text.trim();
  if (isIPv4(trimmed)) return good(trimmed);
  if (!isIPv6(trimmed) || trimmed.includes("%")) return bad("must be an IPv4 or IPv6 address");
  const address = ipaddr.IPv6.parse(trimmed);
  return good(address.isIPv4MappedAddress() ? address.toIPv4Address().toString() : address.toRFC5952String());
}

const multipliers: Readonly<Record<string, number>> = {
  "": 1,
  k: 1e3,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** A size as a Kubernetes quantity (`512`, `1K`, `2Ki`, `3M`), in bytes. */
export function parseQuantity(text: string): Parsed<number> {
  const [, digits = "", suffix = ""] = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(text) ?? [];
  const multiplier = Object.hasOwn(multipliers, suffix) ? multipliers[suffix] : undefined;
  return digits === "" || multiplier === undefined
    ? bad(`${quoted(text)} is not a size like 512, 1K or 2Ki`)
    : good(Math.ceil(Number(digits) * multiplier));
}
