import { CodedError } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

/** The addresses of a CIDR as numbers, both ends included. */
export interface AddressRange {
  readonly family: "ipv4" | "ipv6";
  readonly first: bigint;
  readonly last: bigint;
}

/**
 * Reads `address/length` as Go's sloppy parser does: zeros before an IPv4 octet mean nothing (ipaddr.js alone would
 * take them for octal), and the address may lie anywhere in its block.
 */
export function parseCIDR(text: string): AddressRange {
  const [address = "", length = "", ...rest] = text.split("/");
  const decimal = address.includes(":") ? address : address.replaceAll(/(?<![0-9])0+(?=[0-9])/g, "");
  if (rest.length > 0 || !/^[0-9]{1,3}$/.test(length) || !isAddress(decimal))
    throw new CodedError("BadCIDR", `${JSON.stringify(text)} is not a CIDR such as 10.244.0.0/16`);
  const parsed = ipaddr.parse(decimal);
  const bits = parsed.kind() === "ipv4" ? 32 : 128;
  if (Number(length) > bits)
    throw new CodedError("BadCIDR", `${JSON.stringify(text)} has a prefix of more than ${bits} bits`);
  const hostBits = BigInt(bits - Number(length));
  const value = parsed.toByteArray().reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  const first = (value >> hostBits) << hostBits;
  return { family: parsed.kind(), first, last: first + (1n << hostBits) - 1n };
}

/** Four decimal parts, or an IPv6 address without a zone: ipaddr.js would take more than that. */
const isAddress = (text: string): boolean =>
  text.includes(":") ? !text.includes("%") && ipaddr.IPv6.isValid(text) : ipaddr.IPv4.isValidFourPartDecimal(text);

export const contains = (
  range: AddressRange,
  { family, first, last }: AddressRange,
  end: "first" | "last",
): boolean => {
  const address = end === "first" ? first : last;
  return range.family === family && range.first <= address && address <= range.last;
};
