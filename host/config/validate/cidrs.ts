import ipaddr from "ipaddr.js";

import type { Options } from "../flags/options.ts";

interface Prefix {
  readonly text: string;
  readonly family: "ipv4" | "ipv6";
  readonly length: number;
}

/** The two forms of a CIDR. An IPv4 part with a leading zero is refused, since some parsers read it as octal. */
const forms: readonly RegExp[] = [
  /^(0|[1-9]\d{0,2})(\.(0|[1-9]\d{0,2})){3}\/(0|[1-9]\d?)$/,
  /^[0-9a-fA-F:]*:[0-9a-fA-F:.]*\/(0|[1-9]\d{0,2})$/,
];

/** Family and prefix length of a CIDR, or undefined for an invalid one. */
export function prefixOf(cidr: string): Prefix | undefined {
  if (!forms.some((form) => form.test(cidr)) || !ipaddr.isValidCIDR(cidr)) return undefined;
  const [address, length] = ipaddr.parseCIDR(cidr);
  return { text: cidr, family: address.kind(), length };
}

/** The items of a comma list of CIDRs, without blanks. */
export const splitCIDRs = (list: string): readonly string[] =>
  list
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");

/**
 * Why a list of CIDRs is invalid: at most two, and two only as one IPv4 and one IPv6 CIDR. Controllers take blanks around
 * the list, as upstream, and none in it.
 */
export function cidrListProblem(list: string): string | undefined {
  const cidrs = list.trim().split(",");
  if (list.trim() === "") return "cannot be empty";
  const unreadable = cidrs.filter((cidr) => prefixOf(cidr) === undefined);
  if (unreadable.length > 0)
    return `has ${unreadable.map((cidr) => `"${cidr}"`).join(", ")}, which is not a CIDR like 10.244.0.0/16`;
  if (cidrs.length > 2) return `can not contain more than two entries, got ${cidrs.length}`;
  return new Set(cidrs.map((cidr) => prefixOf(cidr)?.family)).size < cidrs.length
    ? `has two CIDRs of the same family ("${list}"); two are allowed only for dual-stack, one IPv4 and one IPv6`
    : undefined;
}

/**
 * Mask sizes of the nodes' Pod CIDRs. `--node-cidr-mask-size` is ignored, and 0 means 24 and 64.
 * Source: cloud-provider-azure `setNodeCIDRMaskSizesDualStack`.
 */
export const nodeMaskSizes = (
  options: Pick<Options, "nodeCidrMaskSizeIpv4" | "nodeCidrMaskSizeIpv6">,
): Readonly<Record<Prefix["family"], number>> => ({
  ipv4: options.nodeCidrMaskSizeIpv4 === 0 ? 24 : options.nodeCidrMaskSizeIpv4,
  ipv6: options.nodeCidrMaskSizeIpv6 === 0 ? 64 : options.nodeCidrMaskSizeIpv6,
});
