import { addressBits, type CIDR, containsAddress, parseCIDR } from "cloud-controller-host/sdk";

/** Address of a server. */
interface Target {
  /** In lower case, an IPv6 address without brackets. */
  readonly host: string;
  readonly port: string;
  /** The host as bytes, if it is an IP address. */
  readonly address: Uint8Array | undefined;
}

const defaultPorts: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };
const loopback = [parseCIDR("127.0.0.0/8"), parseCIDR("::1/128")];

/**
 * The proxy that the environment names for a server; undefined without one, and for one that is neither an http nor an https
 * proxy, which cannot be used. upstream: golang.org/x/net `http/httpproxy`. Its rules are not Bun's, which
 * sends requests to loopback addresses through a proxy.
 */
export function environmentProxy(
  server: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string | undefined {
  const { protocol, hostname, port } = new URL(server);
  const variable = (name: string): string => env[name] || env[name.toLowerCase()] || "";
  const named = variable(protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY");
  if (named === "") return undefined;
  const host = hostname.replaceAll(/[[\]]/gu, "");
  const target = { host, port: port || (defaultPorts[protocol] ?? ""), address: addressOf(host) };
  const excluded = variable("NO_PROXY")
    .split(",")
    .map((entry) => entry.trim().toLowerCase());
  if (isLoopback(target) || excluded.some((entry) => excludes(entry, target))) return undefined;
  const proxy = named.includes("://") ? named : `http://${named}`;
  return /^https?:/iu.test(proxy) ? proxy : undefined;
}

const isLoopback = ({ host, address }: Target): boolean =>
  host === "localhost" || (address !== undefined && loopback.some((cidr) => containsAddress(cidr, address)));

/** True if an entry of `NO_PROXY` excludes a server: `*`, a CIDR, or an address or domain with or without a port. */
function excludes(entry: string, { host, port, address }: Target): boolean {
  if (entry === "*") return true;
  const cidr = cidrOf(entry);
  if (cidr !== undefined) return address !== undefined && containsAddress(cidr, address);
  const [, bracketed, plain = "", ofPort] =
    /^(?:\[(.+)\]|(.*?))(?::(\d+))?$/u.exec(addressOf(entry) ? `[${entry}]` : entry) ?? [];
  const name = bracketed ?? plain;
  if (name === "" || (ofPort !== undefined && ofPort !== port)) return false;
  const single = addressOf(name);
  if (single !== undefined || address !== undefined)
    return single !== undefined && address !== undefined && Buffer.compare(single, address) === 0;
  const domain = name.replace(/^\*(?=\.)/u, "");
  return domain.startsWith(".") ? host.endsWith(domain) : host === domain || host.endsWith(`.${domain}`);
}

function cidrOf(text: string): CIDR | undefined {
  try {
    return parseCIDR(text);
  } catch {
    return undefined;
  }
}

const addressOf = (text: string): Uint8Array | undefined =>
  cidrOf(`${text}/${addressBits[text.includes(":") ? "ipv6" : "ipv4"]}`)?.bytes;
