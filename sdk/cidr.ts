import ipaddr from "ipaddr.js";

import { CodedError, messageOf } from "./errors.ts";

/** The family of an address or a block. */
export type IPFamily = "ipv4" | "ipv6";

/** The addresses that share their first `prefix` bits. */
export interface CIDR {
  readonly family: IPFamily;
  /** The network address: 4 or 16 bytes in network order, host bits zero. Not to be modified. */
  readonly bytes: Uint8Array;
  readonly prefix: number;
  /** Canonical form, as written to a Node or an Azure resource. */
  readonly text: string;
}

/** Length of an address in bits. */
export const addressBits: Readonly<Record<IPFamily, number>> = { ipv4: 32, ipv6: 128 };

/**
 * Parses `address/prefix`; host bits are cleared. Leading zeros in an IPv4 octet are decimal, as in Go's
 * `ParseCIDRSloppy`; with `strict` they are an error, as in Go's `net.ParseCIDR`. Throws `InvalidCIDR`.
 */
export function parseCIDR(text: string, { strict = false }: { readonly strict?: boolean } = {}): CIDR {
  const [address = "", prefix = "", ...rest] = text.split("/");
  const decimal = address.includes(":") ? address : address.replaceAll(/(?<![0-9])0+(?=[0-9])/gu, "");
  if (rest.length > 0 || !/^[0-9]{1,3}$/u.test(prefix) || !isAddress(decimal))
    throw invalid(text, "is not a CIDR such as 10.244.0.0/16");
  if (strict && decimal !== address) throw invalid(text, "has a number with a leading zero");
  const bytes = Uint8Array.from(ipaddr.parse(decimal).toByteArray());
  const bits = bytes.length * 8;
  if (Number(prefix) > bits) throw invalid(text, `has a prefix of more than ${bits} bits`);
  return cidrAround(bytes, Number(prefix));
}

const maxClusterCIDRs = 2;

/** The parts of its errors in which upstream's controllers differ. */
interface ClusterCIDRTexts {
  /** The remedy for a text that is not a CIDR. */
  readonly hint: string;
  readonly tooMany: (count: number, max: number) => string;
}

/**
 * Parses `--cluster-cidr`: one CIDR, or one of each family joined by a comma. Throws `InvalidClusterCIDR`, in upstream's
 * words.
 */
export function parseClusterCIDRs(flag: string, { hint, tooMany }: ClusterCIDRTexts): readonly CIDR[] {
  const cidrs = flag
    .trim()
    .split(",")
    .map((text, index) => {
      try {
        return parseCIDR(text);
      } catch (error) {
        throw invalidCluster(`invalid CIDR[${index}]: ${messageOf(error)} (${hint})`, error);
      }
    });
  if (cidrs.length > 1 && new Set(cidrs.map(({ family }) => family)).size < 2)
    throw invalidCluster(
      `len of ClusterCIDRs==${cidrs.length} and they are not configured as dual stack (at least one from each IPFamily)`,
    );
  if (cidrs.length > maxClusterCIDRs) throw invalidCluster(tooMany(cidrs.length, maxClusterCIDRs));
  return cidrs;
}

const invalidCluster = (message: string, cause?: unknown): CodedError =>
  new CodedError("InvalidClusterCIDR", message, cause === undefined ? {} : { cause });

/** The block with that prefix length that contains `address`. */
export function cidrAround(address: Uint8Array, prefix: number): CIDR {
  const bytes = address.map((byte, index) => byte & ~hostMask(prefix, index));
  const family = bytes.length === 4 ? "ipv4" : "ipv6";
  return { family, bytes, prefix, text: `${ipaddr.fromByteArray([...bytes]).toString()}/${prefix}` };
}

/** The last address of a block; `bytes` is the first. */
export const lastAddress = ({ bytes, prefix }: CIDR): Uint8Array =>
  bytes.map((byte, index) => byte | hostMask(prefix, index));

/** True when the address, as bytes in network order, is in the block and of its family. */
export const containsAddress = (cidr: CIDR, address: Uint8Array): boolean =>
  cidr.bytes.length === address.length && sharePrefix(cidr.bytes, address, cidr.prefix);

/** True when one block contains the other: CIDRs never overlap in part. */
export const cidrsOverlap = (one: CIDR, other: CIDR): boolean =>
  one.family === other.family && sharePrefix(one.bytes, other.bytes, Math.min(one.prefix, other.prefix));

/** The host bits of the byte at `index`. */
const hostMask = (prefix: number, index: number): number => 0xff >> Math.min(8, Math.max(0, prefix - index * 8));

function sharePrefix(one: Uint8Array, other: Uint8Array, bits: number): boolean {
  const whole = bits >> 3;
  for (let index = 0; index < whole; index++) if (one[index] !== other[index]) return false;
  return ((one[whole] ?? 0) ^ (other[whole] ?? 0)) >> (8 - (bits & 7)) === 0;
}

/** Of `0000:0000:0000:0000:0000:ffff:255.255.255.255`. ipaddr.js takes the square of a text's length. */
const maxLength = 45;

/** Four decimal parts, or IPv6 without a zone: ipaddr.js accepts more forms than Go. */
const isAddress = (text: string): boolean =>
  text.length <= maxLength &&
  (text.includes(":") ? !text.includes("%") && ipaddr.IPv6.isValid(text) : ipaddr.IPv4.isValidFourPartDecimal(text));

const invalid = (text: string, problem: string): CodedError =>
  new CodedError("InvalidCIDR", `${JSON.stringify(text)} ${problem}`);
