import { CodedError, type NodeAddress } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

type IP = ipaddr.IPv4 | ipaddr.IPv6;

/**
 * Filters and orders a cloud's addresses by kubelet's `--node-ip`. A type that one of its IPs matches keeps only the
 * matching addresses, in kubelet's order; the other types follow as they are.
 * Source: kubernetes/cloud-provider `node/helpers/address.go`.
 */
export function addressesFromNodeIP(nodeIP: string, fromCloud: readonly NodeAddress[]): readonly NodeAddress[] {
  const parsed = fromCloud.map((entry) => ({ entry, ip: parseIP(entry.address) }));
  const chosen = parseNodeIP(nodeIP).flatMap((requested) => {
    const matching = parsed.filter(({ ip }) => ip !== undefined && sameIP(ip, requested));
    if (matching.length === 0)
      throw new CodedError(
        "NodeIPUnknown",
        `failed to get node address from cloud provider that matches ip: ${requested.toString()}`,
      );
    return matching.map(({ entry }) => entry);
  });
  const decided = new Set(chosen.map(({ type }) => type));
  return [...chosen, ...fromCloud.filter(({ type }) => !decided.has(type))];
}

/** One IP, or one of each family separated by a comma without spaces. Throws for anything else. */
function parseNodeIP(value: string): readonly IP[] {
  const invalid = (why: string): CodedError =>
    new CodedError("NodeIPInvalid", `failed to parse node IP "${value}": ${why}`);
  const ips = value.split(",").map((part) => {
    const ip = parseIP(part);
    if (ip === undefined) throw invalid(`could not parse "${part}"`);
    return ip;
  });
  const [first, second] = ips;
  if (ips.length > 2 || (second !== undefined && first?.kind() === second.kind()))
    throw invalid("must contain either a single IP or a dual-stack pair of IPs");
  if (second !== undefined && ips.some((ip) => ip.range() === "unspecified"))
    throw invalid("dual-stack node IP cannot include '0.0.0.0' or '::'");
  return ips;
}

/** Of `0000:0000:0000:0000:0000:ffff:255.255.255.255`. ipaddr.js takes the square of a text's length. */
const maxLength = 45;
const dottedQuad = /^\d+\.\d+\.\d+\.\d+$/;

/** IPv4 parts are decimal even with leading zeros; an IPv4-mapped IPv6 address is the IPv4 address that it maps. */
function parseIP(text: string): IP | undefined {
  if (text.length > maxLength) return undefined;
  if (dottedQuad.test(text)) {
    const parts = text.split(".").map(Number);
    return parts.every((part) => part <= 255) ? new ipaddr.IPv4(parts) : undefined;
  }
  if (!text.includes(":") || text.includes("%") || !ipaddr.IPv6.isValid(text)) return undefined;
  return ipaddr.process(text);
}

const sameIP = (one: IP, other: IP): boolean => one.toNormalizedString() === other.toNormalizedString();
